"""``rknntui inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rknntui.cli.flags import json_flag, source_flags, target, values_of
from rknntui.cli.inspected import lines
from rknntui.cli.narration import Narrator
from rknntui.cli.output import emit
from rknntui.cli.session import WorkerSession, with_worker


@click.command(
    "inspect",
    epilog="TARGET is a model of any of the seven frameworks (either file of a pair), a recipe, or "
    "any .rknn or .rknnop file. Without --load nothing is converted: it tells what a load meets.",
)
@target
@click.option("--layers", is_flag=True, help="List every layer.")
@click.option("--load", is_flag=True, help="Convert it too, and say what the graph is.")
@source_flags
@json_flag
def command(target: Path, layers: bool, load: bool, as_json: bool, **flags: Any) -> None:
    """Say what a file is (by its content, not its suffix) and what is in it."""
    given = values_of(flags)

    async def action(session: WorkerSession) -> dict[str, Any]:
        path = str(target.absolute())
        view = await session.call("open", path=path, **given)
        if load:
            recipe = {**(view.get("recipe") or {"model": path}), **given}
            view["load"] = await session.run("load", recipe=recipe)
        if layers:
            view["graph"] = await session.call("graph", path=path, which="source", **given)
        return view

    view = with_worker(action, Narrator(quiet=not load))
    emit(view, lines(view), as_json=as_json)
