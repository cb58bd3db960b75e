"""Widgets without a screen: texts in cells, tables, the tree of a graph."""

from __future__ import annotations

import json

import pytest
from textual.app import App, ComposeResult
from textual.widget import Widget
from textual.widgets import Static

from engine import table_file
from engine.graph.ir.views import Groups
from engine.wire.build import SimulatedOutput, TopValue
from engine.wire.build_tables import OUTPUTS
from engine.wire.formats import NUMBER
from engine.wire.model import GraphView
from engine.wire.table import MARK, Column
from engine.wire.table import Table as Declared
from rknntui.widgets.charts import Histogram, histogram_lines
from rknntui.widgets.graph_tree import GraphTree
from rknntui.widgets.line_list import TextRows
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.strips import cells, fit
from tests.tui.conftest import driven, until


@pytest.mark.parametrize(
    "text", ["", "name", "a/very/long/name/of/a", "日本語の名前です", "é" * 30]
)
@pytest.mark.parametrize("width", [0, 1, 2, 7, 8, 20, 21])
def test_a_text_fills_exactly_its_cells(text: str, width: int) -> None:
    assert cells([(fit(text, width), "")]) == width


def test_a_long_name_keeps_both_ends() -> None:
    assert fit("/stage1/block2/conv3/Conv", 13) == "/stage…3/Conv"


class Host(App[None]):
    """A screen for one widget."""

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self._widget = widget

    def compose(self) -> ComposeResult:
        yield self._widget


def table() -> RecordTable:
    columns = (Column("name", width=6, grow=1), Column("value", format=NUMBER, width=6))
    return RecordTable(Declared("made", "", columns), id="made", what="made")


ROWS = [{"name": "b", "value": 2}, {"name": "a", "value": None}, {"name": "C", "value": 10.5}]


async def test_lines_that_change_while_hidden_are_all_painted_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = TextRows()
    rows.set_lines([[("43.88 dB → 46.72 dB", "")]])
    async with driven(Host(rows), (40, 4)) as pilot:
        rows.display = False
        await pilot.pause()
        asked: list[tuple[object, ...]] = []
        monkeypatch.setattr(rows, "refresh", lambda *regions: asked.append(regions))
        rows.set_lines([[("43.88 dB", "")]])
        assert asked == [()], "what was painted before would stand when it is shown"


async def test_the_last_line_says_that_there_are_more_below() -> None:
    rows = TextRows()
    rows.set_lines([[("x" * 20, "")]] * 5)
    async with driven(Host(rows), (20, 4)) as pilot:
        texts = [rows.render_line(y).text for y in range(4)]
        assert [text.endswith(" …") for text in texts] == [False, False, False, True]
        rows.scroll_end(animate=False)
        await pilot.pause()
        assert not rows.render_line(3).text.endswith(" …")


@pytest.mark.parametrize("scrolled", [False, True], ids=["cursor seen", "scrolled away"])
async def test_the_row_under_the_cursor_stays_in_view_when_a_pane_shrinks(scrolled: bool) -> None:
    rows = TextRows()
    rows.set_lines([[(f"row {at}", "")] for at in range(30)])
    async with driven(Host(rows), (40, 20)) as pilot:
        rows.cursor = 15
        await pilot.pause()
        if scrolled:
            rows.cursor = 29
            rows.scroll_to(y=0, animate=False, force=True)
            await pilot.pause()
        await pilot.resize_terminal(40, 8)
        await until(pilot, lambda: rows._height == 8, "the resize")
        await pilot.pause()
        seen = rows.scroll_offset.y <= rows.cursor < rows.scroll_offset.y + 8
        assert seen is not scrolled, "a reader who scrolled away is not brought back"


async def test_a_table_sorts_numbers_as_numbers_and_nothing_last() -> None:
    made = table()
    async with Host(made).run_test():
        made.set_records(ROWS)
        names = lambda: [record["name"] for record in made.records]  # noqa: E731 - said four times
        made.sort_field("value")
        assert names() == ["b", "C", "a"]
        made.sort_field("name")
        assert names() == ["a", "b", "C"]
        made.set_filter("c 10")
        assert names() == ["C"]
        assert made.as_rows() == [("name", "value"), ("C", "10.5")]


