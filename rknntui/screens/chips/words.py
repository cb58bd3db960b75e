"""What Chips says on its top line and below its views, and what can be done there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.cost import WhatIf
from engine.wire.cost_tables import BASIS, CHIP_FIGURES, CHIPS
from engine.wire.flags import words_of
from engine.wire.formats import (
    CHANGE,
    DURATION,
    MILLISECONDS,
    PERCENT,
    PROGRESS,
    RATE,
    SIZE,
    range_of,
)
from engine.wire.table import since
from rknntui.keys.actions import key_text, with_keys
from rknntui.keys.commandline import command_for
from rknntui.screens.chips.code import chip_of, project_command, project_request
from rknntui.screens.chips.compiling import compile_command, compiled_lines, error_lines
from rknntui.screens.chips.estimates import AS_IS, scenario_words
from rknntui.screens.chips.exports import export_command
from rknntui.screens.chips.toolkits import NO_TOOLKIT
from rknntui.widgets.findings import told
from rknntui.widgets.one_line import Fact

if TYPE_CHECKING:
    from engine import Finding
    from engine.wire.compile import Compiled
    from engine.wire.cost import ChipEstimate, ChipFacts
    from engine.wire.table import Record
    from rknntui.screens.chips.compiling import Targets
    from rknntui.screens.chips.estimates import Way
    from rknntui.screens.chips.toolkits import KnownToolkits
    from rknntui.screens.chips.workspace import Chips
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.strips import Line


def running_facts(job: JobView) -> tuple[Fact, ...]:
    """How far a job is."""
    stage = job.stage
    parts = [Fact(f"▶ {sanitize(job.title, 120)}"), Fact(PROGRESS.text(job.fraction))]
    if stage is not None:
        note = f" {sanitize(stage.note, 80)}" if stage.note else ""
        parts.append(Fact(f"{sanitize(stage.title, 80)}{note}", (), 1))
    state = "stopping" if job.cancelling else f"{key_text('job.cancel')} stops it"
    return (*parts, Fact(state, (), 2))


def top_facts(chips: Chips) -> tuple[Fact, ...]:
    """The job that runs; else the chip that is looked at, what is varied, and the goal."""
    job, answers = chips.job, chips.answers
    if job is not None and job.running:
        return running_facts(job)
    if not answers.model:
        return (Fact("no model is open"),)
    if answers.error:
        return (Fact(f"✗ {sanitize(answers.error, 300)}"),)
    found, scenario = chips.overview, chips.scenario
    parts: list[Fact] = []
    if (chip := chips.row(found)) is not None:
        parts.append(Fact(sanitize(chip.chip, 40)))
        parts += _figures(chip, chips.row(answers.overview()) if scenario != AS_IS else None)
    if words := scenario_words(scenario):
        reset = f"what if {words} ({key_text('chips.reset')} resets)"
        parts.append(Fact(reset, (f"what if {words}",)))
    if (goal := answers.goal) is not None and found is not None:
        count = len(found.chips) - len(chips.missing)
        parts.append(Fact(f"{count} of {len(found.chips)} chips reach {goal:g} FPS", (), 1))
    if marked := len(chips.targets.marked):
        parts.append(Fact(f"{marked} marked", (), 2))
    failed = ", ".join(name for name, row in chips.session.compilations.items() if row.problem)
    parts += [Fact(f"✗ failed: {failed}")] if failed else []
    if answers.asking or found is None:
        parts.append(Fact("estimating …", rank=1))
    else:
        parts.append(Fact(f"{len(found.chips)} chips in {DURATION.text(found.seconds)}", rank=3))
    return (*parts, Fact("estimated"))


def findings(chips: Chips) -> Sequence[Finding]:
    """Those of the project that was written, or of what was compiled for the chip."""
    if chips.view == "Code":
        result = chips.views.code.result
        return () if result is None else result.findings
    compiled = chips.session.compilations.get(chips.chip)
    return compiled.findings if compiled is not None and chips.view == "Chips" else ()


def turn(order: Sequence[str], here: str, among: Sequence[str], by: int) -> str:
    """The next of some chips in their order, from ``here`` on and around the end."""
    at = order.index(here) if here in order else 0
    names = [*order[at:], *order[:at]] if by > 0 else [*order[at::-1], *order[:at:-1]]
    return next((name for name in names[1:] if name in among), here)


def _figures(chip: ChipEstimate, before: ChipEstimate | None) -> list[Fact]:
    if chip.problem:
        return [Fact("no estimate")]
    parts = []
    if chip.fps is not None:
        now = f"{RATE.text(chip.fps.value)} FPS"
        old = before.fps if before is not None else None
        moved = since(chip.fps.value, old.value if old is not None else None)
        parts.append(Fact(now + (f" ({CHANGE.text(moved)})" if moved is not None else "")))
    if chip.time_ms is not None:
        parts.append(Fact(f"{MILLISECONDS.text(chip.time_ms.value)} ms", rank=2))
    return parts


def chip_lines(chip: ChipEstimate | None, width: int) -> list[Line]:
    """Why there are no figures, or how sure they are and what they leave out."""
    if chip is None:
        return []
    name = sanitize(chip.chip, 40)
    if chip.problem:
        lines = told(f"{name}: {chip.problem}", width, "warn")
        return lines + (told(f"Fix: {chip.remedy}", width, "good") if chip.remedy else [])
    sure = BASIS.get(chip.confidence, chip.confidence)
    parts = [f"{name}, {chip.dtype}: {sure}."]
    if chip.time_ms is not None:
        ends = (chip.time_ms.low, chip.time_ms.high)
        parts.append(f"{range_of(MILLISECONDS).text(ends)} ms in nine of ten cases.")
    # what the vendor's compiler is known to fail at, before anything else
    warned = told((f"! {text}" for text in chip.warnings), width, "warn")
    return [*warned, *told([" ".join(parts), *chip.notes], width)]


def memory_lines(chip: ChipEstimate | None, width: int) -> list[Line]:
    """Totals, and the keys of the chart."""
    if chip is None or chip.memory is None:
        return chip_lines(chip, width)
    memory = chip.memory
    text = (
        f"internal {SIZE.text(memory.internal)} + weights {SIZE.text(memory.weight)}; "
        f"whole {SIZE.text(memory.total)}. ←→ another layer, p the peak."
    )
    if not memory.spans:
        text += " No tensors are known for this chip."
    return told(text, width)


def advice_lines(record: Record | None, chip: ChipEstimate | None, width: int) -> list[Line]:
    """The reason of the advice under the cursor, its fix, its layers and its source."""
    lines: list[Line] = []
    if record is not None:
        lines += told(record["why"], width, "")
        lines += told(f"Fix: {record['remedy']}", width, "good") if record["remedy"] else []
        few, more = record["layers"][:4], len(record["layers"]) - 4
        names = ", ".join(few) + (f" and {more} more" if more > 0 else "")
        lines += told(f"Layers: {names}", width) if names else []
        lines += told(f"Source: {record['source']}", width) if record["source"] else []
    return lines + chip_lines(chip, width)


def goal_lines(chip: ChipEstimate, goal: float, ways: list[Way] | None, width: int) -> list[Line]:
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
    tried = [f"→ {way.told} (estimated)" for way in ways] or [
        "→ No tip of the manuals saves time here."
    ]
    return [*lines, *told(tried, width, "")]


_LONGEST = 3
"""Layers that take longest, of those that are told."""


def limit_lines(chip: ChipEstimate | None, width: int) -> list[Line]:
    """What most of the time is, the longest layers, and those that are not on the NPU."""
    if chip is None or not chip.layers:
        return []
    whole = sum(row.time_ms for row in chip.layers) or 1.0
    bounds: dict[str, float] = {}
    for row in chip.layers:
        bounds[row.bound] = bounds.get(row.bound, 0.0) + row.time_ms
    most = sorted(bounds.items(), key=lambda pair: -pair[1])
    shares = ", ".join(f"{name} {PERCENT.text(share / whole)} %" for name, share in most if share)
    longest = sorted(chip.layers, key=lambda row: -row.time_ms)[:_LONGEST]
    names = ", ".join(f"{row.id} {PERCENT.text(row.time_ms / whole)} %" for row in longest)
    lines = told(f"limited by (estimated): {shares} · longest: {names}", width, "")
    for row in chip.layers:
        if row.reason and row.target != "NPU":
            style = "bad" if row.target == "none" else "warn"
            where = {"none": "refused", "unknown": "not known where"}.get(row.target, "on the CPU")
            lines += told(f"{row.id} {where}: {row.reason}", width, style)
            lines += told(f"Fix: {row.remedy}", width, "good") if row.remedy else []
    return lines


def facts_lines(facts: ChipFacts | None, width: int) -> list[Line]:
    """What is known of a chip, each figure with its source."""
    if facts is None:
        return []
    dtypes = ", ".join(facts.dtypes)
    text = f"generation {facts.generation}, {facts.toolkit}, {facts.npu_cores} NPU cores, {dtypes}"
    lines = told(f"{facts.name}: {text}", width, "")
    for figure in facts.figures:
        name, value, source = (column.show(figure) for column in CHIP_FIGURES.columns)
        lines += told(f"{name}: {value} ({source})", width)
    return lines


def failed_lines(job: JobView | None, width: int) -> list[Line]:
    """Why the last job made nothing."""
    if job is None or job.running or job.error is None or job.state == "cancelled":
        return []
    return error_lines(job.error, width)


def compile_lines(
    targets: Targets,
    toolkits: KnownToolkits,
    chip: str,
    compiled: Mapping[str, Compiled],
    width: int,
) -> list[Line]:
    """What was compiled for a chip, why nothing, or what it needs to be."""
    job = targets.job
    if (job is not None and job.running) or not chip:
        return []
    if toolkits.error is not None:
        return error_lines(toolkits.error, width)
    lines = failed_lines(job, width)
    made = compiled.get(chip)
    if made is not None:
        text = "! The recipe changed since this was compiled."
        lines += told(text, width, "warn") if targets.outdated else []
        return [*lines, *compiled_lines(made, width)]
    if (why := no_toolkit(targets, toolkits, (chip,))) and toolkits.rows is not None:
        return [*lines, *told(f"! {with_keys(why)}", width, "warn")]
    if chip in targets.wanted(chip):
        return [*lines, *told(with_keys(f"{chip}: {{chips.run}} compiles for it."), width)]
    return [*lines, *told(with_keys(f"{chip}: {{chips.mark}} marks it to compile."), width)]


def no_toolkit(targets: Targets, toolkits: KnownToolkits, chips: Sequence[str]) -> str:
    """Why no toolkit compiles for any of the chips; keys as in help texts."""
    if toolkits.rows is None:
        return "" if toolkits.error is None else toolkits.error["what"]
    if toolkits.rows == ():
        return NO_TOOLKIT.replace("\n\n", " ")
    named = targets.settings.toolkit
    known = [targets.facts[name].generation for name in chips if name in targets.facts]
    if not known or any(toolkits.for_generation(one, named) for one in known):
        return ""
    which = f"toolkit {sanitize(named, 60)}" if named else f"toolkit of generation {known[0]}"
    sets = "" if known[0] == 1 else "{chips.install} installs one, "
    return f"no {which} is set up (in Toolkits {sets}{{chips.adopt}} adopts one)."


# The command line that says what a view of Chips shows.

_VERBS = {"Chips": "chips", "Memory": "memory"}


def command_line(chips: Chips) -> list[str]:
    """The words; empty where nothing is open."""
    want, views, session = chips.want(), chips.views, chips.session
    match want.view:
        case "Exports":
            return export_command(chips, views.exports.form)
        case "Toolkits":
            row = views.toolkits.environment
            return ["rknntui", "vendor", *(("check", row.name) if row else ("install",))]
        case "Code":
            return project_command(views.code.project, chips)
    if want.view == "Chips" and (chips.targets.marked or session.compilations):
        return compile_command(chips, chips.targets, chips.targets.wanted(want.chip))
    verb = _VERBS.get(want.view, "perf estimate")
    words = command_for(verb, session)
    if not words:
        return []
    names = () if want.view == "Chips" else (want.chip, *want.others)
    asked = replace(want.scenario, chips=names)
    if verb == "memory":  # that of one core
        asked = replace(asked, cores=1)
    goal = (
        ["--fps", f"{chips.answers.goal:g}"]
        if chips.answers.goal is not None and verb == "chips"
        else []
    )
    advice = ["--advice"] if want.view == "Advice" else []
    return [*words, *words_of(WhatIf, vars(asked)), *goal, *advice]


# Why something cannot be done in Chips now.

_NO_MODEL = "no model is open ({app.open} opens one)."
_CONTAINER = "a container is open; open its model to {} it."


def reason(method: str, chips: Chips) -> str:
    """Why an action cannot run now, keys as in help texts; empty when it can."""
    if elsewhere := chips.other_view(method):
        return elsewhere
    opened = bool(chips.answers.model)
    if method in ("estimate", "goal", "report", "calibrate") and not opened:
        return _NO_MODEL
    if method == "reset" and chips.scenario == AS_IS and chips.answers.goal is None:
        return "nothing is varied ({chips.edit} does)."
    if method in ("mark", "next_chip", "chip_before", "compare") and not chips.names:
        return "no chips are known yet."
    if method in ("next_problem", "problem_before") and not chips.missing:
        return (
            "every chip reaches the goal."
            if chips.answers.goal
            else "no goal is set ({chips.goal})."
        )
    if method == "node" and not chips.views.layer_id:
        return "no layer is under the cursor."
    if method == "board":
        made = chips.session.compilations.get(chips.chip)
        return "" if made is not None and made.path else "nothing is compiled for this chip yet."
    if method in ("remove", "use") and chips.views.toolkits.environment is None:
        return "no toolkit is in the list."
    if method == "edit":
        return _no_edit(chips, opened)
    return _no_run(chips) if method == "run" else ""


def _no_edit(chips: Chips, opened: bool) -> str:
    if chips.view == "Toolkits":
        return "a toolkit has no settings ({chips.install}, {chips.adopt} make another)."
    return "" if opened or chips.view == "Exports" else _NO_MODEL


def _no_run(chips: Chips) -> str:
    """Why what the view is for cannot begin."""
    view, session = chips.view, chips.session
    if view == "Toolkits":
        known = chips.views.toolkits.environment is not None
        return "" if known else "no toolkit is in the list ({chips.install} installs one)."
    if view == "Exports" and chips.views.exports.form.of_file:
        return ""
    if session.model is None:
        return _NO_MODEL
    if view == "Code":
        known = bool(chip_of(project_request(chips.views.code.project, chips), session))
        return "" if known else "no chip is chosen ({chips.edit} chooses one)."
    if session.container is not None:
        return _CONTAINER.format("export" if view == "Exports" else "compile")
    if view == "Exports":
        return ""
    wanted = chips.targets.wanted(chips.chip)
    if not wanted:
        return "no chip is chosen ({chips.mark} marks one)."
    return no_toolkit(chips.targets, chips.toolkits, wanted)
