"""Builds, and what is done with one: simulation, error analysis, files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from engine.base.errors import UsageError
from engine.base.findings import Finding
from engine.base.plain import Values
from engine.base.text import sanitize
from engine.build import BuildSummary as BuildSummary
from engine.wire.accuracy import RoundingSensitivity
from engine.wire.codec import Key, Text
from engine.wire.flags import (
    Flag,
    Force,
    InputFiles,
    Refresh,
    Rounding,
    SampleFiles,
    Saved,
    Top,
    output_flag,
)
from engine.wire.formats import FIGURE, PERCENT
from engine.wire.method import Task
from engine.wire.model import Saturation, Tensor
from engine.wire.names import Arithmetic
from engine.wire.record import record
from engine.wire.requests import ModelTarget
from engine.wire.table import (
    LOW_COSINE,
    SIMILARITY,
    SQNR,
    Column,
    above,
    below,
    low_db,
    number_of,
    sqnr_of,
)

_CLIPPED = 0.001
"""Share of clipped values above which it has a colour."""
ExportForm = Literal["rknn", "onnx", "tflite"]


@record
class BuildParams(ModelTarget):
    """A recipe to build; ``refresh`` takes nothing from the cache."""

    refresh: Refresh = False


@record(kw_only=True)
class SimulateParams(ModelTarget):
    """A container or a recipe, and a file for every input."""

    inputs: InputFiles
    save: Saved = None
    top: Top = 5
    as_compiled: Annotated[
        bool, Flag(help="Without the roundings that the vendor's compiler fuses at level 3.")
    ] = False
    arithmetic: Annotated[
        Arithmetic,
        Flag(help="Integer kernels, or the float form that the vendor's simulator computes."),
    ] = "integer"
    force: Force = False


@record
class AccuracyParams(ModelTarget):
    """A recipe whose build is analysed."""

    inputs: SampleFiles = None
    output_dir: Annotated[
        Text | None,
        Flag(
            help="Folder for the snapshot and error_analysis.txt, in the vendor's layout.",
            kind="folder",
        ),
    ] = None
    output_impact: Annotated[
        bool,
        Flag(
            name="--damage --output-impact",
            help="Measure the output impact of the worst layers, one at a time.",
        ),
    ] = False
    rounding: Rounding = True
    force: Force = False


def form_of(path: Path) -> ExportForm:
    """The form of an export, by the suffix of its file.

    Raises:
        UsageError: the suffix is none of an export.
    """
    forms: dict[str, ExportForm] = {".rknn": "rknn", ".onnx": "onnx", ".tflite": "tflite"}
    form = forms.get(path.suffix.lower())
    if form is None:
        raise UsageError(
            f"The suffix of {sanitize(path.name, 100)} is none that says what is written.",
            cause=f"Known are {', '.join(forms)}.",
            remedy=f"Name it {sanitize(path.stem, 100)}.rknn, or say the form: "
            "rknntui export --format.",
        )
    return form


@record(kw_only=True)
class ExportParams:
    """A recipe, the file to write, and its form; ``format`` None: as the file's suffix says."""

    recipe: Values
    path: Annotated[Text, output_flag("The file to write.")]
    format: Annotated[
        ExportForm | None,
        Flag(
            help="rknn: our container; onnx: QDQ ONNX (opset 19) for rknn-toolkit2; tflite: 8-bit "
            "TFLite. Default: the suffix.",
        ),
    ] = None
    layers: Annotated[
        bool,
        Flag(help="ONNX with all layers as outputs, to be compiled and compared with a board."),
    ] = False
    refresh: Refresh = False
    force: Force = False


@record
class TopValue:
    """One of the largest values of an output, by its place in the flat array."""

    index: int
    value: float


@record
class BesideFloat:
    """An output against that of the float graph, of one sample.

    Attributes:
        sqnr_db: None without noise.
        largest: the greatest difference of two values; None where one is no number.
        top: the largest values in float.
        at: the values in float at the places of the output's own largest ones.
    """

    sqnr_db: float | None
    cosine: float
    largest: float | None
    top: tuple[TopValue, ...]
    at: tuple[float | None, ...]


