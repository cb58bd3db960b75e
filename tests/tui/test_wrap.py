"""Nothing that is told is cut: dialogs, panes and columns, at any width and in Chinese."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from rich.cells import cell_len

from engine import Finding, UsageError
from engine.wire.formats import NUMBER
from engine.wire.layer_tables import QUALITY
from engine.wire.table import Column, Table, says
from rknntui.app import Workbench
from rknntui.screens.dialogs.dialogs import ConfirmDialog
from rknntui.screens.dialogs.help import HelpDialog
from rknntui.screens.dialogs.lists import RemedyDialog
from rknntui.screens.dialogs.picker import PathPicker
from rknntui.screens.recipe.words import issue_lines
from rknntui.widgets.line_list import TextRows
from rknntui.widgets.records import RecordTable
from rknntui.widgets.strips import fit
from rknntui.widgets.wrap import wrap, wrap_line
from tests.tui.conftest import screen_text, until, with_graph, workbench

CHINESE = "没有设置校准数据集，请选择一个图片文件夹或列表文件。量化需要校准数据集，否则无法继续。"  # noqa: RUF001
PATH = "/home/user/.local/state/rknntui/jobs/20260101-120000-version-RFB-320-build/worker.log"


def inside(app: Workbench) -> str:
    """The text between the frames of the dialog, without blanks."""
    rows = [line.split("│")[1] for line in screen_text(app).splitlines() if line.count("│") > 1]
    return "".join("".join(rows).split())


@pytest.mark.parametrize("width", [8, 11, 30, 71])
def test_no_character_is_lost_and_no_row_is_longer(width: int) -> None:
    chosen = random.Random(width)
    for _ in range(300):
        text = "".join(chosen.choice("ab-/c 文字。—") for _ in range(chosen.randrange(90)))
        for hang in ("", "  "):
            rows = wrap(text, width, hang)
            assert "".join("".join(rows).split()) == "".join(text.split())
            assert all(cell_len(row) <= max(width, 8 + len(hang)) for row in rows)
        line = [(text[:20], "head"), (text[20:], "dim")]
        styled = [part for row in wrap_line(line, width) for part in row if part[0].strip()]
        for style, own in (("head", text[:20]), ("dim", text[20:])):
            told = "".join(part for part, its in styled if its == style)
            assert "".join(told.split()) == "".join(own.split())


def test_a_path_breaks_behind_a_slash() -> None:
    rows = wrap(f"Log: {PATH}", 60)
    assert rows == [
        "Log: /home/user/.local/state/rknntui/jobs/",
        "20260101-120000-version-RFB-320-build/worker.log",
    ]


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (120, 40)], ids=str)
async def test_dialogs_show_every_character(size: tuple[int, int]) -> None:
    what, remedy = f"{CHINESE} {PATH}", f"Set {PATH}"
    finding = Finding("x", "info", "mean_values", what, "", remedy, {"resize_fit": "pad"})
    async with workbench(size=size) as (app, pilot):
        error = UsageError(f"Log: {PATH} {PATH}", cause=CHINESE, remedy=f"See {PATH}.")
        for dialog, texts in (
            (None, [str(error.what), error.cause, error.remedy]),
            (ConfirmDialog("Q", f"{CHINESE} {PATH}", [("y", "yes", 1)]), [CHINESE, PATH]),
            (RemedyDialog([finding]), [finding.what, finding.remedy]),
        ):
            if dialog is None:
                app.show_error(error)
            else:
                app.push_screen(dialog)
            await until(pilot, lambda: len(app.screen_stack) == 2, "a dialog")
            await pilot.pause(0.1)
            shown = inside(app)
            for text in texts:
                assert "".join(text.split()) in shown, screen_text(app)
            await pilot.press("escape", until=lambda: len(app.screen_stack) == 1)


async def test_files_with_long_names_can_be_told_apart(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{'模型' * 40}{number}.onnx").write_bytes(b"")
    async with workbench() as (app, pilot):
        app.push_screen(PathPicker("Open", f"{tmp_path}/"))
        await until(pilot, lambda: isinstance(app.screen, PathPicker), "the picker")
        await pilot.pause(0.1)
        assert all(f"{number}.onnx" in inside(app) for number in range(3)), screen_text(app)


async def test_help_shows_whole_lines_also_after_a_resize() -> None:
    async with workbench(size=(120, 40)) as (app, pilot):
        await pilot.press("question_mark", until=lambda: isinstance(app.screen, HelpDialog))
        for width in (120, 64):
            await pilot.resize_terminal(width, 40)
            await pilot.pause(0.1)
            rows = app.screen.query_one(TextRows)
            text = " ".join(rows.text().split())
            assert "Show a letter on every pane; press it to move there." in text
            room = rows.scrollable_content_region.width
            assert all(cell_len("".join(t for t, _ in line)) <= room for line in rows.lines)


def test_problems_of_a_recipe_are_wrapped_and_lead_to_their_option() -> None:
    problems = {
        "dataset": f"No calibration dataset is set. {CHINESE}",
        "target_platform": "x " * 40,
    }
    lines, options = issue_lines(problems, [], None, 40)
    assert all(cell_len("".join(t for t, _ in line)) <= 40 for line in lines)
    told = "".join("".join(t for line in lines for t, _ in line).split())
    assert "".join(problems["dataset"].split()) in told
    assert len(lines) == len(options) > 4
    assert options[0] == "dataset"
    assert options[-1] == "target_platform"


def test_names_keep_their_beginning_and_their_distinguishing_end() -> None:
    names = [f"/主干网络/第一阶段/残差块/卷积层{number}" for number in range(3)]
    for width in (8, 15, 16, 20):
        shown = [fit(name, width) for name in names]
        assert all(cell_len(text) == width for text in shown)
        assert len(set(shown)) == 3
    assert fit("abcdefghijklmnop", 9) == "abcd…mnop"


def test_columns_show_whole_texts_where_there_is_room() -> None:
    columns = (
        Column("#", format=NUMBER, width=5),
        Column("operator", width=12),
        Column("name", width=8, grow=1),
        Column("shape", width=11),
    )
    table = RecordTable(Table("nodes", "", columns), id="nodes", what="nodes")
    keys = [column.key for column in columns]
    node = (1, "BatchNormalization", "/stage2/stage2.1/norm", "1x160x160x160")
    table.set_records([dict(zip(keys, node, strict=True))])
    for width in (80, 120, 200):
        line = "".join(text for text, _ in table.row_line(0, width))
        assert "…" not in line
        assert cell_len(line) <= width
    narrow = "".join(text for text, _ in table.row_line(0, 50))
    assert cell_len(narrow) <= 50
    assert "norm" in narrow
    node = (1, "Add", "/stage2/stage2.1/a/very/long/name/of/a/layer/norm", "1x10")
    table.set_records([dict(zip(keys, node, strict=True))])
    line = "".join(text for text, _ in table.row_line(0, 80))
    assert "…" not in line, "short texts give their room to names"


@pytest.mark.usefixtures("warm")
async def test_the_detail_of_a_node_is_wrapped_to_a_terminal_that_grows(model: Path) -> None:
    async with with_graph(model) as (app, pilot):
        workspace = app.workspace
        await until(pilot, lambda: "File type" in workspace.detail.text(), "the model's details")
        narrow = workspace.detail.text()
        await pilot.resize_terminal(200, 60)
        await until(pilot, lambda: workspace.detail.text() != narrow, "other lines")
        wide = workspace.detail.text()
        assert "its protobuf fields are an ONNX model's" in wide
        assert len(wide.splitlines()) < len(narrow.splitlines())
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: workspace.detail.text() == narrow, "the lines of before")


def test_a_column_that_says_nothing_new_gives_its_room_to_names() -> None:
    table = RecordTable(QUALITY, id="ranking", what="accuracy")
    source, impact = (QUALITY.column(key) for key in ("source", "output_impact"))
    table.set_records([{"name": "/a", "source": "/a", "output_impact": None}])
    assert not says(source, table.records)
    assert not says(impact, table.records)
    table.set_records([{"name": "/a", "source": "/a, /b", "output_impact": 0.5}])
    assert says(source, table.records)
    assert says(impact, table.records)
