"""Builds, and what is done with one: simulation, error analysis, files."""

from __future__ import annotations

from typing import Annotated, Literal

from engine.base.findings import Finding
from engine.build import BuildSummary
from engine.wire.codec import Text, Values, Whole
from engine.wire.graph import Saturation
from engine.wire.method import Task
from engine.wire.names import Arithmetic
from engine.wire.record import record
from engine.wire.requests import ModelTarget
from engine.wire.rounding import RoundingSensitivity

__all__ = [
    "ACCURACY",
    "BUILD",
    "EXPORT",
    "SIMULATE",
    "AccuracyParams",
    "Analysis",
    "BuildParams",
    "BuildSummary",
    "Distance",
    "ExportForm",
    "ExportParams",
    "Exported",
    "LayerAccuracy",
    "SimulateParams",
    "Simulated",
    "SimulatedOutput",
    "TopValue",
]

ExportForm = Literal["rknn", "onnx", "tflite"]


@record
class BuildParams(ModelTarget):
    """A recipe to build; ``refresh`` takes nothing from the cache."""

    refresh: bool = False


@record(kw_only=True)
class SimulateParams(ModelTarget):
    """A container or a recipe, and a file for every input.

    Attributes:
        save: folder for the outputs as npy.
        top: how many of the largest values are told.
        as_compiled: leave out the roundings that the vendor's compiler fuses at level 3.
        arithmetic: of a quantized graph: exact integer kernels, or the float form that the vendor's
            simulator computes.
    """

    inputs: tuple[Text, ...]
    save: Text | None = None
    top: Annotated[int, Whole(0, 10_000)] = 5
    force: bool = False
    as_compiled: bool = False
    arithmetic: Arithmetic = "integer"


@record
class AccuracyParams(ModelTarget):
    """A recipe whose build is analysed.

    Attributes:
        inputs: a file per input, samples one after the other; None: the first calibration sample.
        output_dir: where the snapshot goes.
        damage: whether to measure what the worst layers alone do to the outputs.
        rounding: whether to measure how far other roundings move the net.
    """

    inputs: tuple[Text, ...] | None = None
    output_dir: Text | None = None
    force: bool = False
    damage: bool = False
    rounding: bool = True


@record(kw_only=True)
class ExportParams:
    """A recipe, the file to write, and its form: the container, QDQ ONNX, or TFLite of 8 bits.

    Attributes:
        layers: of ONNX: with the tensors of all layers as outputs, to be compared with a board.
    """

    recipe: Values
    path: Text
    format: ExportForm = "rknn"
    force: bool = False
    refresh: bool = False
    layers: bool = False


@record
class TopValue:
    """One of the largest values of an output, by its place in the flat array."""

    index: int
    value: float


@record
class SimulatedOutput:
    """An output; figures are over its finite values, None where there are none."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    label: str
    top: tuple[TopValue, ...]
    minimum: float | None
    maximum: float | None
    mean: float | None
    not_finite: int


@record
class Simulated:
    """One sample that was run, and how; ``saved``: the files that were written."""

    outputs: tuple[SimulatedOutput, ...]
    seconds: float
    quantized: bool
    saved: tuple[str, ...]
    arithmetic: Arithmetic = "integer"
    as_compiled: bool = False


@record
class Distance:
    """Of a tensor from the reference one; None where it is no number."""

    cosine: float | None
    euclidean: float | None


@record
class LayerAccuracy:
    """The error of one row, simulated; see :class:`engine.accuracy.analyse.LayerAccuracy`.

    Attributes:
        inner: whether the tensor lies inside a layer.
        entire, single: accumulated, and of the layer alone.
        sqnr, own_sqnr: of both, in dB; None without noise.
        own_share, damage: shares of 1; None where they are not known.
    """

    name: str
    op: str
    tensor: str
    node: str
    inner: bool
    aliases: tuple[str, ...]
    entire: Distance | None
    single: Distance | None
    sqnr: float | None
    own_sqnr: float | None
    own_share: float | None
    saturation: Saturation | None
    dtype: str
    sources: tuple[str, ...]
    damage: float | None


@record
class Analysis:
    """The error of every layer over ``samples`` (``over``: which), and the snapshot's files.

    Attributes:
        rounding: None where it was not asked for.
    """

    samples: int
    over: str
    layers: tuple[LayerAccuracy, ...]
    files: tuple[str, ...]
    rounding: RoundingSensitivity | None = None


@record
class Exported:
    """A file that was written; ``more``: the further ones of a model with very many layers."""

    path: str
    format: ExportForm
    bytes: int
    sha256: str
    note: str
    more: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


BUILD = Task("build", BuildParams, BuildSummary)
SIMULATE = Task("simulate", SimulateParams, Simulated)
ACCURACY = Task("accuracy", AccuracyParams, Analysis)
EXPORT = Task("export", ExportParams, Exported)
