"""The form of the time model: what each quantity of work costs, on arrays over layers.

The same code serves the fit (all layers of all networks at once) and an estimate (one network), so
that what was fitted is what is shipped. Reasons and errors: docs/estimates/derivation.md, "Time".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.cost.timing.work import ACTIVATIONS, CPU_KINDS, LayerWork

__all__ = ["NORM", "Columns", "Speeds", "Terms", "columns_of", "layer_terms"]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

NORM = 4.0
"""Multiplying, moving bytes and the output stage work at the same time: a smooth maximum, the
4-norm, as no pipeline overlaps completely."""


@dataclass(frozen=True)
class Columns:
    """The work of many layers, a column each; shapes (layers,)."""

    part: Mapping[str, Flags]
    tasks: Floats
    cycles: Floats
    packed: Floats
    vectors: Floats
    depthwise: Flags
    strided: Flags
    features: Floats
    weights: Floats
    activation: Ints
    lookups: Floats
    averaged: Floats
    heads: Floats
    scores: Floats
    cpu: Ints
    cpu_amount: Floats


_PARTS = ("array", "copy", "elementwise", "pool", "attention", "softmax", "cpu", "nothing")


def columns_of(works: Sequence[LayerWork]) -> Columns:
    """The columns of a sequence of layers."""

    def floats(name: str) -> Floats:
        return np.array([getattr(each, name) for each in works], dtype=np.float64)

    def flags(name: str) -> Flags:
        return np.array([getattr(each, name) for each in works], dtype=np.bool_)

    def index(name: str, names: Sequence[str]) -> Ints:
        places: dict[Any, int] = {each: at for at, each in enumerate(names)}
        return np.array(
            [places.get(getattr(each, name), len(names)) for each in works], dtype=np.int64
        )

    parts = np.array([each.part for each in works], dtype=object)
    return Columns(
        part={name: np.asarray(parts == name, dtype=np.bool_) for name in _PARTS},
        tasks=floats("tasks"),
        cycles=floats("cycles"),
        packed=floats("packed"),
        vectors=floats("vectors"),
        depthwise=flags("depthwise"),
        strided=flags("strided"),
        features=floats("features"),
        weights=floats("weights"),
        activation=index("activation", ACTIVATIONS),
        lookups=floats("lookups"),
        averaged=floats("averaged"),
        heads=floats("heads"),
        scores=floats("scores"),
        cpu=index("cpu", CPU_KINDS),
        cpu_amount=floats("cpu_amount"),
    )


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
    part = work.part
    cycles = (
        work.cycles
        * work.packed
        * np.where(work.depthwise, speeds.depthwise, 1.0)
        * np.where(work.strided, speeds.strided, 1.0)
        + work.vectors * speeds.vector
    )
    compute = cycles / speeds.cycles + work.averaged * speeds.average
    moved = work.features / speeds.bandwidth + work.weights / speeds.weight_bandwidth
    passes = (
        part["array"] * 1.0
        + (part["copy"]) * speeds.copy
        + (part["elementwise"] | part["softmax"]) * speeds.elementwise
        + part["pool"] * speeds.pool
    )
    memory = moved * passes
    activation = work.lookups * np.array((*speeds.activations, 0.0))[work.activation]
    activation = (
        activation + np.where(part["softmax"], speeds.score, 0.0) * work.lookups
    ) * speeds.lookup
    overlapped = (compute**NORM + memory**NORM + activation**NORM) ** (1 / NORM)
    attention = part["attention"] * (
        speeds.head * work.heads
        + speeds.score * speeds.lookup * work.scores
        + speeds.attention * (moved + compute)
    )
    cpu = part["cpu"] * (
        speeds.cpu_start + np.array((*speeds.cpu, 0.0))[work.cpu] * work.cpu_amount
    )
    start = speeds.task * work.tasks * ~part["cpu"]
    serial = part["softmax"]
    overlapped = np.where(serial, memory + activation, overlapped)
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
