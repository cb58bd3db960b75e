"""``rknntui hybrid``: layers of another dtype, by files, by proposal or by search."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from engine import Event, Partial, printable, summary_text
from rknntui.cli.flags import json_flag, quiet_flag, recipe_flags, target, values_of
from rknntui.cli.hybrid_text import decibels, honoured_lines, point_cells, ranking_lines, wrote_line
from rknntui.cli.narration import Narrator
from rknntui.cli.output import emit, table
from rknntui.cli.session import WorkerSession, resolve, with_worker

EPILOG = "TARGET is a model file or a recipe; flags win over the recipe."
_CURVE = "hybrid.curve"

save_flag = click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a recipe with the layers found.",
)
force_flag = click.option("--force", is_flag=True, help="Overwrite files that exist.")


class Named(click.ParamType):
    """``NAME=VALUE``, split at the last ``=``; the value may be left out where it has a default."""

    name = "NAME=VALUE"

    def __init__(self, default: str | None = None) -> None:
        self._default = default

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """(name, value)."""
        name, mark, text = str(value).rpartition("=")
        if not mark and self._default is not None:
            name, text = text, self._default
        if not name or not text:
            self.fail(f"{value!r} is not NAME=VALUE.", param, ctx)
        return name, text


class Span(Named):
    """``NAME=LOW,HIGH``."""

    name = "NAME=LOW,HIGH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """(name, [low, high])."""
        name, text = super().convert(value, param, ctx)
        try:
            low, high = (float(part) for part in text.split(","))
        except ValueError:
            self.fail(f"{value!r} is not NAME=LOW,HIGH with two numbers.", param, ctx)
        return name, [low, high]


@click.group("hybrid")
def command() -> None:
    """Give layers another dtype: files of the vendor's two steps, proposal, search, effect."""


