"""Scores over labelled samples: how often the float and the simulated model are right.

Labelled samples are an npz with ``samples`` uint8 (N, H, W) or (N, H, W, C) and integer
``labels`` (N,).
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.base.errors import DatasetError
from engine.base.events import Progress, Reporter
from engine.dataset import InputPlan

__all__ = ["Labelled", "Predict", "Score", "read_labelled", "top1"]

Predict = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""Feeds of one sample -> the scores of the classes, of any shape; the largest one is the answer."""

_LIMIT = 1 << 30
_EVERY = 25


@dataclass(frozen=True)
class Labelled:
    """Samples (N, H, W, C) uint8 and their labels (N,) int64."""

    samples: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Score:
    """Top-1 of the float and of the simulated model as shares of 1, and how often both agree."""

    samples: int
    float_top1: float
    simulated_top1: float
    agreement: float

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def read_labelled(path: Path) -> Labelled:
    """Read labelled samples; at most 1 GiB when unpacked, never unpickled.

    Raises:
        DatasetError: missing, damaged, too large, or arrays that do not fit together.
    """
    remedy = "Give an npz with samples uint8 (N, H, W) or (N, H, W, C) and labels (N,)."
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _LIMIT:
                raise DatasetError(f"{path} holds more than 1 GiB.", remedy="Give fewer samples.")
        with np.load(path, allow_pickle=False) as arrays:
            samples, labels = arrays["samples"], arrays["labels"]
    except KeyError as error:
        raise DatasetError(f"{path} has no array {error}.", remedy=remedy) from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        raise DatasetError(f"{path} is not a readable npz file: {error}.", remedy=remedy) from error
    if samples.ndim == 3:
        samples = samples[..., np.newaxis]
    fits = samples.ndim == 4 and samples.dtype == np.uint8 and labels.shape == samples.shape[:1]
    if not fits or labels.dtype.kind not in "iu" or not len(labels):
        shapes = f"samples {samples.dtype} {samples.shape}, labels {labels.dtype} {labels.shape}"
        raise DatasetError(f"{path} has {shapes}.", remedy=remedy)
    return Labelled(samples, labels.astype(np.int64))


def top1(
    golden: Predict, simulated: Predict, labelled: Labelled, plan: InputPlan, reporter: Reporter
) -> Score:
    """Run every sample through both models and count right answers.

    Args:
        golden: the float model.
        simulated: the quantized model here.
        labelled: the samples; their size must be the input's.
        plan: preprocessing of the only input.
        reporter: told every 25 samples; may cancel.

    Raises:
        DatasetError: the samples have another size than the input.
    """
    wanted = (plan.height, plan.width, plan.channels) if plan.takes_pictures else None
    if labelled.samples.shape[1:] != wanted:
        raise DatasetError(
            f"The samples are {labelled.samples.shape[1:]}; input {plan.name} takes {wanted}.",
            remedy="Scale the samples to the input's height, width and channels.",
        )
    answers = np.empty((2, len(labelled.labels)), dtype=np.int64)
    for index, pixels in enumerate(labelled.samples):
        if index % _EVERY == 0:
            reporter.check_cancelled()
            reporter.emit(Progress("score", index, len(labelled.labels)))
        feeds = {plan.name: plan.normalise_pixels(pixels)}
        answers[:, index] = [int(np.argmax(predict(feeds))) for predict in (golden, simulated)]
    right = (answers == labelled.labels).mean(axis=1)
    return Score(
        samples=len(labelled.labels),
        float_top1=float(right[0]),
        simulated_top1=float(right[1]),
        agreement=float((answers[0] == answers[1]).mean()),
    )
