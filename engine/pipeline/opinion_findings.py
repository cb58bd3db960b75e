"""What a second opinion means: what is said of it, and whether the model may be written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.base.errors import CompilerError, EngineError
from engine.base.findings import Finding
from engine.base.text import sanitize, some_of
from engine.graph.execute import (
    FINEST_SIGMOID,
    coarse_sigmoids,
    fused_roundings,
    rounded_operands,
)
from engine.pipeline.second_opinion import fuses
from engine.quantize import wide_layers
from engine.report import sqnr_rank, sqnr_text
from engine.toolkit.compile.agreement import (
    FAILS_BELOW,
    LEVEL_2,
    LEVEL_3,
    WITH_FLOAT16,
    Limits,
)
from engine.wire.compile import FirstApart, OutputAgreement, SecondOpinion

if TYPE_CHECKING:
    from engine.pipeline.compile_sources import HandedModel

_OTHERWISE = {
    "HardSigmoid": "at level 3 the toolkit computes HardSigmoid from a table, up to 3 steps off",
    "Mish": "the toolkit computes Mish from a table, up to a step off",
    "Resize": "the toolkit interpolates a Resize in integers, up to a step off",
    "AveragePool": "an AveragePool that does not count its padding has the scale of its input "
    "there, up to two steps off",
}
"""Operators of the file that toolkit 2.3.2 computes otherwise than the file says."""
_VENDOR_FAILS_DB = 3.0
_VENDOR_FAR_DB = 10.0
_ONE_SET = (
    "With several sets of input shapes (dynamic_input) toolkit 2.3.2 takes no operator that makes "
    "one axis of rows and columns, such as the Reshape of a detector's head."
)
_ONE_SET_REMEDY = (
    "End the model before that operator (--outputs), and do the rest in your program; or compile a "
    "model for each shape (input_size_list)."
)
_FIX = "--accept-difference writes it all the same; --samples 0 leaves the comparison out."
_STEPS_OF_ROUNDING = 2
"""Steps of an output that other roundings explain."""
_LOST_DB = 6.0
"""SQNR of the build's output against float, below which half of it is noise."""
_SHOWN = 3


@dataclass(frozen=True)
class Judgement:
    """A second opinion, judged.

    Attributes:
        findings: what is said of it.
        error: why the model should not be written; None where nothing is wrong.
    """

    findings: tuple[Finding, ...] = ()
    error: CompilerError | None = None


def limits_for(handed: HandedModel) -> Limits | None:
    """How near the vendor's simulator has to be; None with the vendor's own quantization.

    Its scales are in no graph of ours, so nothing here has its numbers.
    """
    if _scales_of_theirs(handed):
        return None
    if handed.by == "nobody" or _has_float16(handed):
        return WITH_FLOAT16
    return LEVEL_3 if fuses(handed) else LEVEL_2


def _scales_of_theirs(handed: HandedModel) -> bool:
    """Whether the toolkit chooses scales: of everything, or of the weights of a float model."""
    weights = handed.pipeline.recipe.quantization.quantize_weight
    return handed.by == "vendor" or (handed.by == "nobody" and bool(weights))


def missed(opinion: SecondOpinion, handed: HandedModel) -> list[OutputAgreement]:
    """The outputs that are farther from ours than the arithmetic explains."""
    limits = limits_for(handed)
    if limits is not None:
        return limits.missed(opinion.outputs)
    return [row for row in opinion.outputs if _far_from_float(row, _VENDOR_FAR_DB)]


def judge(opinion: SecondOpinion, handed: HandedModel, *, accept: bool = False) -> Judgement:
    """What is said of an opinion, and whether the model is far from what was built.

    Args:
        opinion: of the vendor's simulator.
        handed: what was compiled.
        accept: the user takes the model however far it is: the error is a finding then.
    """
    error = _error(opinion, handed)
    findings = tuple(_findings(opinion, handed, failed=error is not None))
    if error is None or not accept:
        return Judgement(findings, error)
    return Judgement((_accepted(error), *findings))


def _accepted(error: CompilerError) -> Finding:
    return Finding(
        "difference-accepted",
        "warning",
        "compiler",
        error.what,
        error.cause,
        "The file was written because the difference was accepted.",
    )


def with_cause(error: EngineError, handed: HandedModel) -> EngineError:
    """An error of a compilation, with its cause where several sets of shapes are one."""
    several = len(handed.shape_sets) > 1
    if several and isinstance(error, CompilerError) and _RESHAPES.search(error.what):
        return CompilerError(error.what, cause=_ONE_SET, remedy=_ONE_SET_REMEDY)
    return error


_RESHAPES = re.compile(r"can't be dynamic|Can not reshape")
"""What the toolkit says of such an operator."""


