"""Models for the real NPU: a build through the vendor's compiler, for one chip or many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from engine.base.findings import Finding
from engine.base.plain import Values
from engine.wire.codec import Between, Text, Whole
from engine.wire.cost import Step
from engine.wire.flags import Flag, Force, Refresh, output_flag
from engine.wire.formats import COUNT
from engine.wire.method import Task
from engine.wire.record import record
from engine.wire.table import ADDED, CYCLES, Column

MOST_SAMPLES = 1000
"""Of a second opinion."""
OWN_SAMPLES = 100
"""Of a folder or list that the user gives for it."""

QuantizedBy = Literal["ours", "vendor", "nobody"]
"""Whose quantization is in the compiled model: ``ours`` through Q/DQ pairs; the ``vendor``'s own,
by its options; ``nobody``: it computes in float16."""


def count_or_path(text: str) -> int | str:
    """A number of samples, or the absolute path of files that there are; else ValueError."""
    if text.isascii() and text.isdigit():
        if int(text) > MOST_SAMPLES:
            raise ValueError(f"{text} samples are more than {MOST_SAMPLES}.")
        return int(text)
    path = Path(text).expanduser()
    if not path.exists():
        raise ValueError(f"{text!r} is no number, and there is no such file or folder.")
    return str(path.absolute())


SamplesFrom = Literal["calibration", "given", "seeded"]
"""What the second opinion ran on: the recipe's dataset, files that the user gave for it, or values
drawn from a fixed seed where there is neither."""


@record(kw_only=True)
class CompileParams:
    """A recipe, the chips, and where the compiled models go.

    Attributes:
        recipe: option name -> value.
        quantizer: None: ours where the dtype has a way through Q/DQ pairs, else the vendor's, with
            a finding.
    """

    recipe: Values
    chips: Annotated[
        tuple[Text, ...],
        Flag(
            name="--chip",
            help="A chip such as rk3588, once per chip. Default: the recipe's target_platform.",
            metavar="CHIP",
            kind="chip",
        ),
    ] = ()
    path: Annotated[
        Text, output_flag("A folder, a file, or a file name with {chip} in it.", "path", "PATH")
    ]
    quantizer: Annotated[
        Literal["ours", "vendor"] | None,
        Flag(
            help="Whose quantization the model has. Default: ours where the toolkit takes it over."
        ),
    ] = None
    toolkit: Annotated[
        Text | None,
        Flag(
            help="The environment (rknntui vendor list). Default: the generation's.", metavar="NAME"
        ),
    ] = None
    samples: Annotated[
        Annotated[int, Whole(0, MOST_SAMPLES)] | Text,
        Flag(
            help="Compare the vendor's simulator with ours on N calibration samples, or on up to "
            f"{OWN_SAMPLES} of your own in a folder or list file. 0: not at all.",
            metavar="N|FOLDER",
            read=count_or_path,
        ),
    ] = 1
    accept_difference: Annotated[
        bool,
        Flag(help="Write the model even where the vendor's simulator computes something else."),
    ] = False
    seconds: Annotated[
        Annotated[float, Between(1, 1e9)] | None,
        Flag(help="End a step of the toolkit that takes longer. Default: no limit.", metavar="S"),
    ] = None
    refresh: Refresh = False
    force: Force = False


# fmt: off
@record(kw_only=True)
class CompiledLayer(Step):
    """A layer as the vendor's compiler printed it, beside our estimate of it.

    Attributes:
        id: ours (``layer.id``); empty where none of ours is it.
        npu_cycles, total_cycles, read_kb: as printed; None on chips where it prints none.
        estimated_npu_cycles, estimated_total_cycles, estimated_target: ours; None where there is no
            layer of this name in our plan.
    """

    id: str = ""
    npu_cycles: Annotated[int | None, ADDED, Column(
        "compiled_npu_cycles", "NPU cycles", COUNT, "Cycles of the NPU, as the compiler printed "
        "them.", width=10)] = None
    total_cycles: Annotated[int | None, ADDED, CYCLES.but(
        key="compiled_total_cycles", help="Its cycles, as the compiler printed them.")] = None
    read_kb: Annotated[int | None, ADDED, Column(
        "", "read KB", COUNT, "KB that it reads, as the compiler printed them.", width=8)] = None
    estimated_npu_cycles: Annotated[int | None, ADDED] = None
    estimated_total_cycles: Annotated[int | None, ADDED] = None
    estimated_target: str | None = None


# fmt: on
@record(kw_only=True)
class OutputAgreement:
    """How near the vendor's simulator is to ours on one output; both are simulated.

    Attributes:
        shapes: of the inputs (``1x3x224x224``) where ``dynamic_input`` has several sets; else
            empty.
        equal: share of values that are equal, 0 to 1.
        unequal: how many are not.
        max_steps: the largest difference in steps of the quantized output; None where it is float.
        sqnr_db: of the vendor's simulator against float; None: no noise.
        our_sqnr_db: of ours against float; None: no noise.
    """

    name: str
    samples: int
    cosine: float
    equal: float
    shapes: str = ""
    unequal: int = 0
    max_steps: int | None = None
    sqnr_db: float | None = None
    our_sqnr_db: float | None = None


@record(kw_only=True)
class FirstApart:
    """The first tensor, in the order of the graph, on which the two simulators differ.

    Attributes:
        tensor: its name in the build.
        op: the operator that computes it.
        equal: share of its values that are equal, 0 to 1.
        max_steps: the largest difference in its steps.
        checked: how many tensors were compared; those before it are equal in every value.
    """

    tensor: str
    op: str
    equal: float
    max_steps: int
    checked: int


@record(kw_only=True)
class SecondOpinion:
    """The vendor's simulator on a compiled model, beside our numbers in the same arithmetic.

    Attributes:
        outputs: one row for each output, and for each set of input shapes.
        samples_from: what it ran on.
        seconds: that it took, measured on this machine; with the search for ``first``.
        problem: why it did not run; empty where it did.
        mismatch: how the outputs are others than the build's, in number or size; else empty.
        file_cosine: the lowest cosine, over the outputs that are much farther from float than the
            build's, of the file that was handed over to the build; None where none is.
        first: where the two part; None where nobody looked, or nothing was found.
    """

    outputs: tuple[OutputAgreement, ...] = ()
    samples_from: SamplesFrom = "calibration"
    seconds: float = 0.0
    problem: str = ""
    mismatch: str = ""
    file_cosine: float | None = None
    first: FirstApart | None = None


@record(kw_only=True)
class WrittenModel:
    """A file that was made of a model.

    Attributes:
        path, size, sha256: of it; empty and 0 where none was made.
        findings: what is to be known of it.
    """

    path: str = ""
    size: int = 0
    sha256: str = ""
    findings: tuple[Finding, ...] = ()


@record(kw_only=True)
class CompilerTable:
    """What the compiler printed of a model, with our estimate.

    Attributes:
        layers: in the compiler's order; empty where it printed no table.
        internal_bytes, weight_bytes: as printed; None where not.
        npu_cycles, total_cycles: sums over the layers; None where none was printed.
        findings: disagreements, by layer.
    """

    layers: tuple[CompiledLayer, ...] = ()
    internal_bytes: int | None = None
    weight_bytes: int | None = None
    npu_cycles: int | None = None
    total_cycles: int | None = None
    findings: tuple[Finding, ...] = ()


@record(kw_only=True)
class Compiled(WrittenModel, CompilerTable):
    """What became of one chip.

    Attributes:
        chip: its name.
        side_file: JSON beside it, with what it was made from.
        toolkit: ``rknn-toolkit2 2.3.2``.
        quantized_by: see :data:`QuantizedBy`.
        cached: whether the compiler was not asked again.
        seconds: of the compiler, measured on this machine.
        estimated_internal_bytes, estimated_weight_bytes: of our plan.
        outputs: the second opinion of the vendor's simulator; empty where not asked for.
        samples_from: what it ran on.
        opinion_seconds: that it took beside ``seconds``, measured; None where not asked for.
        problem, cause, remedy: why nothing was made; empty where something was.
        exit_code: of that problem, as the command line documents it; 0 where there is none.
        log: file with what the toolkit printed.
    """

    chip: str
    side_file: str = ""
    toolkit: str = ""
    quantized_by: QuantizedBy = "ours"
    cached: bool = False
    seconds: float = 0.0
    estimated_internal_bytes: int | None = None
    estimated_weight_bytes: int | None = None
    outputs: tuple[OutputAgreement, ...] = ()
    samples_from: SamplesFrom = "calibration"
    opinion_seconds: float | None = None
    problem: str = ""
    cause: str = ""
    remedy: str = ""
    exit_code: int = 0
    log: str = ""


@record(kw_only=True)
class CompiledModels:
    """The answer of :data:`COMPILE`: one for each chip, in the order asked for."""

    model: str
    chips: tuple[Compiled, ...]


# fmt: off
COMPILE = Task("compile", CompileParams, CompiledModels, "compile", after="vendor",
    about="Compile a build for chips with the vendor's toolkit.",
    example="Example: rknntui compile recipe.yaml --chip rk3588 --chip rv1106 -o out/ --samples 4")
# fmt: on