async def test_the_caption_says_the_one_order_that_rows_have() -> None:
    declared = Declared("made", "", (MARK, *table().declared.columns))
    view = RecordView("Made · so", RecordTable(declared, id="made", what="made"))
    async with driven(Host(view), (60, 9)) as pilot:
        caption = lambda: str(view.query_one(".caption", Static).render())  # noqa: E731
        view.table.set_records([{"mark": "●", **row} for row in ROWS])
        view.set_title("Made · so", "by worth")
        assert caption() == "Made · by worth · so · 3"
        view.table.action_sort()
        assert view.table.sorted_by == "name", "a mark has no heading and is no order"
        await pilot.pause()
        assert caption() == "Made · by name ▲ · so · 3", "not by worth any more"


async def test_a_row_and_its_head_have_the_same_width() -> None:
    made = table()
    async with Host(made).run_test():
        made.set_records(ROWS)
        assert cells(made.row_line(0, 40)) == cells(made.head_line(0, 40)) <= 40


def view(*nodes: tuple[str, str, int], groups: tuple[str, ...] = ()) -> GraphView:
    rows = tuple((name, op, f"{name}_out", "1x8", "float32", group) for name, op, group in nodes)
    return GraphView(rows, groups, (), ())


NESTED = view(
    ("start", "Relu", -1),
    ("/a/b/x", "Conv", 0),
    ("/a/b/y", "Conv", 0),
    ("/a/z", "Add", 1),
    ("/a/b/late", "Relu", 0),
    ("/c/only", "Mul", 2),
    groups=("/a/b", "/a", "/c"),
)


async def test_groups_nest_by_their_paths_in_the_order_of_the_graph() -> None:
    tree = GraphTree()
    async with Host(tree).run_test():
        tree.set_graph("g", NESTED)
        rows = [tree.row_line(i, 30) for i in range(tree.row_count)]
        shown = ["".join(text for text, _ in row).split() for row in rows]
        assert shown == [
            ["g"],
            ["Relu", "start", "1x8"],
            ["▾", "a", "4"],
            ["▾", "b", "3"],
            ["Conv", "x", "1x8"],
            ["Conv", "y", "1x8"],
            ["Relu", "late", "1x8"],
            ["Add", "z", "1x8"],
            ["Mul", "/c/only", "1x8"],
        ]
        conv = "".join(text for text, _ in tree.row_line(4, 17))
        assert conv.split() == ["Conv", "x", "1x8"], "a shape stands where it has room"
        assert tree.matches("conv") == [1, 2]
        assert tree.matches("conv y") == [2]


async def test_a_node_of_many_names_is_grouped_by_its_first() -> None:
    names = (
        "net/act/Relu;net/dense/MatMul;net/dense/BiasAdd",
        "net/act/Add;other/batch_norm/Fused;net/act/Relu",
        "Identity;net/dense/MatMul",
    )
    groups = Groups()
    numbers = [groups.number(name) for name in names]
    tree = GraphTree()
    async with Host(tree).run_test():
        nodes = tuple(zip(names, ("Relu", "Add", "Identity"), numbers, strict=True))
        tree.set_graph("g", view(*nodes, groups=tuple(groups.names())))
        rows = [tree.row_line(i, 80) for i in range(tree.row_count)]
        shown = [" ".join("".join(text for text, _ in row).split()) for row in rows]
        assert shown == [
            "g",
            "▾ net 2",
            "▾ act 2",
            "Relu;net/dense/MatMul;net/dense/BiasAdd 1x8",
            "Add;other/batch_norm/Fused;net/act/Relu 1x8",
            "Identity;net/dense/MatMul 1x8",
        ]


def test_a_histogram_shows_every_bin_that_is_not_empty() -> None:
    one = Histogram(-1.0, 1.0, (1000, 0, 1, 500), "values")
    lines = ["".join(text for text, _ in line) for line in histogram_lines((one,), 42, 6)]
    assert [text[1] for text in lines] == ["v", "█", "█", "█", "─", "-"]
    bottom = lines[3][1:]
    assert (bottom[:10], bottom[10:20], bottom[20:30]) == ("█" * 10, " " * 10, "▁" * 10)
    assert lines[-1].endswith("1")


def test_a_table_of_records_is_plain_json_as_deep_as_they_are() -> None:
    top = (TopValue(3, 0.5),)
    output = SimulatedOutput("y", (1, 4), "float32", "simulated", top, 0.0, 0.5, 0.2, 0)
    (told,) = json.loads(table_file(OUTPUTS, [output], ".json"))
    assert (told["name"], told["shape"]) == ("y", [1, 4])
    assert told["top"] == [{"index": 3, "value": 0.5}]
    head, row = table_file(OUTPUTS, [output], ".csv").splitlines()
    plain = dict(zip(head.split(","), row.split(","), strict=True))
    assert (plain["shape"], plain["maximum"], plain["not_finite"]) == ("1x4", "0.5", "")
