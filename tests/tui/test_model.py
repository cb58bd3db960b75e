"""Workspace Model, by keys alone at 80x24."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknntui.links import GoToNode
from rknntui.screens.model.workspace import ModelWorkspace
from rknntui.widgets.graph_tree import GraphTree
from tests.tui.conftest import residual_model, screen_text, settle, until, with_graph, workbench
from tests.tui.flow import opened

SIZE = (80, 24)
pytestmark = pytest.mark.usefixtures("warm")


async def test_open_by_argument_find_a_node_and_read_its_weights(model: Path) -> None:
    async with with_graph(model, kept=True) as (app, pilot):
        await pilot.sees("source · 120 nodes", "stage0", "1x4x8x8 float32")
        await pilot.press("slash", *"stage2 conv", "enter", sees=("operator    Conv", "Weights"))
        entry = app.workspace.graph.entry
        assert app.workspace.graph.nodes[entry.at][0] == "/stage2/block0/Conv"
        await pilot.press("n", rests=True)
        assert app.workspace.graph.nodes[app.workspace.graph.entry.at][0] == ("/stage2/block1/Conv")
        await pilot.press("N", "N", rests=True)
        assert app.workspace.graph.nodes[app.workspace.graph.entry.at][0] == ("/stage2/block9/Conv")
        await pilot.press("tab", "G")
        await until(pilot, lambda: "-1" in screen_text(app) and "█" in screen_text(app), "bars")
        detail = app.workspace.detail.text()
        assert "kernel_shape" in detail or "pads" in detail
        assert "range       -1 .. 1" in detail
        assert "144, 0 of them 0" in detail


async def test_a_link_names_a_node_or_the_tensor_that_it_writes(model: Path) -> None:
    async with with_graph(model, kept=True) as (app, pilot):
        tree = app.workspace.graph
        name, _, tensor, *_ = tree.nodes[7]
        assert name != tensor
        for named in (name, tensor):
            tree.go_to(0)
            app.post_message(GoToNode(named, "source"))
            await until(pilot, lambda: tree.entry.kind == "node" and tree.entry.at == 7, named)


async def test_groups_open_and_close_by_arrows(model: Path) -> None:
    async with with_graph(model, kept=True) as (app, pilot):
        tree = app.workspace.graph
        assert [entry.kind for entry in tree._rows] == [
            "root",
            "input",
            *["group"] * 4,
            "output",
        ]
        await pilot.press("down", "down", "right")
        assert "block0" in screen_text(app)
        await pilot.press("right", "right", "right")
        assert tree.entry.kind == "node"
        assert tree.nodes[tree.entry.at][1] == "Conv"
        await pilot.press("left")
        assert tree.row_text().startswith("▾ block0")
        await pilot.press("left", "left", "left")
        assert tree.row_text().startswith("▸ stage0")
        await pilot.press("E")
        assert tree.row_count == 1 + 1 + 4 + 40 + 120 + 1
        await pilot.press("G")
        assert tree.entry.kind == "output"
        await pilot.press("E", "g")
        assert tree.entry.kind == "root"


async def test_a_graph_is_walked_and_the_way_back_is_kept(model: Path) -> None:
    def here() -> str:
        return tree.nodes[tree.node][0]

    async with with_graph(model, kept=True) as (app, pilot):
        workspace, tree = app.workspace, app.workspace.graph
        await pilot.press("slash", *"stage1/block3/add", "enter", "enter")
        assert workspace.neighbours.has_focus
        await pilot.sees("┏┷━")
        text = screen_text(app)
        assert [row.count("╭─ Relu") for row in text.splitlines()].count(1) == 1
        assert "├▶ Conv" in text
        assert "╰▶ Add" in text
        await pilot.press("down", "enter")  # the second that reads it
        assert here() == "/stage1/block4/Add"
        await pilot.press("left")
        assert here() == "/stage1/block4/Relu"
        await pilot.press("enter")  # the walk goes on upwards
        assert here() == "/stage1/block4/Conv"
        await pilot.press("backspace", "backspace")
        assert here() == "/stage1/block4/Add"
        await pilot.press("backspace")
        assert here() == "/stage1/block3/Add"
        await pilot.press("d")
        assert tree.has_focus
        assert "┏" not in screen_text(app)
        tree.go_to(119)
        await pilot.press("enter")
        assert "╰▶ the output" in screen_text(app)
        await pilot.press("right", "escape")
        assert tree.node == 119
        assert tree.has_focus


async def test_layers_share_cursor_and_promotion_with_the_graph(digits: Path) -> None:
    async with opened(digits, ModelWorkspace) as (app, pilot, workspace):
        tree, layers = workspace.graph, app.session.layers
        await until(pilot, lambda: tree.row_count > 3, "the graph")
        assert "no node is under the cursor" in workspace.disabled_reason("drill")
        assert "no node is under the cursor" in workspace.disabled_reason("promote")
        await pilot.press("slash", *"stem", "enter")
        assert "no build yet" in workspace.disabled_reason("promote")
        await pilot.press("b", until=lambda: any(row.choice for row in layers.rows))
        await pilot.press("1", "v")  # to the optimised graph, on the same node
        await until(pilot, lambda: workspace.which == "optimised" and tree.node >= 0, "the graph")
        here = tree.nodes[tree.node][0]
        assert "stem" in here
        await until(pilot, lambda: layers.cursor == here or here in layers.cursor, "one cursor")
        await pilot.press("space")
        assert app.session.recipe["quantized_layers"] == {layers.cursor: "float16"}
        await pilot.press("c", rests=True)
        await pilot.sees("● float16", "dtype, ● as asked")
        await pilot.press("c", rests=True)
        await pilot.sees(" dB", "SQNR, simulated")
        await pilot.press("u")
        assert "quantized_layers" not in app.session.recipe
        other = next(row.id for row in layers.rows if "stage2" in row.id and row.choice)
        layers.mark((other,))
        layers.choose(other)  # as another view does
        await until(pilot, lambda: tree.nodes[tree.node][0] == other, "the graph follows")
        await settle(pilot)
        assert any(row.lstrip().startswith("*") for row in screen_text(app).splitlines())
        await pilot.press("enter", "v", "v")  # quantized, then source: the walk goes on
        await until(pilot, lambda: workspace.which == "source", "the source")
        await until(pilot, lambda: workspace.neighbours.node >= 0, "its node")
        assert workspace.neighbours.has_focus
        await settle(pilot)
        await pilot.sees(" dB simulated", "layer ")


@pytest.mark.long
async def test_the_table_sorts_and_is_written(model: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with with_graph(model, kept=True) as (app, pilot):
        await pilot.press("T", "s", "s")
        table = app.workspace.table
        assert table.has_focus
        assert [record["op"] for record in table.records[:2]] == ["Add", "Add"]
        await pilot.press("S")
        assert table.record["op"] == "Conv"
        await pilot.press("x")
        target = tmp_path / "nodes.csv"
        await pilot.press("enter", until=target.exists)
        lines = target.read_text().splitlines()
        assert lines[0] == "number,op,name,shape,dtype"  # as the reference of tables has them
        assert len(lines) == 121
        await pilot.press("x", "enter", sees="y replace")
        await pilot.press("n")
        await pilot.press("T")
        assert app.workspace.graph.has_focus


async def test_a_picker_opens_a_model(tmp_path: Path, monkeypatch) -> None:
    residual_model(1, tmp_path / "tiny.onnx")
    monkeypatch.chdir(tmp_path)
    async with workbench(kept=True) as (app, pilot):
        assert "o opens a model" in screen_text(app)
        await pilot.press("o", *"tin", rests=True)
        assert "tiny.onnx" in screen_text(app)
        await pilot.press("enter", until=lambda: app.session.model is not None)
        await pilot.sees("3 nodes")


@pytest.mark.long
async def test_ten_thousand_nodes_are_walked(tmp_path: Path) -> None:
    path = residual_model(3334, tmp_path / "flat.onnx", "n{}_{}")
    async with workbench(path, kept=True) as (app, pilot):
        await until(pilot, lambda: app.session.model is not None, "the model is open")
        await app.show("model")
        tree = app.workspace.query_one(GraphTree)
        await until(pilot, lambda: tree.row_count > 3_000, "its nodes are shown")
        await pilot.press("E", "G", "k")
        assert tree.entry.at == 10_001
        assert tree.row_count == 1 + 1 + 3_334 + 10_002 + 1
        await pilot.press("slash", *"n333_3", "enter", rests=True)
        assert tree.nodes[tree.entry.at][0].startswith("n333_3")
