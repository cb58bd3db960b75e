"""The form of the time model: what each quantity of work costs, on arrays over layers.

The same code serves the fit (all layers of all networks at once) and an estimate (one network), so
that what was fitted is what is shipped. Reasons and errors: docs/estimates/derivation.md, "Time".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from engine.cost.timing.work import ACTIVATIONS, CPU_KINDS, LayerWork, Part

Floats = npt.NDArray[np.float64]

NORM = 4.0
"""Multiplying, moving bytes and the output stage work at the same time: a smooth maximum, the
4-norm, as no pipeline overlaps completely."""


Columns = Mapping[str, npt.NDArray[Any]]
"""The work of many layers: a column for each quantity of :class:`LayerWork`, by its name. Shapes
(layers,); float64, and of ``part``, ``activation`` and ``cpu`` int64: the place in its list."""

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "part": get_args(Part),
    "activation": ACTIVATIONS,
    "cpu": CPU_KINDS,
}
_NUMBERS = [each.name for each in fields(LayerWork) if each.name not in (*_CHOICES, "op")]


def columns_of(works: Sequence[LayerWork]) -> Columns:
    """The columns of a sequence of layers; what is not in a list has the place behind its last."""
    columns: dict[str, npt.NDArray[Any]] = {
        name: np.array([getattr(work, name) for work in works], dtype=np.float64)
        for name in _NUMBERS
    }
    for name, names in _CHOICES.items():
        places = {name: at for at, name in enumerate(names)}
        codes = [places.get(getattr(work, name), len(names)) for work in works]
        columns[name] = np.array(codes, dtype=np.int64)
    return columns


@dataclass(frozen=True)
class Speeds:
    """What one core of one chip does in a millisecond, and what things cost on it.

    Attributes:
        cycles: cycles of the MAC array in a millisecond.
        bandwidth: bytes of features in a millisecond.
        weight_bandwidth: bytes of weights in a millisecond.
        lookup: milliseconds of the output stage for one element of the dearest usual activation
            (SiLU).
        activations: cost of each of :data:`ACTIVATIONS` and of none, SiLU = 1.
        vector: cycles to hand one vector of outputs on, beside those of multiplying.
        depthwise, strided: cycles of depthwise and of strided convolutions, over the printed ones.
        copy, elementwise, pool: bytes that such a layer moves, over those of its tensors.
        average: milliseconds of each element in the windows of an average pool, where that is not
            hidden behind its bytes.
        head: milliseconds for each head of a fused attention.
        score: lookups for each element of its score matrix.
        attention: its products and bytes, over those counted.
        task: milliseconds to start a layer.
        cpu_start: milliseconds to hand a layer to the CPU and back.
        cpu: milliseconds for each unit of :attr:`LayerWork.cpu_amount`, by :data:`CPU_KINDS`.
    """

    cycles: float
    bandwidth: float
    weight_bandwidth: float
    lookup: float
    activations: tuple[float, ...]
    vector: float
    depthwise: float
    strided: float
    copy: float
    elementwise: float
    pool: float
    average: float
    head: float
    score: float
    attention: float
    task: float
    cpu_start: float
    cpu: tuple[float, ...]


@dataclass(frozen=True)
class Terms:
    """Milliseconds of each layer: the whole, and each part of it; shapes (layers,).

    The parts do not add up to the whole where they overlap.
    """

    total: Floats
    compute: Floats
    memory: Floats
    activation: Floats
    attention: Floats
    cpu: Floats
    start: Floats


def layer_terms(work: Columns, speeds: Speeds) -> Terms:
    """Milliseconds of each layer on one core."""
    part = {name: work["part"] == at for at, name in enumerate(_CHOICES["part"])}
    cycles = (
        work["cycles"]
        * work["packed"]
        * np.where(work["depthwise"], speeds.depthwise, 1.0)
        * np.where(work["strided"], speeds.strided, 1.0)
        + work["vectors"] * speeds.vector
    )
    compute = cycles / speeds.cycles + work["averaged"] * speeds.average
    moved = work["features"] / speeds.bandwidth + work["weights"] / speeds.weight_bandwidth
    passes = (
        part["array"] * 1.0
        + part["copy"] * speeds.copy
        + (part["elementwise"] | part["softmax"]) * speeds.elementwise
        + part["pool"] * speeds.pool
    )
    memory = moved * passes
    activation = work["lookups"] * np.array((*speeds.activations, 0.0))[work["activation"]]
    activation = (
        activation + np.where(part["softmax"], speeds.score, 0.0) * work["lookups"]
    ) * speeds.lookup
    overlapped = (compute**NORM + memory**NORM + activation**NORM) ** (1 / NORM)
    attention = part["attention"] * (
        speeds.head * work["heads"]
        + speeds.score * speeds.lookup * work["scores"]
        + speeds.attention * (moved + compute)
    )
    cpu = part["cpu"] * (
        speeds.cpu_start + np.array((*speeds.cpu, 0.0))[work["cpu"]] * work["cpu_amount"]
    )
    start = speeds.task * work["tasks"] * ~part["cpu"]
    overlapped = np.where(part["softmax"], memory + activation, overlapped)
    busy = ~(part["attention"] | part["cpu"] | part["nothing"])
    total = np.where(busy, overlapped, 0.0) + attention + cpu + start
    return Terms(
        total,
        np.where(busy, compute, 0.0),
        np.where(busy, memory, 0.0),
        np.where(busy, activation, 0.0),
        attention,
        cpu,
        start,
    )
