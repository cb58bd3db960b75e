"""Sanity checks of a calibration dataset: figures, the likely cause, and a remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.base.findings import Finding
from engine.dataset.dataset_list import Dataset
from engine.dataset.inspect import DatasetStats, duplicate_files
from engine.dataset.preprocess import InputPlan
from engine.dataset.sanity.arrays import ARRAY_CHECKS
from engine.dataset.sanity.images import IMAGE_CHECKS
from engine.dataset.sanity.messages import name_of

_FEW = 20
"""The manuals advise 20 to 100 samples [RKNN-T2 1.1.0, 3.5.2; RKNN-T2 2.3.0, 2.2]."""


def sanity_findings(
    dataset: Dataset,
    plans: Sequence[InputPlan],
    looks: DatasetStats,
    *,
    one_option: bool = False,
) -> tuple[Finding, ...]:
    """What is doubtful about a dataset for these inputs.

    Args:
        dataset: as it was read.
        plans: preprocessing of each input.
        looks: figures of samples of it.
        one_option: whether mean and std come from generation 1's ``channel_mean_value``, which
            a remedy then changes.
    """
    findings = [*_count(dataset), *_copies(dataset)]
    for index, plan in enumerate(plans):
        images, arrays = looks.images[index], looks.arrays[index]
        for check in IMAGE_CHECKS if images else ():
            findings += check(plan, images, plans)
        for check_array in ARRAY_CHECKS if arrays else ():
            findings += check_array(plan, arrays, plans)
    return tuple(_in_one_option(f) if one_option else f for f in findings)


def _in_one_option(finding: Finding) -> Finding:
    """A remedy in the terms of ``channel_mean_value``: means, then the one scale."""
    changes = dict(finding.changes)
    means, stds = changes.pop("mean_values", None), changes.pop("std_values", None)
    if means is not None and stds is not None:
        changes["channel_mean_value"] = [
            [*mean, std[0]] for mean, std in zip(means, stds, strict=True)
        ]
    return replace(finding, changes=changes)


def _count(dataset: Dataset) -> Iterator[Finding]:
    count = len(dataset)
    if count == 1:
        yield Finding(
            "only-one-sample",
            "warning",
            "dataset",
            "There is only one sample: its largest values become the limits of every tensor.",
            cause="Whatever is brighter, larger or elsewhere in another image is cut off there.",
            remedy=f"Give {_FEW} to 100 samples of what the deployed program will see.",
        )
    elif count < _FEW:
        yield Finding(
            "samples-few",
            "warning",
            "dataset",
            f"There are {count} samples; the vendor's manuals advise {_FEW} to 100.",
            cause="Ranges that few samples show are too narrow for others.",
            remedy="Add samples of what the deployed program will see.",
        )


def _copies(dataset: Dataset) -> Iterator[Finding]:
    pairs = duplicate_files(dataset)
    if pairs:
        copy, first = pairs[0]
        yield Finding(
            "files-equal",
            "warning",
            "dataset",
            f"{len(pairs)} files hold what another one holds, such as {name_of(copy)} and "
            f"{name_of(first)}.",
            cause="They were copied under other names.",
            remedy="Remove the copies: they cost time and weigh what they show twice.",
        )
