"""The tables of builds: compiled models, environments, sweeps, outputs, scores, searches, cuts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from engine.base.text import sanitize
from engine.options import option
from engine.wire.compile import Compiled, CompiledLayer
from engine.wire.formats import (
    CHANGE,
    COSINE,
    COUNT,
    DECIBEL,
    FIGURE,
    HASH,
    NAME,
    NEARLY_ALL,
    NUMBER,
    PERCENT,
    POINTS,
    SIGNED,
    SIZE,
    range_of,
    state_of,
)
from engine.wire.layer_tables import TOLERATED
from engine.wire.layers import ENDS
from engine.wire.sweep import Row
from engine.wire.table import (
    CHIP,
    CROSSING,
    CYCLES,
    DTYPE,
    ESTIMATED_CYCLES,
    ESTIMATED_MS,
    FIGURES_ARE,
    FILE,
    GENERATION,
    INTERNAL,
    LAYER,
    LAYERS,
    LEAST,
    LINE,
    LOWEST_DB,
    MARK,
    MEAN,
    MOST,
    NUMBERED,
    ON_CPU,
    ON_NPU,
    OP,
    OUTPUT,
    OUTPUTS_DB,
    SHAPED,
    SIZED,
    SQNR,
    STATE,
    TENSOR,
    TOOK,
    TOOLKIT,
    WEIGHTS,
    Column,
    Meaning,
    Table,
    above,
    accent,
    known,
    low_db,
    no_noise,
    since,
)
from engine.wire.vendor import ToolkitEnvironment

_TOOLKIT_SIGNS: dict[str, tuple[str, Meaning]] = {
    "ready": ("✓", "good"),
    "unchecked": ("?", "accent"),
    "unfinished": ("!", "warn"),
    "broken": ("✗", "bad"),
    "missing": ("✗", "bad"),
}
_STATES: dict[str, Meaning] = {"✓": "good", "✗": "bad", "▶": "accent", "!": "warn"}


def toolkit_sign(state: str | None) -> tuple[str, Meaning]:
    """Sign and meaning of the state of an environment."""
    return _TOOLKIT_SIGNS.get(state or "", ("?", "accent"))


def toolkit_name(environment: ToolkitEnvironment) -> str:
    """``rknn-toolkit2 2.3.2``."""
    package = "rknn-toolkit2" if environment.generation == 2 else "rknn-toolkit"
    return f"{package} {environment.version}".rstrip()


def compared_cycles(layers: Iterable[CompiledLayer]) -> tuple[int, int, int] | None:
    """Cycles printed, cycles estimated and the number of layers that have both; None without any.

    A layer that only one of them has would count as a difference in cycles otherwise.
    """
    pairs = [
        (row.total_cycles, row.estimated_total_cycles)
        for row in layers
        if row.total_cycles is not None and row.estimated_total_cycles is not None
    ]
    if not pairs:
        return None
    return sum(p for p, _ in pairs), sum(e for _, e in pairs), len(pairs)


def lowest_decibel(values: Iterable[float | None]) -> float | None:
    """The least SQNR, where None is no noise; None without any."""
    return min(map(no_noise, values), default=None)


def _state_style(state: str | None) -> Meaning:
    return _STATES.get((state or "")[:1], "dim")


def _estimated_cycles(chip: Compiled) -> int | None:
    cycles = compared_cycles(chip.layers)
    return None if cycles is None else cycles[1]


def _cycles_apart(chip: Compiled) -> float | None:
    cycles = compared_cycles(chip.layers)
    return None if cycles is None else since(cycles[0], cycles[1])


def _on(chip: Compiled, *, npu: bool) -> int | None:
    inner = [row.target for row in chip.layers if row.op not in ENDS]
    return sum((target == "NPU") == npu for target in inner) if inner else None


def _outputs_text(outputs: Iterable[tuple[str, float | None]]) -> str:
    return "  ".join(f"{sanitize(name, 40)} {SQNR.text(no_noise(db))}" for name, db in outputs)


def _sweep_outputs(row: Row) -> str | None:
    if row.error is not None:
        return str(row.error.get("what", ""))
    return _outputs_text((output.name, output.sqnr_db) for output in row.outputs or ())


def _moved(side: str) -> Callable[[Any], float | None]:
    def value(row: Any) -> float | None:
        rounding = getattr(row, side)
        return None if rounding is None else no_noise(rounding.rounding_db)

    return value


# fmt: off
COMPILED = Table("compiled", "A chip, and the model that was compiled for it.", (
    MARK,
    CHIP.but(width=8),
    TOOLKIT.but(help="The vendor's toolkit that compiled it.", width=9, style=_state_style,
                from_width=72),
    STATE.but(help="What became of it.", value=None, width=10, style=_state_style, only="screen"),
    SIZED.but(help="Bytes of the file.", from_width=50),
    ON_NPU.but(value=lambda chip: _on(chip, npu=True), from_width=150),
    ON_CPU.but(value=lambda chip: _on(chip, npu=False), from_width=150),
    CYCLES.but(help="Cycles as the compiler printed them.", from_width=78),
    ESTIMATED_CYCLES.but(help="Our estimate, of the layers that both tables have.",
                         value=_estimated_cycles, from_width=78),
    Column("cycles_apart", "est. off", CHANGE, "The printed cycles against our estimate.",
           _cycles_apart, from_width=78,
           style=above(TOLERATED)),
    WEIGHTS.but(help="Memory of the weights, as printed.", from_width=120),
    Column("estimated_weight_bytes", "est. weights", SIZE, "Our estimate of it.", from_width=150),
    INTERNAL.but(help="Memory of the tensors between layers, as printed.", from_width=120),
    Column("estimated_internal_bytes", "est. internal", SIZE, "Our estimate of it.",
           from_width=150),
    Column("quantized_by", "quantized by", help="Whose quantization the model has.", width=9,
           value=lambda chip: chip.quantized_by if chip.path else None, from_width=140),
    TOOK.but(help="Time of the compiler, measured on this machine.", from_width=150,
             value=lambda chip: chip.seconds if chip.path and not chip.cached else None),
    Column("cached", help="Whether an earlier result was taken.", from_width=150,
           value=lambda chip: "yes" if chip.cached else None),
    Column("findings", "!", NUMBER, "Warnings, and where report and estimate disagree.",
           lambda chip: len(chip.findings) or None, width=3, style=lambda _: "warn",
           from_width=60),
    Column("sha256", "SHA-256", HASH, "Of the file.", known("sha256"), from_width=200),
    FILE.but(key="path", help="The file that was written.", value=known("path"),
             width=10, from_width=110),
))

AGREEMENT = Table("agreement", "An output in the vendor's simulator and in ours (simulated).", (
    CHIP.but(value=None, width=8, from_width=1),
    OUTPUT.but(help="The output, and the shapes of the inputs where there are more.",
               value=lambda row: f"{row.name} at {row.shapes}" if row.shapes else row.name),
    Column("samples", format=NUMBER, help="Samples that were compared.", from_width=70),
    Column("equal", "equal %", NEARLY_ALL, "Values that are equal; not told of a float output.",
           lambda row: None if row.max_steps is None else row.equal,
           style=lambda share: "" if share is None else "good" if share >= 0.999 else "warn"),
    Column("max_steps", "max steps", COUNT, "The largest difference, in steps of the output."),
    Column("cosine", format=COSINE, help="Of the outputs of both simulators."),
    Column("our_sqnr_db", "ours dB", DECIBEL, "SQNR of our simulator against float.",
           lambda row: no_noise(row.our_sqnr_db), width=9, from_width=60),
    Column("sqnr_db", "vendor dB", DECIBEL, "SQNR of the vendor's simulator against float.",
           lambda row: no_noise(row.sqnr_db), width=9, from_width=60),
))

ENVIRONMENTS = Table("environments", "A Python environment with a toolkit of the vendor.", (
    Column("default", name="is default", value=lambda row: "*" if row.default else " ",
           style=accent, width=1),
    Column("name", "environment", NAME, "Its name for --toolkit.", width=10),
    STATE.but(format=state_of(lambda state: toolkit_sign(state)[0]),
              help="Whether you can use it.", width=12,
              style=lambda state: toolkit_sign(state)[1]),
    TOOLKIT.but(help="The vendor's package and its version.", value=toolkit_name, width=16),
    GENERATION.but(only="file"),
    Column("python_version", "Python", NAME, "The version of its Python.",
           known("python_version"), width=7),
    Column("made", help="Installed by this program, or adopted.", width=9, from_width=90,
           value=lambda row: "installed" if row.managed else "adopted"),
    SIZED.but(help="Bytes on disk.", from_width=100),
    Column("folder", format=NAME, help="Where it is.", width=12, grow=1),
))

SWEEP_ROWS = Table("sweep", "A build of a sweep (simulated; seconds measured).", (
    Column("state", name="done", value=lambda row: "✓" if row.state == "done" else "✗", width=1,
           style=_state_style),
    Column("title", "build", NAME, "The values that the options have in it.", width=18, grow=1,
           value=lambda row: ", ".join(option(n).render(v) for n, v in row.values.items())),
    LOWEST_DB.but(value=lambda row: lowest_decibel(out.sqnr_db for out in row.outputs or ())),
    OUTPUTS_DB.but(help="The SQNR of each output; of a failure why.", value=_sweep_outputs,
                   width=24),
    TOOK.but(help="Time of the build, measured on this machine."),
    SIZED.but(key="bytes", help="Bytes of the quantized graph.", value="",
              from_width=100),
    Column("findings", "warning", NAME, "The first warning of the build.", width=16, grow=2,
           value=lambda row: row.findings[0].what if row.findings else None, from_width=120),
))

INPUTS = Table("inputs", "An input of the model.", (
    Column("name", "input", NAME, "Its name.", width=14, grow=1),
    SHAPED.but(width=13),
    DTYPE,
    FILE.but(help="The file that fills it.", value=None, width=20, grow=3),
))

OUTPUTS = Table("outputs", "An output of a run; figures are of its finite values.", (
    OUTPUT.but(help="Its name."),
    SHAPED.but(width=9),
    DTYPE.but(from_width=60),
    Column("sqnr", "vs float dB", SQNR, "Its SQNR against the float graph, of this sample.",
           lambda row: row.beside and no_noise(row.beside.sqnr_db), width=11, style=low_db,
           from_width=1),
    LEAST.but(from_width=72),
    MOST,
    MEAN.but(from_width=68),
    Column("not_finite", "NaN, inf", COUNT, "Values that are NaN or infinite.",
           known("not_finite"), width=8, style=lambda _: "bad", from_width=1),
    Column("largest", "most off", FIGURE, "Its greatest difference from the float graph's.",
           "beside.largest", from_width=64),
    FIGURES_ARE.but(from_width=70),
))

LARGEST = Table("largest", "One of the largest values of an output.", (
    NUMBERED.but(key="rank", help="Its place among them.", value=None, width=3),
    Column("index", format=NUMBER, help="Its place in the flat output.", width=5),
    Column("value", "value at it", FIGURE, "The value."),
    Column("float", "in float", FIGURE, "The float graph's value there.", None, from_width=1),
    Column("simulated", format=FIGURE, help="The simulator's value there, of a run on a board.",
           value=None, from_width=44),
    Column("bar", name="bar of value", value=None, only="screen", width=4, grow=1, style=accent),
))

SEARCH_POINTS = Table("search-points", "A build of a search (simulated; times estimated).", (
    Column("step", format=NUMBER, help="0 is the build without a choice."),
    LAYER.but(help="The layer that was changed in this step.", width=14, grow=2,
              value=lambda point: point.layer or "baseline"),
    Column("dtype", "to", help="The dtype that it has now.", value=known("dtype"), width=8),
    Column("promoted", format=NUMBER, help="Layers that are promoted by now.", width=8,
           value=lambda point: len(point.promoted)),
    LOWEST_DB.but(value=lambda point: lowest_decibel(point.outputs.values())),
    ESTIMATED_MS.but(help="Time of an inference on the recipe's chip.", from_width=70),
    OUTPUTS_DB.but(value=lambda point: _outputs_text(point.outputs.items())),
    TOOK.but(help="Since the start, measured.", from_width=90),
    TENSOR.but(help="The tensor that was changed.", value=known("tensor"), width=14, grow=1,
               from_width=110),
))

EFFECT_OUTPUTS = Table("effect", "An output as built, and with the other choice (simulated).", (
    OUTPUT,
    Column("before", "before dB", SQNR, "Its SQNR as built.", lambda row: no_noise(row.before_db),
           style=low_db),
    Column("after", "after dB", SQNR, "Its SQNR with the other choice.",
           lambda row: no_noise(row.sqnr_db), style=low_db),
    Column("rounding_before", "round. before dB", SQNR, "How far other roundings move it as built.",
           _moved("rounding_before"), from_width=1),
    Column("rounding", "round. after dB", SQNR, "The same with the other choice.",
           _moved("rounding"), from_width=1),
))

EDITS = Table("edits", "What became of a change of a layer that you asked for.", (
    LINE.but(help="Of the file of the changes.", value=known("line"), from_width=1),
    LAYER.but(grow=1),
    Column("kind", "what", help="Dtype or range."),
    Column("asked", "requested", NAME, "What you asked for."),
    Column("got", "in the build", NAME, "What the build has."),
    Column("why", "not applied", NAME, "Why it is not what you asked for.", from_width=1,
           value=lambda row: None if row.ok else row.why),
))

SEGMENTS = Table("segments", "A segment of a model (times estimated).", (
    Column("number", "segment", NUMBER, "Its place, from 0.", None),
    Column("uids", help="Uids of its first and last layer.",
           value=lambda row: f"{row.first}-{row.last}"),
    Column("ends", "ends after", NAME, "The last layer."),
    LAYERS.but(help="Layers in it."),
    CROSSING,
    Column("tensors", format=NUMBER, help="Tensors that later segments read.",
           value=lambda row: len(row.crossing) or None, from_width=1),
    ESTIMATED_MS.but(help="Time of the segment.", from_width=1),
))

CUTS = Table("cuts", "A layer, and what a cut behind it means (times estimated).", (
    Column("uid", format=NUMBER, help="Of the vendor's table of layers; --after takes it."),
    LAYER.but(key="id"),
    OP,
    CROSSING.but(help="Bytes in memory between the segments.", value="", from_width=1),
    ESTIMATED_MS.but(help="Time of the layer.", from_width=1),
    Column("joined", help="+: computed together with the next layer.", from_width=1,
           value=lambda row: "+" if row.with_next else None),
))

SCORES = Table("scores", "A score of the float model and of the quantized one (simulated).", (
    Column("name", "score", NAME, "What was scored.", width=8, grow=1),
    Column("float", "float %", PERCENT, "Of the float model.", "golden"),
    Column("simulated", "simulated %", PERCENT, "Of the quantized model."),
    Column("difference", "change, points", POINTS, "Simulated less float.",
           style=lambda value: "" if value is None else "bad" if value < 0 else "good"),
    Column("difference_interval", "95 % of change", range_of(POINTS),
           "The change lies in it, 95 times in 100.", from_width=120,
           file=("difference_low", "difference_high")),
    Column("simulated_interval", "95 % of simulated", range_of(PERCENT),
           "The score of the quantized model lies in it, 95 times in 100.",
           file=("simulated_low", "simulated_high")),
    Column("float_interval", "95 % of float", range_of(PERCENT),
           "The score of the float model lies in it, 95 times in 100.", "golden_interval",
           from_width=100, file=("float_low", "float_high")),
))
# fmt: on


def scores_of(*, shares: bool) -> Table:
    """:data:`SCORES`, whose figures are shares of the samples or (False) numbers of any size."""
    if shares:
        return SCORES
    plain = {one.name: other for one, other in ((PERCENT, FIGURE), (POINTS, SIGNED))}
    plain |= {
        range_of(one).name: range_of(other) for one, other in ((PERCENT, FIGURE), (POINTS, SIGNED))
    }
    columns = [
        replace(
            column,
            format=plain.get(column.format.name, column.format),
            heading=column.heading.removesuffix(" %").removesuffix(", points"),
        )
        for column in SCORES.columns
    ]
    return replace(SCORES, columns=tuple(columns))
