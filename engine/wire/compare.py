"""A build compared three ways on identical bytes: golden, simulator, board."""

from __future__ import annotations

from typing import Annotated

from engine.wire.accuracy import RoundedLayer, RoundingSensitivity
from engine.wire.codec import Key, Text
from engine.wire.devices import BoardAnswer
from engine.wire.flags import Board, Flag, Force, Rounding, SampleFiles
from engine.wire.formats import FIGURE, PERCENT
from engine.wire.method import Task
from engine.wire.record import record
from engine.wire.requests import ModelTarget
from engine.wire.table import (
    LOW_COSINE,
    SIMILARITY,
    SQNR,
    Column,
    below,
    low_db,
    number_of,
    sqnr_of,
)


@record(kw_only=True)
class CompareParams(ModelTarget):
    """A recipe, the board, and one sample.

    Attributes:
        compiled: a compiled model whose outputs are layers of the build, made by the vendor's
            toolkit from what ``export --layers`` writes, or the deployed model, whose outputs are
            the model's alone; None where the board is emulated: the build runs there.
        layers: ids; None: all that the model gives.
    """

    device: Board = None
    inputs: SampleFiles = None
    compiled: Annotated[
        Text | None,
        Flag(
            help="The compiled model of the same build, whose outputs are its layers.", kind="file"
        ),
    ] = None
    layers: Annotated[
        tuple[Text, ...] | None,
        Flag(name="--layer", help="Compare only this layer; repeatable.", metavar="ID"),
    ] = None
    output_dir: Annotated[
        Text | None, Flag(help="Folder for the tensors of all three sides.", kind="folder")
    ] = None
    rounding: Rounding = True
    force: Force = False


@record
class Difference:
    """Of one side from another: cosine, SQNR in dB (None without noise), greatest difference."""

    cosine: float | None
    sqnr: float | None
    maximum: float | None


# fmt: off
@record
class ComparedLayer:
    """A layer's tensor on the three sides.

    Attributes:
        id: of the layer.
        tensor: that was compared.
        op, dtype: of the layer.
        simulator: simulator against golden: what quantization does.
        board: board against golden.
        between: board against simulator, both from the model's inputs on.
        steps: the greatest difference of ``between`` in quantization steps; None where the tensor
            is not quantized.
        diverges: whether ``own`` is more than rounding explains.
        own: board against what the simulator makes of the tensors that the board gave before: this
            layer alone.
        own_steps: the greatest difference of ``own`` in steps.
        moved: share of the values of ``own`` that are another integer; None as ``steps``.
        inside: ids of layers before this one that the board did not give: ``own`` is theirs too.
        rounding: how far other roundings move this tensor in the simulator: ``between`` beside it
            says whether the board is further away than that; None where it was not measured.
    """

    id: Annotated[str, Key("name")]
    tensor: str
    op: str
    dtype: str
    simulator: Annotated[
        Difference,
        Column("simulator_db", "sim. dB", SQNR, "Simulator against float: what quantization costs.",
               sqnr_of("simulator"), style=low_db),
        Column("simulator_cos", "sim. cos", SIMILARITY, "Cosine of simulator and float.",
               number_of("simulator"), style=below(LOW_COSINE)),
    ]
    board: Annotated[
        Difference,
        Column("board_db", "board dB", SQNR, "Board against float.", sqnr_of("board"),
               style=low_db),
        Column("board_cos", "board cos", SIMILARITY, "Cosine of board and float.",
               number_of("board"), style=below(LOW_COSINE)),
    ]
    between: Annotated[
        Difference,
        Column("between_db", "b-s dB", SQNR, "Board against simulator, from the input on.",
               sqnr_of("between"), style=low_db),
        Column("between_cos", "b-s cos", SIMILARITY, "Cosine of board and simulator.",
               number_of("between"), style=below(LOW_COSINE)),
        Column("between_max", "b-s max", FIGURE, "Greatest difference of board and simulator.",
               "between.maximum"),
    ]
    steps: Annotated[
        float | None,
        Column("", format=FIGURE, help="Board against simulator in steps, at most.", width=6),
    ] = None
    diverges: Annotated[
        bool,
        Column("", help="Whether that is more than rounding explains.",
               value=lambda own: "diverges" if own.diverges else None, from_width=1),
    ] = False
    own: Annotated[
        Difference | None,
        Column("own_db", "alone dB", SQNR, "Board against simulator of this layer alone, on the "
               "board's inputs.", sqnr_of("own"), style=low_db),
    ] = None
    own_steps: Annotated[
        float | None,
        Column("", "alone steps", FIGURE, "The same in steps of its integers, at most.", width=11),
    ] = None
    moved: Annotated[
        float | None,
        Column("", "moved %", PERCENT, "Values that are another integer, this layer alone.",
               width=7),
    ] = None
    inside: tuple[str, ...] = ()
    rounding: RoundedLayer | None = None


# fmt: on
@record(kw_only=True)
class Comparison(BoardAnswer):
    """What a comparison found.

    Attributes:
        layers: in the order of the graph.
        first: id of the first layer that diverges from what the simulator makes of the board's own
            inputs of it; empty for none.
        verdict: the result in a sentence.
        judged: of each output that the board gave, whether its difference from end to end is more
            than other roundings make; none where that was not measured.
        sha256: of the input bytes that all sides were given.
        missing: layers that the board did not give.
        files: that were written.
    """

    layers: tuple[ComparedLayer, ...]
    first: str
    verdict: str
    sha256: str
    missing: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    rounding: RoundingSensitivity | None = None


# fmt: off
COMPARE_BOARD = Task("compare.board", CompareParams, Comparison, "compare", after="monitor",
    about="Compare a build with a board, layer by layer, on the same input.",
    example="TARGET is a model file or a recipe; flags override the recipe. The exit code is "
    "1 where a layer diverges. An emulated board runs the build itself; for a real "
    "one: rknntui export TARGET -o layers.onnx --layers, compile that with the "
    "vendor's toolkit (do_quantization=False), and give the file with --compiled.")
# fmt: on