@record
class SimulatedOutput(Tensor):
    """An output; figures are over its finite values, None where there are none.

    Attributes:
        beside: how far it is from float; None where the float graph is not known.
    """

    label: str
    top: tuple[TopValue, ...]
    minimum: float | None
    maximum: float | None
    mean: float | None
    not_finite: int
    beside: BesideFloat | None = None


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


# fmt: off
@record
class LayerAccuracy:
    """The error of one tensor of a build against the float graph; simulated.

    Attributes:
        id: of the layer, or the node of an input or of a tensor inside a layer.
        op: the layer's operator, ``Input``, or ``exDataConvert`` for an input as it is quantized.
        tensor: its name as files and tables show it.
        node: of the float graph.
        inner: whether the tensor lies inside a layer.
        aliases: every name that the layer has.
        dtype: of the tensor in the quantized graph; empty where it was fused away.
        sources: the nodes of the source model whose work the layer does.
        cumulative: with all errors of the layers before, the mean over the samples; None for a
            tensor that was fused into the next layer.
        isolated: of this layer alone, on float inputs.
        sqnr, isolated_sqnr: of both in dB, all samples together; None without noise.
        added_share: how much of the tensor's squared error this layer adds by itself, 0 to 1; the
            rest is inherited. None without any error.
        saturation: how many float values the quantized tensor cannot hold.
        output_impact: share of the error at the outputs that this layer alone causes; None where
            it was not measured (see :func:`engine.accuracy.output_impact.with_output_impact`).
    """

    id: Annotated[str, Key("name")]
    op: str
    tensor: str
    node: str
    inner: bool
    aliases: tuple[str, ...]
    dtype: str
    sources: tuple[str, ...]
    cumulative: Annotated[
        Distance | None,
        Column("cosine", "cumul. cos", SIMILARITY, "Cumulative cosine.", number_of("cumulative"),
               style=below(LOW_COSINE)),
        Column("euclidean", "cumul. euc", FIGURE, "Cumulative Euclidean distance.",
               number_of("cumulative", "euclidean")),
    ] = None
    isolated: Annotated[
        Distance | None,
        Column("isolated_cosine", "isol. cos", SIMILARITY, "Isolated cosine.",
               number_of("isolated"), style=below(LOW_COSINE)),
        Column("isolated_euclidean", "isol. euc", FIGURE, "Isolated Euclidean distance.",
               number_of("isolated", "euclidean")),
    ] = None
    sqnr: float | None = None
    isolated_sqnr: Annotated[
        float | None,
        Column("", "isol. dB", SQNR, "Isolated SQNR: this layer alone, float inputs.",
               sqnr_of("isolated", "isolated_sqnr"), style=low_db),
    ] = None
    added_share: Annotated[
        float | None,
        Column("", "added %", PERCENT, "Share of its error that the layer adds itself.", width=7),
    ] = None
    saturation: Annotated[
        Saturation | None,
        Column("", "clip %", PERCENT, "Share of float values outside the integer range.",
               lambda own: own.saturation and own.saturation.low + own.saturation.high,
               width=6, style=above(_CLIPPED)),
    ] = None
    output_impact: Annotated[
        float | None,
        Column("", "impact %", PERCENT, "Error at the outputs that this layer alone causes, as a "
               "share of that of the model.", width=8),
    ] = None


# fmt: on
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


# fmt: off
BUILD = Task("build", BuildParams, BuildSummary, "build", after="recipe",
    about="Load, optimise, calibrate, quantize and evaluate a model.")
SIMULATE = Task("simulate", SimulateParams, Simulated, "simulate", after="Judge",
    about="Run inputs through a build or a container on this machine.",
    example="TARGET is a model file, a recipe or an rknntui container (.rknn).")
ACCURACY = Task("accuracy", AccuracyParams, Analysis, "accuracy", after="simulate",
    about="Rank the layers of a build by their quantization error.")
EXPORT = Task("export", ExportParams, Exported, "export", after="build",
    about="Write a build as .rknn container, QDQ ONNX for the vendor's compiler, or TFLite.")
# fmt: on
