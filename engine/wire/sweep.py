"""Many builds of one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from engine.base.errors import EngineError
from engine.base.findings import Finding
from engine.base.plain import Values
from engine.base.text import did_you_mean, sanitize
from engine.options import OPTIONS, option
from engine.wire.codec import Omit, Text, Whole
from engine.wire.flags import Flag, Nested
from engine.wire.method import Part, Task
from engine.wire.names import ROW_KIND
from engine.wire.record import record

Axes = Mapping[str, tuple[Any, ...]]
"""Option -> the values that it takes."""


def _read_axis(text: str) -> tuple[str, tuple[Any, ...]]:
    """``OPTION=VALUE,VALUE``."""
    name, _, values = text.partition("=")
    name = name.strip().replace("-", "_")
    known = [choice.name for choice in OPTIONS]
    if name not in known or not values.strip(","):
        near = did_you_mean(name, known) or "Write it as OPTION=VALUE,VALUE."
        raise ValueError(f"{sanitize(text, 80)!r} names no option and its values. {near}")
    try:
        return name, tuple(option(name).parse(value) for value in values.split(",") if value)
    except EngineError as error:
        raise ValueError(f"{error.what} {error.remedy}".strip()) from None


def _write_axis(axis: tuple[str, Sequence[Any]]) -> str:
    name, values = axis
    return f"{name}={','.join(option(name).render(value) for value in values)}"


@record
class Cluster:
    """A Dask scheduler elsewhere, and PEM files to prove who is who."""

    address: Annotated[
        Text, Flag(name="--cluster", help="Address of a Dask scheduler, as tls://HOST:8786.")
    ]
    authority: Annotated[
        Omit[Text],
        Flag(name="--tls-ca", help="PEM file of the certificate authority.", kind="file"),
    ] = None
    certificate: Annotated[
        Omit[Text], Flag(name="--tls-cert", help="PEM file of your certificate.", kind="file")
    ] = None
    key: Annotated[
        Omit[Text], Flag(name="--tls-key", help="PEM file of your key.", kind="file")
    ] = None


@record
class SweepParams:
    """A recipe and the axes.

    Attributes:
        recipes: further recipes, in the place of ``recipe`` alone.
    """

    recipe: Values
    axes: Annotated[
        Axes | None,
        Flag(
            name="--axis",
            help="An option and its values; once per axis.",
            metavar="OPTION=VALUE,VALUE",
            required=True,
            read=_read_axis,
            write=_write_axis,
        ),
    ] = None
    recipes: tuple[Values, ...] | None = None
    evaluation: Annotated[
        str | None,
        Flag(
            help="Compare on this dataset instead of the calibration samples.",
            kind="path",
        ),
    ] = None
    workers: Annotated[
        Annotated[int, Whole(1, 256)] | None,
        Flag(help="Local processes. Default: number of CPUs."),
    ] = None
    cluster: Annotated[Cluster | None, Nested(needs="address")] = None


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


# fmt: off
SWEEP = Task("sweep", SweepParams, Sweep, "sweep", after="export",
    about="Build with many option values and compare the builds.",
    example="TARGET is a model file or a recipe; flags override the recipe. Example: rknntui "
    "sweep recipe.yaml --axis quantized_algorithm=normal,mmse,accurate --axis "
    "quantized_method=channel,layer")
# fmt: on
ROW = Part(ROW_KIND, IndexedRow)
