"""Numeric check of a conversion: the difference of two sets of outputs, and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

REFERENCE = "reference.npz"
"""File beside a converted ONNX file: what its framework gave for some inputs."""

Run = tuple[Sequence[np.ndarray], Sequence[np.ndarray]]
"""Inputs and outputs of a run, in order."""

FLOAT_TOLERANCE = 1e-5
"""Of float outputs, times the largest magnitude of the expected output."""

SMALLEST_PEAK = 1e-3
"""Outputs that stay below are measured against this: what is left there may be rounding alone."""

FLIPPED_SHARE = 1e-3
"""Share of the elements of an integer output (an argmax, say) that rounding may turn."""


@dataclass(frozen=True)
class NumericCheck:
    """The worst of several outputs.

    Attributes:
        error: largest absolute difference of a float output, divided by the largest magnitude of
            that output (at least ``SMALLEST_PEAK``): a softmax over 1,000 classes is small.
        flipped: largest share of differing elements among the outputs of integers and booleans.
        misfit: in words, where shape, type or count differ; empty where they do not.
    """

    error: float = 0.0
    flipped: float = 0.0
    misfit: str = ""

    @property
    def exact(self) -> bool:
        """Whether every element is the same."""
        return not self.misfit and self.error == 0.0 and self.flipped == 0.0

    def within(self, tolerance: float) -> bool:
        """Whether float outputs are within ``tolerance`` and the others within their share."""
        return not self.misfit and self.error <= tolerance and self.flipped <= FLIPPED_SHARE

    def worse(self, other: NumericCheck) -> NumericCheck:
        """The worse of both in each respect."""
        return NumericCheck(
            max(self.error, other.error),
            max(self.flipped, other.flipped),
            self.misfit or other.misfit,
        )


def compare_outputs(expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> NumericCheck:
    """Compare outputs in order; NaN equals NaN, an infinity only itself."""
    if len(expected) != len(found):
        return NumericCheck(misfit=f"{len(found)} outputs instead of {len(expected)}")
    worst = NumericCheck()
    for number, (want, got) in enumerate(zip(expected, found, strict=True)):
        worst = worst.worse(_of_one(number, want, got))
    return worst


def _of_one(number: int, want: np.ndarray, got: np.ndarray) -> NumericCheck:
    if want.shape != got.shape or want.dtype != got.dtype:
        return NumericCheck(
            misfit=f"output {number} is {got.dtype}{list(got.shape)} instead of "
            f"{want.dtype}{list(want.shape)}"
        )
    if not want.size:
        return NumericCheck()
    if want.dtype.kind != "f":
        return NumericCheck(flipped=float(np.mean(want != got)))
    wide, other = want.astype(np.float64), got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.where(wide == other, 0.0, np.abs(wide - other))
    apart[np.isnan(wide) & np.isnan(other)] = 0.0
    finite = np.abs(wide[np.isfinite(wide)])
    peak = max(SMALLEST_PEAK, float(finite.max())) if finite.size else 1.0
    worst = float(apart.max())
    return NumericCheck(error=float("inf") if np.isnan(worst) else worst / peak)


def save_reference(onnx_file: Path, runs: Sequence[Run]) -> None:
    """Write what a framework gave beside the ONNX file of its model."""
    arrays = {
        f"{number}:{kind}:{index:06}": array
        for number, run in enumerate(runs)
        for kind, arrays in zip(("in", "out"), run, strict=True)
        for index, array in enumerate(arrays)
    }
    np.savez(onnx_file.with_name(REFERENCE), allow_pickle=False, **arrays)


def load_reference(onnx_file: Path) -> list[Run]:
    """What :func:`save_reference` wrote."""
    runs: dict[int, tuple[list[np.ndarray], list[np.ndarray]]] = {}
    with np.load(onnx_file.with_name(REFERENCE), allow_pickle=False) as stored:
        for name in stored.files:  # in the order in which they were written
            number, kind, _ = name.split(":")
            runs.setdefault(int(number), ([], []))[kind == "out"].append(stored[name])
    return list(runs.values())
