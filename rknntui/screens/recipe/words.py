"""What Recipe says of options, problems and changes, and the recipe as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from engine import OPTIONS, Finding, sanitize
from rknntui.keys.actions import key_text, with_keys
from rknntui.session.target import generation_of
from rknntui.widgets.one_line import Fact
from rknntui.widgets.wrap import finding_lines, wrap_line, wrapped

if TYPE_CHECKING:
    from engine import Option
    from engine.wire.dataset import DatasetFacts
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line

NORMALISING = ("mean_values", "std_values")
"""Options of which usual values are known."""
_HOW = {
    "bool": "left and right switch",
    "int": "Enter edits, left and right count",
    "float": "Enter edits",
    "code": "Enter edits: FILE.py:Name, separated by commas",
    "choice": "left and right choose, Enter lists all, {recipe.edit} types",
    "path": "Enter opens the picker",
    "channels": "{recipe.edit} edits: 127,127,127; inputs separated by ;",
    "shapes": "Enter edits: 1x3x224x224; inputs separated by ;",
    "names": "Enter edits: names separated by commas",
    "paths": "Enter edits: a path or - per input, separated by ;",
    "flags": "left and right switch, Enter edits one per input",
    "text": "Enter edits",
    "shape_sets": "Enter edits: 1x3x224x224|1x3x160x160; inputs separated by ;",
    "mapping": "Enter shows Layers after a build, {recipe.edit} edits: tensor=value; tensor=value",
    "ranges": "Enter shows Layers after a build, {recipe.edit} edits: tensor=minimum,maximum; …",
}


def help_lines(
    option: Option, problem: str, elsewhere: int, width: int, recipe: Mapping[str, object]
) -> list[Line]:
    """The help of an option: its problem first, so that a low pane shows it; its values last.

    Args:
        option: under the cursor.
        problem: why its value, or the text being typed, cannot be built.
        elsewhere: number of other options with a problem.
        width: cells.
        recipe: has its value, and the chip that is targeted.
    """
    lines: list[Line] = [[(option.name, "accent"), (f"  {option.flag}", "dim")]]
    if problem:
        lines += wrapped(f"✗ {sanitize(problem)}", width, "bad")
    lines += wrapped(option.help, width, "")
    if option.reason:
        lines += wrapped(option.reason, width, "dim")
    told = "default: " in option.help.lower()
    facts = [] if told else [f"default: {option.render(option.default) or 'none'}"]
    if option.minimum is not None and option.maximum is not None:
        facts.append(f"{option.minimum} to {option.maximum:,}")
    facts.append(_whose(option, generation_of(str(recipe.get("target_platform") or ""))))
    if option.role != "simulator":
        facts.append(_ROLES[option.role])
    facts.append(f"rebuilds from: {option.stage}")
    lines += wrapped(" · ".join(facts), width, "dim")
    usual = "Enter lists usual ones, " if option.name in NORMALISING else ""
    lines += wrapped(usual + with_keys(_HOW[option.kind]) + ", Delete: default", width, "dim")
    if elsewhere:
        there = f"{key_text('recipe.next-problem')} goes there"
        lines += wrapped(f"✗ {problems_text(elsewhere)} elsewhere: {there}", width, "warn")
    return [*lines, *_choice_lines(option, recipe, width)]


def _choice_lines(option: Option, recipe: Mapping[str, object], width: int) -> list[Line]:
    """The values with a line on each; the one that counts is marked and comes first."""
    now = str(recipe.get(option.name, option.default))
    about = values_about(option, recipe) if option.kind == "choice" else {}
    lines: list[Line] = []
    for choice in sorted(option.choices, key=lambda choice: choice != now):
        mark, style = ("▸ ", "head") if choice == now else ("  ", "")
        line: Line = [(f"{mark}{choice}", style), (f"  {about.get(choice, '')}".rstrip(), "dim")]
        lines += wrap_line(line, width)
    return lines


_ROLES = {
    "compiler": "vendor compiler only; passed through",
    "refused": "only the default is accepted",
}


def _whose(option: Option, generation: int) -> str:
    if option.extension:
        return "rknntui extension (ext)"
    named = [number for number in option.generations if generation in (0, number)]
    numbers = " and ".join(map(str, named or option.generations))
    return f"vendor's generation {numbers}"


def issue_lines(
    problems: Mapping[str, str],
    findings: Sequence[Finding],
    facts: DatasetFacts | None,
    width: int,
) -> tuple[list[Line], list[str | int]]:
    """Problems of options, then of samples, then the findings of both; all wrapped.

    Returns:
        The lines, and for each line of a problem its option, or the line of its sample.
    """
    bad, skipped = (facts.problems, facts.skipped or ()) if facts is not None else ((), ())
    told: list[tuple[str | int, str, str]] = [
        (name, name, text) for name, text in problems.items() if name != "dataset" or not bad
    ]
    told += [(p.line, f"dataset line {p.line}", f"{p.what} {p.remedy or ''}") for p in bad]
    lines: list[Line] = []
    targets: list[str | int] = []
    for target, where, what in told:
        line: Line = [("✗ ", "bad"), (f"{where}: ", "head"), (sanitize(what).strip(), "bad")]
        own = wrap_line(line, width)
        lines += own
        targets += [target] * len(own)
    lines += finding_lines(findings, width, "recipe.apply-remedy")
    for file in skipped[:20]:
        lines += wrap_line([("! ", "warn"), (sanitize(f"{file.file} {file.what}"), "")], width)
    return lines, targets


def diff_lines(session: Session, width: int) -> list[Line]:
    """What differs between the recipe's file and the recipe, option by option."""
    where, before, after = session.recipe_path, session.history.saved, session.recipe
    name = sanitize(where.rsplit("/", 1)[-1], 60) if where else "the opened model"
    lines: list[Line] = []
    for option in OPTIONS:
        old, new = before.get(option.name), after.get(option.name)
        if old == new:
            continue
        lines.append([(option.name, "head")])
        for sign, value, style in (("-", old, "bad"), ("+", new, "good")):
            unset = f"{option.render(option.default)} (default)".strip()
            text = unset if value is None else option.render(value)
            lines += wrap_line([(f"  {sign} ", style), (sanitize(text, 2000), "")], width)
    if lines:
        return [[(f"Changes against {name}", "accent")], *lines]
    return [[(f"No changes against {name}.", "dim")]]


