"""What Configure says about an option, about problems, and about changes: lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from engine import Finding, sanitize
from rknntui.keys.text import key_text, with_keys
from rknntui.widgets.findings import finding_lines, wrapped
from rknntui.widgets.wrap import wrap_line

if TYPE_CHECKING:
    from engine import Option
    from rknntui.widgets.strips import Line

_HOW = {
    "bool": "left and right switch",
    "int": "Enter edits, left and right count",
    "float": "Enter edits",
    "code": "Enter edits: FILE.py:Name, separated by commas",
    "choice": "left and right choose, Enter lists all, {configure.edit} types",
    "path": "Enter opens the picker",
    "channels": "Enter edits: 127,127,127; inputs separated by ;",
    "shapes": "Enter edits: 1x3x224x224; inputs separated by ;",
    "names": "Enter edits: names separated by commas",
    "paths": "Enter edits: a path or - per input, separated by ;",
    "flags": "left and right switch, Enter edits one per input",
    "text": "Enter edits",
    "shape_sets": "Enter edits: 1x3x224x224|1x3x160x160; inputs separated by ;",
    "mapping": "Enter shows Hybrid after a build, {configure.edit} edits: "
    "tensor=value; tensor=value",
    "ranges": "Enter shows Hybrid after a build, {configure.edit} edits: tensor=minimum,maximum; …",
}


def help_lines(
    option: Option, problem: str, elsewhere: int, width: int, value: object = None
) -> list[Line]:
    """The help of an option: its problem first, so that a low pane shows it.

    Args:
        option: under the cursor.
        problem: why its value, or the text being typed, cannot be built.
        elsewhere: number of other options with a problem.
        width: cells.
        value: that it has now.
    """
    lines: list[Line] = [[(option.name, "accent"), (f"  {option.flag}", "dim")]]
    if problem:
        lines += wrapped(f"✗ {sanitize(problem)}", width, "bad")
    lines += wrapped(option.help, width, "")
    if option.reason:
        lines += wrapped(option.reason, width, "dim")
    if about := option.about.get(str(value)):
        lines += wrapped(f"{value}: {about}", width, "")
    default = option.render(option.default) or "none"
    facts = [f"default: {default}"]
    if option.choices:
        facts.append(f"one of {', '.join(option.choices)}")
    if option.minimum is not None and option.maximum is not None:
        facts.append(f"{option.minimum} to {option.maximum:,}")
    facts.append(_whose(option))
    if option.role != "simulator":
        facts.append(_ROLES[option.role])
    facts.append(f"rebuilds from: {option.stage}")
    lines += wrapped(" · ".join(facts), width, "dim")
    lines += wrapped(with_keys(_HOW[option.kind]) + ", Delete: default", width, "dim")
    if elsewhere:
        many = "problems" if elsewhere > 1 else "problem"
        there = f"{key_text('configure.next-problem')} goes there"
        lines += wrapped(f"✗ {elsewhere} more {many} elsewhere: {there}", width, "warn")
    return lines


_ROLES = {
    "compiler": "vendor compiler only; passed through",
    "refused": "only the default is accepted",
}


def _whose(option: Option) -> str:
    if option.extension:
        return "rknntui extension (ext)"
    numbers = " and ".join(str(g) for g in option.generations)
    return f"vendor's generation {numbers}"


def issue_lines(
    problems: Mapping[str, str], findings: Sequence[Finding], width: int
) -> tuple[list[Line], list[str]]:
    """The problems in the order of the mapping, then the findings; all wrapped.

    Returns:
        The lines, and for each line of a problem its option.
    """
    lines: list[Line] = []
    options: list[str] = []
    for name, message in problems.items():
        told: Line = [("✗ ", "bad"), (f"{name}: ", "head"), (sanitize(message), "bad")]
        own = wrap_line(told, width)
        lines += own
        options += [name] * len(own)
    lines += finding_lines(findings, width, "configure.apply-remedy")
    return lines or [[("✓ no problems, no findings", "good")]], options


def diff_lines(
    options: Iterable[Option],
    before: Mapping[str, object],
    after: Mapping[str, object],
    where: str | None,
    width: int,
) -> list[Line]:
    """What differs between a recipe's file and the recipe, option by option."""
    name = sanitize(where.rsplit("/", 1)[-1], 60) if where else "the opened model"
    lines: list[Line] = []
    for option in options:
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
