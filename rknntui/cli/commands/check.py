"""``rknntui check``: Check which layers of a model run on the NPU of each chip."""

from __future__ import annotations

from engine import sanitize
from engine.wire.cost import COST_CHECK, CheckAnswer
from engine.wire.cost_tables import CHECKED
from engine.wire.layers import OFF_NPU, layer_rows
from rknntui.cli.estimate_output import loaded
from rknntui.cli.gates import Limits, check_figures
from rknntui.cli.output import table_lines
from rknntui.cli.verb import Printed, verb


@verb(
    COST_CHECK,
    fill=loaded,
    limits=("cpu",),
)
def command(found: CheckAnswer, limits: Limits) -> Printed:
    """Say per chip which layers run on the CPU or are refused, why, and what to do (estimated).

    TARGET is a model file or a recipe; the compiler's known rewrites are applied first, and
    op_target is honoured. Without --chip all chips.
    """
    return Printed(_lines(found), limits.gates(check_figures(found.chips)))


def _lines(answer: CheckAnswer) -> list[str]:
    lines = [f"{sanitize(answer.model)} (estimated)", "", *table_lines(CHECKED, answer.chips)]
    lines += [f"{one.chip}: {sanitize(one.problem)}" for one in answer.chips if one.problem]
    return lines + _off_lines(answer) + _warnings(answer)


def _warnings(answer: CheckAnswer) -> list[str]:
    """What crashes the compiler, with the chips of which that is so."""
    chips_of: dict[str, list[str]] = {}
    for one in answer.chips:
        for text in one.warnings:
            chips_of.setdefault(text, []).append(one.chip)
    lines = [f"warning: {', '.join(on)}: {sanitize(text, 400)}" for text, on in chips_of.items()]
    return ["", *lines] if lines else []


def _off_lines(answer: CheckAnswer) -> list[str]:
    """Layers that are not on the NPU, with the chips of which that is so."""
    chips_of: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for one in answer.chips:
        for row in layer_rows(one):
            values = OFF_NPU.record(row, chips=None)
            chips_of.setdefault(tuple(values.items()), []).append(one.chip)
    records = [dict(values) | {"chips": " ".join(on)} for values, on in chips_of.items()]
    lines = table_lines(OFF_NPU, records)
    return ["", *lines] if lines else []
