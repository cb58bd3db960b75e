"""Calibration datasets: from the vendor's ``dataset.txt`` to what the network sees.

The same code reads for calibration, simulation, accuracy analysis and preview. One sample at a
time is in memory, beside pictures that are kept within a budget for who reads them again.
"""

from __future__ import annotations

from engine.dataset.checks import check
from engine.dataset.dataset_list import (
    Dataset,
    MadeDataset,
    dataset_digest,
    dataset_from_paths,
    file_digest,
    make_dataset,
    read_dataset,
)
from engine.dataset.preprocess import InputPlan, Preprocess, passed_through, prepare_array
from engine.dataset.preview import preview
from engine.dataset.samples import SampleStream, require_files, samples

__all__ = [
    "Dataset",
    "InputPlan",
    "MadeDataset",
    "Preprocess",
    "SampleStream",
    "check",
    "dataset_digest",
    "dataset_from_paths",
    "file_digest",
    "make_dataset",
    "passed_through",
    "prepare_array",
    "preview",
    "read_dataset",
    "require_files",
    "samples",
]
