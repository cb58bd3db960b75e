"""``rknntui inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine.wire.codec import encode
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
from engine.wire.requests import ModelTarget
from rknntui.cli.flags import Verb, json_flag, source_flags, target, values_of
from rknntui.cli.inspect_output import lines
from rknntui.cli.keys import key_file_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, with_worker
from rknntui.cli.verb import described


@click.command(
    "inspect",
    cls=Verb,
    **described(OPEN),
)
@target
@click.option("--layers", is_flag=True, help="List every layer.")
@click.option("--load", is_flag=True, help="Also convert it and describe the graph.")
@source_flags
@key_file_flag
@json_flag
def command(target: Path, layers: bool, load: bool, as_json: bool, **flags: Any) -> None:
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
    emit(data, lines(view, loaded, graph), as_json=as_json)
