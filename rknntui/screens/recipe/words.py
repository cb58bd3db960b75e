"""What Configure says of options, problems and changes, and the recipe as a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import Finding, chips_with, sanitize
from engine.wire.requests import RECIPE_SAVE, Saved, SaveParams
from rknntui.keys.actions import key_text, with_keys
from rknntui.screens.dialogs.dialogs import ChoiceDialog, ask_user
from rknntui.screens.dialogs.picker import RECIPES, PathPicker, ask_new_file
from rknntui.widgets.findings import finding_lines, wrapped
from rknntui.widgets.wrap import wrap_line

if TYPE_CHECKING:
    from textual.app import App

    from engine import Option
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.kept import Values
    from rknntui.widgets.strips import Line

_HOW = {
    "bool": "left and right switch",
    "int": "Enter edits, left and right count",
    "float": "Enter edits",
    "code": "Enter edits: FILE.py:Name, separated by commas",
    "choice": "left and right choose, Enter lists all, {recipe.edit} types",
    "path": "Enter opens the picker",
    "channels": "Enter edits: 127,127,127; inputs separated by ;",
    "shapes": "Enter edits: 1x3x224x224; inputs separated by ;",
    "names": "Enter edits: names separated by commas",
    "paths": "Enter edits: a path or - per input, separated by ;",
    "flags": "left and right switch, Enter edits one per input",
    "text": "Enter edits",
    "shape_sets": "Enter edits: 1x3x224x224|1x3x160x160; inputs separated by ;",
    "mapping": "Enter shows Hybrid after a build, {recipe.edit} edits: tensor=value; tensor=value",
    "ranges": "Enter shows Hybrid after a build, {recipe.edit} edits: tensor=minimum,maximum; …",
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
        there = f"{key_text('recipe.next-problem')} goes there"
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
        message_line: Line = [("✗ ", "bad"), (f"{name}: ", "head"), (sanitize(message), "bad")]
        own = wrap_line(message_line, width)
        lines += own
        options += [name] * len(own)
    lines += finding_lines(findings, width, "recipe.apply-remedy")
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


# The list of values of an option, with a line on each.

UNSET = "none"
"""Stands for no value, where an option need not have one."""


def choose(
    app: App[Any],
    option: Option,
    recipe: Mapping[str, object],
    then: Callable[[Values], None],
) -> None:
    """Show the values of an option; ``then`` gets the change of the recipe that was chosen."""
    about = values_about(option, recipe)
    now = recipe.get(option.name, option.default)

    def take(choice: str) -> None:
        then({option.name: None if choice == UNSET else choice})

    dialog = ChoiceDialog(option.name, tuple(about), UNSET if now is None else str(now), about)
    ask_user(app, dialog, take)


def values_about(option: Option, recipe: Mapping[str, object]) -> dict[str, str]:
    """Value -> a line on it, in the order of the list; of a dtype whether the target has it."""
    about = {choice: option.about.get(choice, "") for choice in option.choices}
    target = recipe.get("target_platform")
    if option.name == "quantized_dtype" and target:
        for dtype, text in about.items():
            if target not in chips_with(dtype):
                about[dtype] = f"✗ not on {target}. {text}"
    if option.default is None:
        return {UNSET: "No value. " + option.help, **about}
    return about


def turned(option: Option, value: object, step: int) -> object:
    """The value that left or right makes of another one; the same where they do nothing.

    Args:
        option: whose value it is.
        value: that it has now.
        step: -1 for left, 1 for right.
    """
    if option.kind == "bool" or (option.kind == "flags" and isinstance(value, bool)):
        return not value
    if option.kind == "choice":
        unset = (None,) if option.default is None else ()
        choices = (*unset, *option.choices)
        at = choices.index(value) if value in choices else 0
        return choices[(at + step) % len(choices)]
    if option.kind == "int":
        new = (value if isinstance(value, int) else 0) + step
        low, high = option.minimum, option.maximum
        if (low is None or new >= low) and (high is None or new <= high):
            return new
    return value


# Reading and writing the recipe's file.


def load_recipe(workspace: Workspace) -> None:
    """Choose a recipe file and take its values."""
    start = workspace.session.recipe_path or str(Path.cwd()) + "/"
    picker = PathPicker("Load a recipe (.yaml)", start, suffixes=RECIPES)
    ask_user(workspace.app, picker, workspace.workbench.open_path)


def save_recipe(workspace: Workspace) -> None:
    """Ask where, and before a file is replaced."""
    session = workspace.session

    def save(path: str, force: bool) -> None:
        def saved(answer: Saved) -> None:
            session.recipe_saved(answer.path)
            workspace.notify(f"Wrote {answer.path}.", markup=False)

        workspace.ask(RECIPE_SAVE, SaveParams(session.recipe, path, force), saved)

    model = Path(str(session.recipe.get("model") or "model"))
    start = session.recipe_path or str(Path.cwd() / f"{model.stem}.yaml")
    ask_new_file(workspace.app, "Save the recipe", Path(start), save)