@command.command("step1", epilog=EPILOG, short_help="Write the three files of the vendor's step 1.")
@target
@click.option(
    "-o",
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Folder for the three files. Default: the current one.",
)
@click.option("--proposal", is_flag=True, help="Lift the layers that matter most.")
@click.option(
    "--proposal-dataset-size",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Samples that --proposal looks at.",
)
@click.option(
    "--custom-hybrid",
    "pairs",
    multiple=True,
    type=(str, str),
    metavar="INPUT OUTPUT",
    help="Lift all layers between two tensors; may be given again.",
)
@recipe_flags
@force_flag
@json_flag
@quiet_flag
def step1(
    target: Path,
    output_dir: Path,
    proposal: bool,
    proposal_dataset_size: int,
    pairs: tuple[tuple[str, str], ...],
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Write structure, data and NAME.quantization.cfg, to edit and give to step2."""

    async def action(session: WorkerSession) -> dict[str, Any]:
        return await session.run(
            "hybrid.step1",
            recipe=await resolve(session, target, values_of(flags)),
            folder=str(output_dir.absolute()),
            proposal=proposal,
            proposal_dataset_size=proposal_dataset_size,
            custom_hybrid=[list(pair) for pair in pairs] or None,
            force=force,
        )

    result = with_worker(action, Narrator(quiet=quiet))
    emit(result, [*result["files"].values(), *ranking_lines(result)], as_json=as_json)


@command.command("step2", short_help="Build from the files of step 1, edited.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--dataset", type=click.Path(path_type=Path), help="Instead of step 1's.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The .rknn to write."
)
@force_flag
@json_flag
@quiet_flag
def step2(
    model: Path,
    data: Path,
    config: Path,
    dataset: Path | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Build from the files of step1 and tell, line by line, what became of every edit."""

    async def action(session: WorkerSession) -> dict[str, Any]:
        return await session.run(
            "hybrid.step2",
            model=str(model.absolute()),
            data=str(data.absolute()),
            config=str(config.absolute()),
            dataset=None if dataset is None else str(dataset.absolute()),
            path=None if output is None else str(output.absolute()),
            force=force,
        )

    result = with_worker(action, Narrator(quiet=quiet))
    files = [str(path) for path in (model, data, config)]
    result["summary"]["next_command"] = (
        shlex.join(["rknntui", "hybrid", "step2", *files, "-o", "model.rknn"])
        if output is None
        else shlex.join(["rknntui", "inspect", str(output)])
    )
    lines = [*honoured_lines(result["honoured"]), "", *summary_text(result["summary"]).split("\n")]
    emit(result, lines, as_json=as_json)


@command.command("propose", epilog=EPILOG, short_help="Rank the layers by what lifting them gives.")
@target
@click.option("--budget", type=click.IntRange(1), help="How many layers. Default: those that gain.")
@click.option("--dtype", help="Of the lifted layers. Default: half precision.")
@save_flag
@recipe_flags
@force_flag
@json_flag
@quiet_flag
def propose(
    target: Path,
    budget: int | None,
    dtype: str | None,
    save: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Rank the layers by what lifting them gives, from what every rounding does to the outputs."""

    async def action(session: WorkerSession) -> dict[str, Any]:
        recipe = await resolve(session, target, values_of(flags))
        found = await session.run("hybrid.propose", recipe=recipe, budget=budget, dtype=dtype)
        return found | await _saved(session, save, recipe, found["layers"], force)

    result = with_worker(action, Narrator(quiet=quiet))
    emit(result, [*ranking_lines(result), *wrote_line(result)], as_json=as_json)


@command.command(
    "search", epilog=EPILOG, short_help="Find the layers to lift for a floor or a budget."
)
@target
@click.option("--floor", type=float, help="SQNR in dB that every output is to have.")
@click.option("--budget", type=click.IntRange(1), help="Lifted layers at most.")
@click.option("--dtype", help="Of the lifted layers. Default: half precision.")
@click.option("--lower", is_flag=True, help="Start with all lifted; give back what is not needed.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="Time at most.")
@save_flag
@recipe_flags
@force_flag
@json_flag
@quiet_flag
def search(
    target: Path,
    floor: float | None,
    budget: int | None,
    dtype: str | None,
    lower: bool,
    seconds: float | None,
    save: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Find the layers to lift for a floor or a budget; the curve grows on standard error."""
    narrate = Narrator(quiet=quiet)

    def tell(event: Event) -> None:
        if isinstance(event, Partial) and event.kind == _CURVE:
            narrate.say("  ".join(point_cells(event.data)))
        narrate(event)

    async def action(session: WorkerSession) -> dict[str, Any]:
        recipe = await resolve(session, target, values_of(flags))
        found = await session.run(
            "hybrid.search",
            recipe=recipe,
            floor_db=floor,
            budget=budget,
            dtype=dtype,
            lower=lower,
            seconds=seconds,
        )
        return found | await _saved(session, save, recipe, found["best"]["layers"], force)

    result = with_worker(action, tell)
    lines = table(
        ("step", "layer", "to", "lifted", "outputs, dB (simulated)"),
        [point_cells(point) for point in result["curve"]],
    )
    best = result["best"]
    lines.append(
        f"best: step {best['step']}, {len(best['lifted'])} layers; ended: {result['ended']}"
    )
    lines += [f"  {printable(name, 200)}: {dtype}" for name, dtype in best["layers"].items()]
    emit(result, [*lines, *wrote_line(result)], as_json=as_json)


@command.command("effect", epilog=EPILOG, short_help="Tell what other dtypes and ranges would do.")
@target
@click.option(
    "--lift",
    "layers",
    multiple=True,
    type=Named("float16"),
    metavar="TENSOR[=DTYPE]",
    help="The layer that writes a tensor; float16 by default.",
)
@click.option(
    "--range", "ranges", multiple=True, type=Span(), metavar="TENSOR=LOW,HIGH", help="Its range."
)
@recipe_flags
@json_flag
@quiet_flag
def effect(
    target: Path,
    layers: tuple[tuple[str, str], ...],
    ranges: tuple[tuple[str, list[float]], ...],
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Tell what other dtypes and ranges would do to the outputs, without building."""

    async def action(session: WorkerSession) -> dict[str, Any]:
        recipe = await resolve(session, target, values_of(flags))
        return await session.run(
            "hybrid.effect", recipe=recipe, layers=dict(layers), ranges=dict(ranges)
        )

    result = with_worker(action, Narrator(quiet=quiet))
    rows = [
        (printable(o["name"], 60), decibels(o["before_db"]), decibels(o["sqnr_db"]))
        for o in result["outputs"]
    ]
    lines = table(("output", "before dB", "after dB (simulated)"), rows)
    emit(result, [*lines, *honoured_lines(result["honoured"])], as_json=as_json)


@command.command("table", epilog=EPILOG)
@target
@recipe_flags
@json_flag
def layers_table(target: Path, as_json: bool, **flags: Any) -> None:
    """List the layers of a build with dtype, range and SQNR."""

    async def action(session: WorkerSession) -> dict[str, Any]:
        recipe = await resolve(session, target, values_of(flags))
        await session.run("build", recipe=recipe)
        return await session.call("hybrid.table", recipe=recipe)

    result = with_worker(action, Narrator(quiet=True))
    rows = [
        (
            printable(row["tensor"], 50),
            printable(row["layer"], 40),
            row["op"],
            row["dtype"],
            "" if row["minimum"] is None else f"{row['minimum']:.5g}",
            "" if row["maximum"] is None else f"{row['maximum']:.5g}",
            decibels(row["sqnr_db"]),
        )
        for row in result["rows"]
    ]
    columns = ("tensor", "layer", "op", "dtype", "minimum", "maximum", "SQNR dB (simulated)")
    emit(result, [*table(columns, rows), f"SQNR over {result['over']}"], as_json=as_json)


@command.command("joins", epilog=EPILOG, short_help="Find joins of unlike ranges before a build.")
@target
@recipe_flags
@json_flag
def joins(target: Path, as_json: bool, **flags: Any) -> None:
    """Find joins of unlike ranges (boxes and scores in one Concat) before a build."""

    async def action(session: WorkerSession) -> dict[str, Any]:
        recipe = await resolve(session, target, values_of(flags))
        return await session.call("joins", recipe=recipe)

    result = with_worker(action, Narrator(quiet=True))
    lines = [
        f"{f['severity']}: {printable(f['where'], 80)}: {printable(f['what'])} "
        f"{printable(f['cause'])} Remedy: {printable(f['remedy'])}"
        for f in result["findings"]
    ]
    emit(result, lines or "No join of unlike ranges.", as_json=as_json)


async def _saved(
    session: WorkerSession,
    save: Path | None,
    recipe: dict[str, Any],
    layers: dict[str, str],
    force: bool,
) -> dict[str, Any]:
    """Write the recipe with the layers where asked; what to add to the result."""
    if save is None:
        return {}
    asked = {**(recipe.get("quantized_layers") or {}), **layers}
    values = {**recipe, "quantized_layers": asked} if asked else recipe
    path = str(save.absolute())
    await session.call("recipe.save", recipe=values, path=path, force=force)
    return {"saved": path}
