"""What Chips says on its top line and below its views, and what can be done there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine import answer_lines, sanitize
from engine.wire.cost import WhatIf
from engine.wire.cost_tables import BASIS, CHIP_FIGURES, CHIPS
from engine.wire.flags import words_of
from engine.wire.formats import CHANGE, DURATION, MILLISECONDS, PERCENT, RATE, range_of
from engine.wire.goal import ChipWays, Goal
from engine.wire.table import since
from rknntui.keys.actions import key_text, with_keys
from rknntui.keys.commandline import command_for
from rknntui.screens.chips.code import chip_of, project_command, project_request
from rknntui.screens.chips.compiling import (
    APPLIES,
    compile_command,
    compiled_lines,
    error_lines,
    failed_lines,
)
from rknntui.screens.chips.estimates import scenario_words
from rknntui.screens.chips.exports import export_command
from rknntui.screens.chips.toolkits import NO_TOOLKIT
from rknntui.session.target import generation_of
from rknntui.widgets.one_line import Fact
from rknntui.widgets.wrap import finding_lines, told

if TYPE_CHECKING:
    from engine.wire.cost import ChipEstimate, ChipFacts
    from engine.wire.goal import Way
    from engine.wire.table import Record
    from rknntui.screens.chips.workspace import Chips
    from rknntui.widgets.strips import Line


def top_facts(chips: Chips) -> tuple[Fact, ...]:
    """The chip that is looked at, what is varied, and the goal."""
    answers, found = chips.answers, chips.overview
    if not chips.session.request:
        return (Fact("no model is open"),)
    if answers.error:
        return (Fact(f"✗ {sanitize(answers.error, 300)}"),)
    parts: list[Fact] = []
    if (chip := found.of(chips.chip)) is not None:
        steps = chips.other_view("step_chip") == ""
        another = f" ({key_text('chips.next-chip')} the next)" if steps else ""
        parts.append(Fact(f"{chip.chip}{another}", (chip.chip,)))
        parts += _figures(chip, chips.before.of(chip.chip))
    if words := scenario_words(chips.scenario):
        reset = f"what if {words} ({key_text('chips.reset')} resets)"
        parts.append(Fact(reset, (f"what if {words}",)))
    if answers.goal is not None and found.chips:
        count = sum(row.reaches == "yes" for row in found.chips)
        text = f"{count} of {len(found.chips)} chips reach {answers.goal:g} FPS"
        parts.append(Fact(text, (), 1))
    if marked := len(chips.targets.marked):
        parts.append(Fact(f"{marked} marked", (), 2))
    failed = ", ".join(name for name, row in chips.session.compilations.items() if row.problem)
    parts += [Fact(f"✗ failed: {failed}")] if failed else []
    if answers.asking or len(found.chips) < len(chips.targets.facts):
        parts.append(Fact("estimating …", rank=1))
    else:
        took = f" in {DURATION.text(found.seconds)}" if found.seconds >= 0.01 else ""
        parts.append(Fact(f"{len(found.chips)} chips{took}", rank=3))
    return (*parts, Fact("estimated"))


def _figures(chip: ChipEstimate, before: ChipEstimate | None) -> list[Fact]:
    if chip.fps is None or chip.time_ms is None:
        return [Fact("no estimate")]
    old = before.fps.value if before is not None and before.fps is not None else None
    moved = since(chip.fps.value, old)
    change = f" ({CHANGE.text(moved)})" if moved is not None else ""
    time = Fact(f"{MILLISECONDS.text(chip.time_ms.value)} ms", rank=2)
    return [Fact(f"{RATE.text(chip.fps.value)} FPS{change}"), time]


# What is said below the views.


def of_chip(chips: Chips, name: str, width: int) -> list[Line]:
    """All that is known of a chip, what needs a deed first."""
    row, goal = chips.overview.of(name), chips.answers.goal
    lines: list[Line] = []
    if row is not None and row.reaches and goal is not None:
        lines += goal_lines(row, goal, chips.answers.ways(name), width)
    made = compile_lines(chips, name, width)
    parts = [made, chip_lines(row, width)]
    if name not in chips.session.compilations and made[:1] and made[0][0][1] != "bad":
        parts.reverse()  # what could be done stands below what is known
    lines += parts[0] + parts[1]
    lines += limit_lines(chips.answers.estimate(name), width)
    return lines + facts_lines(chips.targets.facts[name], width)


def chip_lines(chip: ChipEstimate | None, width: int) -> list[Line]:
    """Why there are no figures, or how sure they are and what they leave out."""
    if chip is None:
        return []
    if chip.problem:
        lines = told(f"{chip.chip}: {chip.problem}", width, "warn")
        return lines + (told(f"Fix: {chip.remedy}", width, "good") if chip.remedy else [])
    text = f"{chip.chip}, {chip.dtype}: {BASIS.get(chip.confidence, chip.confidence)}."
    if chip.time_ms is not None:
        ends = (chip.time_ms.low, chip.time_ms.high)
        text += f" {range_of(MILLISECONDS).text(ends)} ms in nine of ten cases."
    # what the vendor's compiler is known to fail at, before anything else
    warned = told((f"! {text}" for text in chip.warnings), width, "warn")
    return [*warned, *told([text, *chip.notes], width)]


def advice_lines(record: Record | None, chip: ChipEstimate | None, width: int) -> list[Line]:
    """The reason of the advice under the cursor, its fix, its layers, its source; the limits."""
    lines: list[Line] = []
    if record is not None:
        few, more = record["layers"][:4], len(record["layers"]) - 4
        names = ", ".join(few) + (f" and {more} more" if more > 0 else "")
        lines += told(record["why"], width, "")
        for label, text, style in (
            ("Fix", record["remedy"], "good"),
            ("Layers", names, "dim"),
            ("Source", record["source"], "dim"),
        ):
            lines += told(f"{label}: {text}", width, style) if text else []
    return [*lines, *chip_lines(chip, width), *limit_lines(chip, width, findings=False)]


def goal_lines(
    chip: ChipEstimate, goal: float, ways: Sequence[Way] | None, width: int
) -> list[Line]:
    """Whether a chip reaches the frames a second, and what would bring it there."""
    column = CHIPS.column("reaches")
    style = column.style(chip.reaches) if column.style is not None else ""
    says = {
        "yes": "also at the low end of its interval",
        "maybe": "its interval leaves it open",
        "no": "not even at the high end of its interval",
    }[chip.reaches]
    lines = told(f"{column.show(chip)}: {goal:g} FPS on {chip.chip}, {says}.", width, style)
    if chip.reaches == "yes":
        return lines
    if ways is None:
        return [*lines, *told("Looking for what would bring it there …", width)]
    tried = answer_lines(ChipWays(chip.chip, tuple(ways)))
    return [*lines, *told((f"→ {line}" for line in tried), width, "")]


_LONGEST = 3
"""Layers that take longest, of those that are told."""


def limit_lines(chip: ChipEstimate | None, width: int, *, findings: bool = True) -> list[Line]:
    """What most of the time is, the longest layers, and those that are not on the NPU."""
    if chip is None or not chip.layers:
        return []
    whole = sum(row.time_ms for row in chip.layers) or 1.0
    bounds: dict[str, float] = defaultdict(float)
    for row in chip.layers:
        bounds[row.bound] += row.time_ms
    most = sorted(bounds.items(), key=lambda pair: -pair[1])
    shares = ", ".join(f"{name} {PERCENT.text(share / whole)} %" for name, share in most if share)
    longest = sorted(chip.layers, key=lambda row: -row.time_ms)[:_LONGEST]
    names = ", ".join(f"{row.id} {PERCENT.text(row.time_ms / whole)} %" for row in longest)
    lines = told(f"limited by (estimated): {shares} · longest: {names}", width, "")
    off = (finding for finding in chip.findings if findings and finding.code == "placement")
    return lines + finding_lines(off, width, APPLIES)


def facts_lines(facts: ChipFacts, width: int) -> list[Line]:
    """What is known of a chip, each figure with its source."""
    dtypes = ", ".join(facts.dtypes)
    text = f"generation {facts.generation}, {facts.toolkit}, {facts.npu_cores} NPU cores, {dtypes}"
    lines = told(f"{facts.name}: {text}", width, "")
    for figure in facts.figures:
        name, value, source = (column.show(figure) for column in CHIP_FIGURES.columns)
        lines += told(f"{name}: {value} ({source})", width)
    return lines


def compile_lines(chips: Chips, name: str, width: int) -> list[Line]:
    """What was compiled for a chip, why nothing, or what it needs to be."""
    targets, toolkits = chips.targets, chips.toolkits
    if targets.compiling:
        return []
    job, made = targets.job, chips.session.compilations.get(name)
    if toolkits.error is not None:
        return error_lines(toolkits.error, width)
    lines = failed_lines(job, width)
    if made is not None:
        text = "! The recipe changed since this was compiled."
        lines += told(text, width, "warn") if targets.outdated else []
        return [*lines, *compiled_lines(made, width)]
    if (why := no_toolkit(chips, (name,))) and toolkits.rows is not None:
        return [*lines, *told(f"! {with_keys(why)}", width, "warn")]
    wanted = name in targets.wanted(name)
    text = "{chips.run} compiles for it." if wanted else "{chips.mark} marks it to compile."
    return [*lines, *told(f"{name}: {with_keys(text)}", width)]


def no_toolkit(chips: Chips, names: Sequence[str]) -> str:
    """Why no toolkit compiles for any of the chips; keys as in help texts."""
    targets, toolkits = chips.targets, chips.toolkits
    if toolkits.rows is None:
        return "" if toolkits.error is None else toolkits.error["what"]
    if toolkits.rows == ():
        return NO_TOOLKIT.replace("\n\n", " ")
    named = targets.settings.toolkit
    known = [generation for name in names if (generation := generation_of(name))]
    if not known or any(toolkits.for_generation(one, named) for one in known):
        return ""
    which = f"toolkit {sanitize(named, 60)}" if named else f"toolkit of generation {known[0]}"
    sets = "" if known[0] == 1 else "{chips.install} installs one, "
    return f"no {which} is set up (in Toolkits {sets}{{chips.adopt}} adopts one)."


# The command line that says what a view of Chips shows.


def command_line(chips: Chips) -> list[str]:
    """The words; empty where nothing is open."""
    view, views, session = chips.view, chips.views, chips.session
    match view:
        case "Exports":
            return export_command(chips, views.exports.form)
        case "Toolkits":
            row = views.toolkits.environment
            return ["rknntui", "vendor", *(("check", row.name) if row else ("install",))]
        case "Code":
            return project_command(views.code.project, chips)
        case "Chips" if chips.targets.marked or session.compilations:
            return compile_command(chips, chips.targets, chips.targets.wanted(chips.chip))
    words = command_for({"Chips": "chips", "Memory": "memory"}.get(view, "perf estimate"), session)
    if not words:
        return []
    asked = replace(chips.scenario, chips=() if view == "Chips" else chips.compared)
    if view == "Memory":  # that of one core
        asked = replace(asked, cores=1)
    goal = words_of(Goal, vars(Goal(chips.answers.goal))) if view == "Chips" else []
    advice = ["--advice"] if view == "Advice" else []
    return [*words, *words_of(WhatIf, vars(asked)), *goal, *advice]


# Why something cannot be done in Chips now.

_NO_MODEL = "no model is open ({app.open} opens one)."


def _no_model(chips: Chips) -> str:
    return "" if chips.session.request else _NO_MODEL


def _no_miss(chips: Chips) -> str:
    if chips.missing:
        return ""
    goal = chips.answers.goal
    return "no chip misses the goal." if goal else "no goal is set ({chips.goal})."


def _no_toolkit_here(chips: Chips) -> str:
    known = chips.views.toolkits.environment
    return "no toolkit is in the list ({chips.install} installs one)." if known is None else ""


def _no_reset(chips: Chips) -> str:
    varied = chips.varied or chips.answers.goal is not None
    return "" if varied else "nothing is varied ({chips.edit} does)."


def _no_board(chips: Chips) -> str:
    made = chips.session.compilations.get(chips.chip)
    return "" if made is not None and made.path else "nothing is compiled for this chip yet."


def _no_edit(chips: Chips) -> str:
    if chips.view == "Toolkits":
        return "a toolkit has no settings ({chips.install}, {chips.adopt} make another)."
    return "" if chips.view == "Exports" else _no_model(chips)


def _no_run(chips: Chips) -> str:
    """Why what the view is for cannot begin."""
    view, session = chips.view, chips.session
    if view == "Toolkits":
        return _no_toolkit_here(chips)
    if view == "Exports" and chips.views.exports.form.of_file:
        return ""
    if session.model is None:
        return _NO_MODEL
    if view == "Code":
        if chips.views.code.waits(chips):
            return "the model is still being compiled, and the project is to have it."
        known = bool(chip_of(project_request(chips.views.code.project, chips), session))
        return "" if known else "no chip is chosen ({chips.edit} chooses one)."
    if session.container is not None:
        does = "export" if view == "Exports" else "compile"
        return f"a container is open; open its model to {does} it."
    return "" if view == "Exports" else no_toolkit(chips, chips.targets.wanted(chips.chip))


REASONS: dict[str, Callable[[Chips], str]] = {
    **dict.fromkeys(("estimate", "goal", "report", "calibrate"), _no_model),
    **dict.fromkeys(("remove", "use"), _no_toolkit_here),
    "node": lambda chips: "" if chips.views.layer_id else "no layer is under the cursor.",
    "step_miss": _no_miss, "reset": _no_reset, "board": _no_board, "edit": _no_edit, "run": _no_run,
}  # fmt: skip
"""Method of an action -> why it cannot run now, keys as in help texts; empty when it can."""