# The dataset in a line.


def problems_text(many: int) -> str:
    """``no problems``, ``1 problem``, ``2 problems``."""
    return f"{many or 'no'} problem{'' if many == 1 else 's'}"


def facts_text(path: str, facts: DatasetFacts | None) -> tuple[Fact, ...]:
    """One line: how much, which sizes, whether a build would stop, where."""
    if not path:
        return (Fact("no dataset"),)
    where = Fact(sanitize(path, 300), (sanitize(path.rpartition("/")[2], 80),), 2)
    if facts is None:
        return (where,)
    files = [f"{facts.files} files"] if facts.files != facts.samples else []
    sizes = [f"{size} ×{count}" for size, count in facts.sizes[:3]]
    more = [f"{len(facts.sizes) - 3} more sizes"] if len(facts.sizes) > 3 else []
    bad = len(facts.problems)
    return (
        Fact(f"{facts.samples} samples"),
        *(Fact(text, rank=1) for text in (*files, *sizes, *more)),
        Fact(f"{'✗' if bad else '✓'} {problems_text(bad)}"),
        where,
    )


# The list of values of an option, with a line on each.

UNSET = "none"
"""Stands for no value, where an option need not have one."""


def values_about(option: Option, recipe: Mapping[str, object]) -> dict[str, str]:
    """Value -> a line on it, in the order of the list; of a dtype whether the target has it."""
    about = option.described(str(recipe.get("target_platform") or ""))
    return {UNSET: "No value. " + option.help, **about} if option.default is None else about
