"""``rknntui inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import human_bytes, printable, shape_text, summary_text
from rknntui.cli.flags import json_flag, target
from rknntui.cli.narration import Narrator
from rknntui.cli.output import emit, table
from rknntui.cli.session import WorkerSession, sniffed, with_worker


@click.command("inspect")
@target
@click.option("--layers", is_flag=True, help="List every layer.")
@json_flag
def command(target: Path, layers: bool, as_json: bool) -> None:
    """Say what a file is (by its content, not its suffix) and what is in it."""

    async def action(session: WorkerSession) -> dict[str, Any]:
        await sniffed(session, target)
        path = str(target.absolute())
        view = await session.call("open", path=path)
        if layers:
            view["graph"] = await session.call("graph", path=path, which="source")
        return view

    view = with_worker(action, Narrator())
    emit(view, _lines(view), as_json=as_json)


def _lines(view: dict[str, Any]) -> list[str]:
    lines = [f"{printable(view['name'])}: {printable(view['format'])}", f"SHA-256 {view['sha256']}"]
    for title in ("inputs", "outputs"):
        lines.append(f"{title}:")
        lines += [
            f"  {printable(t['name'])}  {shape_text(t['shape'])}  {t['dtype']}" for t in view[title]
        ]
    weights = human_bytes(view["weights_bytes"])
    lines.append(f"{view['nodes']} nodes, {view['parameters']} parameters, {weights} of weights")
    counts = sorted(view["operators"].items(), key=lambda item: (-item[1], item[0]))
    lines.append("operators: " + ", ".join(f"{printable(op, 60)} {count}" for op, count in counts))
    for finding in view["findings"]:
        lines.append(
            f"{finding['severity']}: {printable(finding['where'])}: {printable(finding['what'])}"
        )
        if finding["remedy"]:
            lines.append(f"  remedy: {printable(finding['remedy'])}")
    if "graph" in view:
        rows = [
            (str(i), *(printable(cell, 60) for cell in node[:5]))
            for i, node in enumerate(view["graph"]["nodes"])
        ]
        lines += ["", *table(("#", "layer", "op", "output", "shape", "dtype"), rows)]
    if view.get("summary"):
        lines += ["", summary_text(view["summary"])]
    return lines
