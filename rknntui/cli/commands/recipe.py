"""``rknntui inspect``, ``dataset`` and ``recipe``: what a build starts from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from engine import (
    OPTIONS,
    EngineError,
    RecipeError,
    answer_lines,
    changed_options,
    sanitize,
    table_lines,
)
from engine.wire.codec import Values, encode
from engine.wire.dataset import DATASET_CHECK, CheckParams, DatasetFacts
from engine.wire.model import (
    GRAPH,
    LOAD,
    OPEN,
    GraphParams,
    GraphView,
    Loaded,
    LoadParams,
    ModelView,
)
from engine.wire.project_tables import CHANGED_OPTIONS, OPTION_VALUES
from engine.wire.project_tables import OPTIONS as OPTION_TABLE
from engine.wire.requests import (
    RECIPE_LOAD,
    RECIPE_SAVE,
    VALIDATE,
    AtPath,
    Checked,
    ModelTarget,
    OfRecipe,
    Problem,
    SaveParams,
)
from rknntui.cli.flags import (
    Verb,
    VerbGroup,
    force_flag,
    json_flag,
    output_flag,
    recipe_flags,
    source_flags,
    target,
    values_of,
)
from rknntui.cli.keys import key_file_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, is_recipe, resolve, with_worker
from rknntui.cli.verb import described


@click.group("recipe", cls=VerbGroup)
def recipe() -> None:
    """Write, check, show or compare recipes: YAML with everything needed to build again."""


@recipe.command("new", epilog="TARGET is a model file, or a recipe to start from.")
@target
@recipe_flags
@output_flag("The file to write; default: standard output.")
@force_flag
@json_flag
def new(target: Path, output: Path | None, force: bool, as_json: bool, **flags: Any) -> None:
    """Write a recipe for a model from flags."""

    async def action(session: WorkerSession) -> tuple[Values, Checked, str | None]:
        recipe = await resolve(session, target, values_of(flags))
        checked = await session.call(VALIDATE, OfRecipe(recipe))
        if not checked.yaml:
            raise RecipeError(
                " ".join(_problem_lines(checked.problems)),
                cause="Flags that do not fit each other.",
                remedy="Correct them; `rknntui recipe options` lists every option.",
            )
        if output is None:
            return recipe, checked, None
        asked = SaveParams(recipe, str(output.absolute()), force)
        return recipe, checked, (await session.call(RECIPE_SAVE, asked)).path

    narrate = Narrator()
    recipe, checked, path = with_worker(action, narrate)
    # a recipe may be written before all of it is there
    for line in _problem_lines(checked.problems):
        narrate.say(f"still to do: {line}")
    data = {"recipe": recipe, **encode(checked), **({} if path is None else {"path": path})}
    text = checked.yaml.rstrip("\n") if path is None else f"wrote {path}"
    emit(data, text, as_json=as_json)


@recipe.command("check")
@target
@json_flag
def check(target: Path, as_json: bool) -> None:
    """Check a recipe: every option, and against its model."""

    async def action(session: WorkerSession) -> tuple[Values, Checked]:
        if await is_recipe(session, target):
            loaded = await session.call(RECIPE_LOAD, AtPath(str(target.absolute())))
            if loaded.problems:
                return loaded.recipe, Checked(loaded.problems, (), "")
        recipe = await resolve(session, target, {})
        return recipe, await session.call(VALIDATE, OfRecipe(recipe))

    recipe, checked = with_worker(action, Narrator())
    lines = _problem_lines(checked.problems)
    lines += [f"{f.severity}: {sanitize(f.what)}" for f in checked.findings]
    data = {"recipe": recipe, **encode(checked)}
    emit(data, lines or ["no problems"], as_json=as_json)
    if checked.problems:
        raise click.exceptions.Exit(3)


def _problem_lines(problems: Iterable[Problem]) -> list[str]:
    """What a line says where the option alone would not say more."""
    return [
        f"{p.option}: {sanitize(p.message)}" if p.option else sanitize(p.message) for p in problems
    ]


def _recipes(*targets: Path) -> list[Values]:
    """The recipes that these mean."""

    async def action(session: WorkerSession) -> list[Values]:
        return [await resolve(session, target, {}) for target in targets]

    return with_worker(action, Narrator())


@recipe.command("show")
@target
@click.option("--all", "everything", is_flag=True, help="Also the options that have their default.")
@json_flag
def show(target: Path, everything: bool, as_json: bool) -> None:
    """Print the values of a recipe, and whether each is the default."""
    (values,) = _recipes(target)
    rows = []
    for option in OPTIONS:
        value = values.get(option.name, option.default)
        if everything or value != option.default:
            origin = "default" if value == option.default else "recipe"
            rows.append(OPTION_VALUES.record(option, value=option.render(value), origin=origin))
    emit(values, table_lines(OPTION_VALUES, rows), as_json=as_json)


@recipe.command("diff")
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@json_flag
def diff(first: Path, second: Path, as_json: bool) -> None:
    """Compare two recipes option by option."""
    one, two = _recipes(first, second)
    differing = list(changed_options(one, two))
    changed = [{"option": o.name, "first": old, "second": new} for o, old, new in differing]
    rows = [
        {"name": o.name, "first": o.render(old) or "not set", "second": o.render(new) or "not set"}
        for o, old, new in differing
    ]
    option, *sides = CHANGED_OPTIONS.columns
    named = (replace(s, heading=p.name) for s, p in zip(sides, (first, second), strict=True))
    lines = table_lines(replace(CHANGED_OPTIONS, columns=(option, *named)), rows)
    emit(changed, lines or ["no difference"], as_json=as_json)


@recipe.command("options")
@json_flag
def options(as_json: bool) -> None:
    """List every option with its default and meaning."""
    data = [
        {
            "name": o.name,
            "section": o.section,
            "kind": o.kind,
            "default": o.default,
            "choices": o.choices,
            "ours": o.extension,
            "help": o.help,
        }
        for o in OPTIONS
    ]
    emit(data, table_lines(OPTION_TABLE, OPTIONS), as_json=as_json)


@click.group("dataset", cls=VerbGroup)
def dataset() -> None:
    """Make or check a calibration dataset (dataset.txt: a line a sample, a file per input)."""


async def _is_recipe(session: WorkerSession, source: Path) -> bool:
    try:
        return await is_recipe(session, source)
    except EngineError:
        return False  # a folder, or what the reader of datasets refuses in its own words


@dataset.command("check")
@click.argument("source", metavar="DATASET", type=click.Path(path_type=Path))
@click.option("--model", type=click.Path(path_type=Path), help="Model or recipe to check against.")
@recipe_flags
@json_flag
def check_dataset(source: Path, model: Path | None, as_json: bool, **flags: Any) -> None:
    """Read every sample as calibration would, and name each problem by its line.

    DATASET is a list, a folder, or a recipe, whose dataset is checked against its model.
    """

    async def action(session: WorkerSession) -> DatasetFacts:
        options: Values = values_of(flags)
        if await _is_recipe(session, source):
            options = await resolve(session, source, options)
        else:
            options = {**options, "dataset": str(source.absolute())}
        if model is not None:
            chosen = {name: value for name, value in options.items() if name != "model"}
            options = await resolve(session, model, chosen)
        return await session.call(DATASET_CHECK, CheckParams(None, options, decode=True))

    checked = with_worker(action, Narrator())
    emit(checked, answer_lines(checked), as_json=as_json)
    if checked.problems:
        raise click.exceptions.Exit(6)


@click.command("inspect", cls=Verb, **described(OPEN))
@target
@click.option("--layers", is_flag=True, help="List every layer.")
@click.option("--load", is_flag=True, help="Also convert it and describe the graph.")
@source_flags
@key_file_flag
@json_flag
def inspect(target: Path, layers: bool, load: bool, as_json: bool, **flags: Any) -> None:
    """Say what a file is (by its content, not its suffix) and what is in it."""
    options = values_of(flags)

    async def action(session: WorkerSession) -> tuple[ModelView, Loaded | None, GraphView | None]:
        path = str(target.absolute())
        loaded = graph = None
        view = await session.call(OPEN, ModelTarget(path, source=options))
        if load:
            recipe = {**(view.recipe or {"model": path}), **options}
            loaded = await session.run(LOAD, LoadParams(recipe=recipe))
        if layers:
            graph = await session.call(GRAPH, GraphParams(path, source=options))
        return view, loaded, graph

    view, loaded, graph = with_worker(action, Narrator(quiet=not load))
    data = encode(view)
    data |= {} if loaded is None else {"load": encode(loaded)}
    data |= {} if graph is None else {"graph": encode(graph)}
    emit(data, answer_lines(view, loaded=loaded, graph=graph), as_json=as_json)
