"""What calibration saw: ranges and histograms of tensors, and mean inputs of weighted layers."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from engine.base.content import reading
from engine.base.errors import QuantizationError
from engine.base.plain import JsonObject, JsonValue
from engine.base.text import did_you_mean, sanitize
from engine.quantize.calibration.histograms import Histogram
from engine.wire.codec import encode, typed

_FACTS, _ARRAYS = "observations.json", "observations.npz"


@dataclass(frozen=True)
class Observation:
    """The values of one tensor over all samples.

    Attributes:
        minimum, maximum: the smallest and the largest of all values, in the tensor's unit.
        histogram: of the values at fixed places of every sample; None where none was kept.
        peaks: the largest absolute value of every channel (axis 1); None where none were kept.
    """

    minimum: float
    maximum: float
    histogram: Histogram | None = None
    peaks: tuple[float, ...] | None = None


@dataclass(frozen=True, eq=False)
class MeanInput:
    """What a weighted layer's weights are multiplied with, summed over output positions.

    Attributes:
        total: float64, ``(channels, *kernel)``; ``(channels,)`` of a Gemm or MatMul.
        positions: how many output positions were summed, padding included.
    """

    total: np.ndarray
    positions: float

    @property
    def mean(self) -> np.ndarray:
        """The mean over output positions; of the shape of ``total``."""
        return self.total / max(self.positions, 1.0)

    def plus(self, other: MeanInput) -> MeanInput:
        """The sum over the positions of both."""
        return MeanInput(self.total + other.total, self.positions + other.positions)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, MeanInput)
            and self.positions == other.positions
            and np.array_equal(self.total, other.total)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays have none


@dataclass(frozen=True)
class _Ranges:
    """Observations as plain data: tensor -> (minimum, maximum)."""

    samples: int
    tensors: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Observations:
    """What calibration saw; frozen, and the same for the same graph and samples.

    Attributes:
        samples: number of samples.
        tensors: tensor name -> observation, in the order of the graph.
        inputs: name of a weighted node -> the mean of its input.
    """

    samples: int
    tensors: Mapping[str, Observation]
    inputs: Mapping[str, MeanInput] = field(default_factory=dict)

    def __getitem__(self, tensor: str) -> Observation:
        observation = self.tensors.get(tensor)
        if observation is None:
            raise QuantizationError(
                f"Tensor {sanitize(tensor)!r} was not watched during calibration.",
                cause="The observations belong to another graph.",
                remedy=did_you_mean(tensor, self.tensors) or "Calibrate again.",
            )
        return observation

    def to_json(self) -> dict[str, JsonValue]:
        """Ranges as plain data: ``{"samples": n, "tensors": {name: [minimum, maximum]}}``."""
        tensors = {name: (seen.minimum, seen.maximum) for name, seen in self.tensors.items()}
        return encode(_Ranges(self.samples, tensors))

    @classmethod
    def from_json(cls, data: JsonObject) -> Observations:
        """Rebuild :meth:`to_json`: without histograms and mean inputs.

        Raises:
            QuantizationError: the data is malformed.
        """
        try:
            seen = typed(_Ranges, {name: data[name] for name in ("samples", "tensors")})
            tensors = {
                name: Observation(float(low), float(high))
                for name, (low, high) in seen.tensors.items()
            }
            return cls(seen.samples, tensors)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise _malformed(error) from error

    def to_files(self) -> dict[str, bytes]:
        """Everything, as a JSON file and an npz file of plain arrays; floats lose no bit."""
        kept = [(name, o.histogram) for name, o in self.tensors.items() if o.histogram is not None]
        peaks = {name: o.peaks for name, o in self.tensors.items() if o.peaks is not None}
        facts = self.to_json() | {
            "histograms": {name: int(histogram.codes.size) for name, histogram in kept},
            "peaks": {name: len(own) for name, own in peaks.items()},
            "inputs": {name: [list(m.total.shape), m.positions] for name, m in self.inputs.items()},
        }
        counts = _joined([histogram.counts for _, histogram in kept], np.int64)
        if counts.max(initial=0) < 1 << 32:  # as good as always
            counts = counts.astype(np.uint32)
        arrays = {
            "codes": _joined([histogram.codes for _, histogram in kept], np.int32),
            "counts": counts,
            "peaks": _joined([np.array(own) for own in peaks.values()], np.float64),
            "totals": _joined([m.total.reshape(-1) for m in self.inputs.values()], np.float64),
        }
        archive = io.BytesIO()
        np.savez(archive, allow_pickle=False, **arrays)  # compressed it takes 15 times as long
        return {_FACTS: json.dumps(facts).encode(), _ARRAYS: archive.getvalue()}

    @classmethod
    @reading(lambda why: _malformed(ValueError(why)))
    def from_files(cls, files: Mapping[str, bytes]) -> Observations:
        """Rebuild :meth:`to_files`; other files in the mapping do not matter.

        Raises:
            QuantizationError: a file is missing or malformed.
        """
        facts = json.loads(files[_FACTS])
        ranges = cls.from_json(facts)
        with np.load(io.BytesIO(files[_ARRAYS]), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in ("codes", "counts", "peaks", "totals")}
        shapes = {str(name): (shape, at) for name, (shape, at) in facts["inputs"].items()}
        counts = _cut(arrays["counts"].astype(np.int64), facts["histograms"])
        histograms = {
            name: Histogram(codes, counts[name])
            for name, codes in _cut(arrays["codes"], facts["histograms"]).items()
        }
        peaks = _cut(arrays["peaks"], facts["peaks"])
        sizes = {name: math.prod(shape) for name, (shape, _) in shapes.items()}
        inputs = {
            name: MeanInput(part.reshape(shapes[name][0]), float(shapes[name][1]))
            for name, part in _cut(arrays["totals"], sizes).items()
        }
        tensors = {
            name: Observation(
                seen.minimum,
                seen.maximum,
                histograms.get(name),
                tuple(peaks[name].tolist()) if name in peaks else None,
            )
            for name, seen in ranges.tensors.items()
        }
        return cls(ranges.samples, tensors, inputs)


def _joined(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype), *parts])


def _cut(joined: np.ndarray, lengths: Mapping[str, int]) -> dict[str, np.ndarray]:
    """The pieces of an array; raises ``ValueError`` where the lengths do not add up to it."""
    ends = np.cumsum([0, *lengths.values()])
    if min(lengths.values(), default=0) < 0 or int(ends[-1]) != len(joined):
        raise ValueError(f"{len(joined)} values for pieces of {int(ends[-1])}")
    return {
        str(name): joined[start:end]
        for name, (start, end) in zip(lengths, pairwise(ends), strict=True)
    }


def _malformed(error: Exception) -> QuantizationError:
    return QuantizationError(
        f"The observations are malformed: {sanitize(repr(error), 200)}.",
        cause="They were damaged or written by another program.",
        remedy="Calibrate again.",
    )