def _error(opinion: SecondOpinion, handed: HandedModel) -> CompilerError | None:
    if opinion.mismatch:
        several = len(handed.shape_sets) > 1
        return CompilerError(
            opinion.mismatch,
            cause="The toolkit compiled another model than it was given."
            if not several
            else _ONE_SET,
            remedy=f"{_ONE_SET_REMEDY} {_FIX}"
            if several
            else "Compile with another optimization_level, or end the model before the layer "
            f"(--outputs). {_FIX}",
        )
    if opinion.file_cosine is not None and opinion.file_cosine < FAILS_BELOW:
        return CompilerError(
            "The file for the toolkit computes something else than the build: the lowest cosine of "
            f"an output is {opinion.file_cosine:.4f} (simulated).",
            cause=f"Weights of some channels have fewer steps on this chip: {coarse}."
            if (coarse := _coarse(handed))
            else "That is a fault of this program.",
            remedy=f"Make these layers float16 (quantized_layers). {_FIX}"
            if coarse
            else f"Please tell us of it, with the model. {_FIX}",
        )
    if _scales_of_theirs(handed):
        far = [row for row in opinion.outputs if _far_from_float(row, _VENDOR_FAILS_DB)]
        what = "The vendor's quantization gives outputs that have little to do with float's"
    else:
        far = [row for row in opinion.outputs if _far_from_ours(row)]
        what = "The compiled model computes something else than the build"
    if not far:
        return None
    cause = "Both are simulated, in the same arithmetic, so it is no matter of rounding alone."
    if opinion.first is not None:
        cause = f"They part at {_about(opinion.first)}."
    return CompilerError(
        f"{what}: {_rows(far)} (simulated).",
        cause=cause,
        remedy="Compile with another optimization_level, quantized_method layer or --quantizer "
        f"vendor; or make the layer float16 (quantized_layers). {_FIX}",
    )


def _far_from_ours(row: OutputAgreement) -> bool:
    """Whether an output is another one than the build's.

    A cosine says nothing of an output that is a few steps all over, nor of one that the
    quantization itself has lost: a detector's scores where there is nothing to detect.
    """
    if row.cosine >= FAILS_BELOW:
        return False
    within = row.max_steps is not None and row.max_steps <= _STEPS_OF_ROUNDING
    return not within and sqnr_rank(row.our_sqnr_db) >= _LOST_DB


def _far_from_float(row: OutputAgreement, limit: float) -> bool:
    """Whether the vendor's result is noise where our build's is not."""
    return sqnr_rank(row.sqnr_db) < limit <= sqnr_rank(row.our_sqnr_db) - limit


def _findings(opinion: SecondOpinion, handed: HandedModel, *, failed: bool) -> Iterator[Finding]:
    if opinion.problem:
        yield Finding(
            "not-simulated-by-vendor",
            "warning",
            "compiler",
            "The model is compiled, and its outputs were not compared with the build's.",
            opinion.problem,
            "Compare on a board: rknntui compare. --samples 0 leaves the comparison out.",
        )
    if opinion.samples_from == "seeded" and opinion.outputs:
        yield Finding(
            "second-opinion-seeded",
            "info",
            "samples",
            "The second opinion ran on values from a fixed seed: the recipe names no dataset.",
            remedy="Give pictures of your own: --samples FOLDER.",
        )
    yield from _fused(handed)
    if coarse := _coarse(handed):
        yield Finding(
            "coarse-channels",
            "info",
            "compiler",
            f"Weights of some channels have fewer steps than in the build: {coarse}.",
            f"On this chip the scales of one layer differ by a factor of {handed.span} at most.",
            "Both simulations have it. Make these layers float16 (quantized_layers) where the SQNR "
            "is too low.",
        )
    rows = missed(opinion, handed)
    if rows and not failed:
        yield _gap(rows, opinion, handed)


def _coarse(handed: HandedModel) -> str:
    """The layers whose scales are farther apart than the chip has them, with their channels."""
    if handed.by != "ours" or handed.generation == 1:
        return ""
    counts = wide_layers(handed.graph, handed.span)
    layers = handed.layers.by_node
    shown = [
        f"{sanitize(layers[name].outputs[0] if name in layers else name, 80)} ({count})"
        for name, count in counts.items()
    ]
    return some_of(shown, _SHOWN)


def _gap(rows: list[OutputAgreement], opinion: SecondOpinion, handed: HandedModel) -> Finding:
    if _scales_of_theirs(handed):
        return Finding(
            "second-opinion-far",
            "warning",
            rows[0].name,
            f"The vendor's quantization is much farther from float than ours: {_rows(rows)} "
            "(simulated).",
            "It chooses other ranges, or its toolkit computes a layer otherwise.",
            "Compile with ours (--quantizer ours), or compare on a board: rknntui compare.",
        )
    first = opinion.first
    known = _known(handed, first)
    edge = first is not None and _on_edge(first)
    cause = known or (
        "One value on the edge between two integers was rounded otherwise, and the layers behind "
        "it multiply that."
        if edge
        else "No cause is known here."
    )
    where = f" They part at {_about(first)}." if first is not None else ""
    return Finding(
        "second-opinion-explained" if known or edge else "second-opinion-gap",
        "info" if known or edge else "warning",
        first.tensor if first is not None else rows[0].name,
        f"The vendor's simulator is not where ours is: {_rows(rows)} (simulated).{where}",
        cause,
        "Compile with optimization_level 2, where the compiler computes more of what the file "
        "says, or compare on a board: rknntui compare.",
    )


