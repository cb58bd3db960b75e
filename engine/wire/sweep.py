"""Many builds of one model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from engine.base.findings import Finding
from engine.wire.codec import Omit, Text, Values
from engine.wire.method import Part, Task
from engine.wire.names import ROW_KIND
from engine.wire.record import record

__all__ = ["ROW", "SWEEP", "Axes", "Cluster", "IndexedRow", "Output", "Row", "Sweep", "SweepParams"]

Axes = Mapping[str, tuple[Any, ...]]
"""Option -> the values that it takes."""


@record
class Cluster:
    """A Dask scheduler elsewhere, and PEM files to prove who is who."""

    address: Text
    authority: Omit[Text] = None
    certificate: Omit[Text] = None
    key: Omit[Text] = None


@record
class SweepParams:
    """A recipe and the axes.

    Attributes:
        recipes: further recipes, in the place of ``recipe`` alone.
        evaluation: a dataset other than the calibration's to compare on.
        workers: processes on this machine; None: one for each CPU.
    """

    recipe: Values
    axes: Axes | None = None
    recipes: tuple[Values, ...] | None = None
    evaluation: str | None = None
    workers: int | None = None
    cluster: Cluster | None = None


@record
class Output:
    """An output of a build against float; ``sqnr_db`` None: equal."""

    name: str
    sqnr_db: float | None
    cosine: float | None
    samples: int
    label: str


@record(kw_only=True)
class Row:
    """One build.

    Attributes:
        values: what the axes have in it.
        outputs, samples, bytes, findings, seconds: of a build that is done; ``bytes`` of its
            quantized graph, ``seconds`` measured.
        error: of one that failed.
    """

    values: Values
    state: Literal["done", "failed"]
    outputs: Omit[tuple[Output, ...]] = None
    samples: Omit[int] = None
    bytes: Omit[int] = None
    findings: Omit[tuple[Finding, ...]] = None
    seconds: Omit[float] = None
    error: Omit[dict[str, str | int]] = None


@record(kw_only=True)
class IndexedRow(Row):
    """A row, told as soon as it is there, and its place among all."""

    index: int


@record
class Sweep:
    """The rows in their order; ``compared_on``: which samples the figures are over."""

    axes: Axes
    rows: tuple[Row, ...]
    left_out: int
    compared_on: str
    label: str


SWEEP = Task("sweep", SweepParams, Sweep)
ROW = Part(ROW_KIND, IndexedRow)
