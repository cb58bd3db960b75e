"""Our table and graph tree beside Textual's DataTable and Tree, each in a process of its own.

Usage: python benchmarks/terminal/widgets.py [--rows 10000] [--repeat 3]

Each shows the same rows headless at 120x40: seconds of CPU from the mounted, empty widget to the
painted frame, the same for showing the rows in another order, for one move of the cursor (mean of
50), and what memory grew by. Medians of the repeats.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
KINDS = ("DataTable", "ours", "Tree, all nodes", "our tree, all groups open")
MOVES = 50
TITLES = ("#", "operator", "name", "shape", "value")


def main() -> None:
    """Run every kind some times and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(asyncio.run(measured(args.one, args.rows))))
        return
    print(f"{args.rows} rows     fill s   reorder s   move ms   MiB")
    for kind in KINDS:
        command = [sys.executable, __file__, "--rows", str(args.rows), "--one", kind]
        runs = [json.loads(subprocess.check_output(command)) for _ in range(args.repeat)]
        cells = [statistics.median(run[i] for run in runs) for i in range(4)]
        print("{:28} {:.3f}  {:.3f}  {:.2f}  {:.1f}".format(kind, *cells))


async def measured(kind: str, count: int) -> tuple[float, float, float, float]:
    """Seconds to fill, seconds to reorder, milliseconds of a move, MiB."""
    from textual.app import App, ComposeResult
    from textual.widget import Widget

    rows = [
        (i, "Conv", f"/stage{i // 100}/block{i}/conv", "1x64x80x80", i % 97) for i in range(count)
    ]
    widget = made(kind)

    class Program(App[None]):
        def compose(self) -> ComposeResult:
            yield widget

    async with Program().run_test(size=(120, 40)) as pilot:
        widget.focus()
        await pilot.pause()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        async def timed(action: Any) -> float:
            start = time.process_time()
            action()
            await pilot.pause()
            assert isinstance(widget, Widget)
            widget.screen._compositor.render_strips()
            return time.process_time() - start

        fill, reorder, move = actions(widget, rows)
        filled = await timed(fill)
        memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        ordered = await timed(reorder)
        moved = [await timed(move) for _ in range(MOVES)]
    return filled, ordered, statistics.mean(moved) * 1000, memory


def made(kind: str) -> Any:
    """The empty widget."""
    from textual.widgets import DataTable, Tree

    from engine.wire.table import Column, Table
    from rknntui.widgets.graph_tree import GraphTree
    from rknntui.widgets.records import RecordTable

    if kind == "ours":
        columns = tuple(Column(title, width=8, grow=title == "name") for title in TITLES)
        return RecordTable(Table("nodes", "", columns), id="nodes", what="nodes")
    if kind == "DataTable":
        return DataTable(cursor_type="row")
    return Tree("graph") if kind.startswith("Tree") else GraphTree()


def actions(widget: Any, rows: list[tuple[Any, ...]]) -> tuple[Any, Any, Any]:
    """What fills it, brings its rows into another order, and moves its cursor."""
    from textual.widgets import DataTable, Tree

    from engine.wire.model import GraphView
    from rknntui.widgets.records import RecordTable

    if isinstance(widget, RecordTable):
        records = [dict(zip(TITLES, row, strict=True)) for row in rows]
        return (
            lambda: widget.set_records(records),
            lambda: widget.sort_field(TITLES[4]),
            lambda: widget.action_move(1),
        )
    if isinstance(widget, DataTable):

        def fill() -> None:
            keys = widget.add_columns(*TITLES)
            widget.add_rows(rows)
            widget.last_key = keys[4]

        return fill, lambda: widget.sort(widget.last_key), widget.action_cursor_down
    groups = sorted({row[2].split("/")[1] for row in rows})
    if isinstance(widget, Tree):

        def grow() -> None:
            widget.root.expand()
            nodes = {group: widget.root.add(group, expand=True) for group in groups}
            for row in rows:
                nodes[row[2].split("/")[1]].add_leaf(f"{row[1]}  {row[2]}")

        return grow, widget.root.collapse_all, widget.action_cursor_down
    at = {group: index for index, group in enumerate(groups)}
    nodes = tuple((row[2], row[1], "", row[3], "", at[row[2].split("/")[1]]) for row in rows)
    opened = tuple(f"/{group}" for group in groups)
    view = GraphView(nodes, opened, (), ())
    return (
        lambda: widget.set_graph("graph", view, opened),
        widget.action_all,
        lambda: widget.action_move(1),
    )


if __name__ == "__main__":
    main()