_EDGE_SHARE = 1e-3
"""Share of a layer's values that lie on an edge at most; seen: one in 145,000."""
_SUMS = frozenset({"Add", "Sub", "Mul"})
_EDGE_SHARE_OF_SUMS = 0.05
"""Of two tensors, whose steps may have a simple ratio: many of their sums are halves then."""


def _on_edge(first: FirstApart) -> bool:
    """Whether a layer differs by no more than values half-way between two integers do."""
    share = _EDGE_SHARE_OF_SUMS if first.op in _SUMS else _EDGE_SHARE
    return first.max_steps <= 1 and first.equal >= 1 - share


def _known(handed: HandedModel, first: FirstApart | None) -> str:
    """The cause, where the toolkit is known to compute an operator otherwise."""
    if first is not None:
        ops = [first.op] if first.op in _OTHERWISE else []
    else:
        ops = [op for op in _OTHERWISE if op in _operators(handed)]
    text = "; ".join(_OTHERWISE[op] for op in ops)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _operators(handed: HandedModel) -> set[str]:
    op_types = set()
    for node in handed.graph.nodes:
        plain = node.op_type == "AveragePool" and not any(node.attributes.get_ints("pads", ()))
        nearest = node.op_type == "Resize" and node.attributes.get_string("mode") == "nearest"
        if not (plain or nearest):
            op_types.add(node.op_type)
    return op_types


def _has_float16(handed: HandedModel) -> bool:
    return any(
        spec == "float16"
        for spec in (handed.pipeline.recipe.quantization.quantized_layers or {}).values()
    )


def _about(first: FirstApart) -> str:
    share = 100 * (1 - first.equal)
    steps = f"{first.max_steps} step{'' if first.max_steps == 1 else 's'}"
    return (
        f"{sanitize(first.tensor, 80)} ({first.op}), where {share:.3g} % of the values differ, by "
        f"{steps} at most"
    )


def _rows(rows: Sequence[OutputAgreement]) -> str:
    """The outputs that are farthest, with what tells it."""
    ordered = sorted(rows, key=lambda row: row.cosine)
    texts = []
    for row in ordered[:_SHOWN]:
        at = f" at {row.shapes}" if row.shapes else ""
        equal = "" if row.max_steps is None else f", {100 * row.equal:.2f} % of the values equal"
        texts.append(
            f"output {sanitize(row.name, 60)}{at} has cosine {row.cosine:.6f}{equal}, SQNR "
            f"{sqnr_text(row.sqnr_db)} against the build's {sqnr_text(row.our_sqnr_db)}"
        )
    more = len(ordered) - _SHOWN
    return "; ".join(texts) + (f"; and {more} more" if more > 0 else "")


def _fused(handed: HandedModel) -> Iterator[Finding]:
    """That the compiler leaves roundings out, or rounds once more, where it does."""
    if not fuses(handed):
        return
    products = len(rounded_operands(handed.graph))
    if products:
        yield Finding(
            "operands-rounded",
            "info",
            "optimization_level",
            f"The compiler rounds an operand of {products} products of two tensors (attention) "
            "once more at this level, to symmetric 8 bits.",
            "That costs up to a bit of it. The comparison with its simulator here does so too.",
            "Set optimization_level to 2 where the model is to compute the build's integers.",
        )
    names = [node.name or "" for node in coarse_sigmoids(handed.graph)]
    if names:
        yield Finding(
            "sigmoid-coarser",
            "warning",
            sanitize(names[0], 80),
            f"The compiler writes the results of {len(names)} Sigmoid in steps of "
            f"{FINEST_SIGMOID:.4f}; the build has finer ones: {sanitize(', '.join(names), 300)}.",
            "The calibration samples gave small probabilities alone, so the range was small. Those "
            f"below {FINEST_SIGMOID / 2:.4f} are 0 in the compiled model.",
            "Calibrate with samples in which there is something to find, or set optimization_level "
            "to 2.",
        )
    count = len(fused_roundings(handed.graph))
    if count:
        yield Finding(
            "roundings-fused",
            "info",
            "optimization_level",
            f"The compiler leaves out {count} of the build's roundings to 8 bits at this level: "
            "what runs is a little nearer to float than the build's simulation.",
            "It hands the sum of a convolution to what is behind it unrounded. The comparison with "
            "its simulator here leaves them out too.",
            "Set optimization_level to 2 where the model is to compute the build's integers.",
        )
