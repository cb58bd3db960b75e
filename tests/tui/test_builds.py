"""Workspace Builds, by keys alone at 80x24, over the real worker."""

from __future__ import annotations

import asyncio
import time
from math import inf
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from engine import (
    JobRecord,
    LogLine,
    Tried,
    build_rows,
    event_to_dict,
    find_log,
    list_jobs,
    pareto_front,
    read_events,
)
from engine.base.peers.far import encode
from engine.jobs.record import new_record
from engine.wire.build import BUILD, BuildParams
from rknntui.screens.builds.front import FrontChart
from rknntui.screens.builds.workspace import Builds
from rknntui.screens.layers.workspace import Layers
from rknntui.session.job_view_model import JobView, job_title
from rknntui.workspaces import keys_of
from tests.safety import PATIENCE
from tests.tui.conftest import Driver, screen_text, settle, until, workbench, write_recipe
from tests.tui.flow import opened
from tests.tui.terminal import Terminal

pytestmark = pytest.mark.usefixtures("own_workers")


def words(lines: list[list[tuple[str, str]]]) -> str:
    return "\n".join("".join(part for part, _ in line) for line in lines)


def builds() -> list[JobRecord]:
    """Those of the history: other jobs run in the background."""
    return [record for record in list_jobs(30) if record.method == "build"]


async def built(pilot: Driver, many: int) -> None:
    """So many builds are in the history, and nothing runs."""
    app = pilot.app
    idle = lambda: len(builds()) == many and app.session.running is None  # noqa: E731
    await until(pilot, idle, f"{many} builds")
    workspace = app.workspace
    rows = lambda: [row.state for row in workspace.history.records]  # noqa: E731
    await until(pilot, lambda: rows() == ["done"] * many, "all are done")


def many_samples(demo: Path, folder: Path, times: int) -> Path:
    """A list that takes a while to calibrate with."""
    lines = [str(demo / line) for line in (demo / "dataset.txt").read_text().split()]
    (folder / "many.txt").write_text("\n".join(lines * times))
    return folder / "many.txt"


@pytest.mark.long
async def test_two_builds_are_compared_noted_and_opened_again(demo: Path) -> None:
    async with opened(demo / "digits_demo.onnx", Builds) as (app, pilot, workspace):
        await pilot.sees("No builds yet.")
        app.session.set_value("dataset", str(demo / "dataset.txt"))
        await pilot.press("b")
        await built(pilot, 1)
        layer = app.session.summary.worst[0].layer
        app.session.set_values(
            {"quantized_method": "layer", "quantized_layers": {layer: "float16"}}
        )
        await pilot.press("b")
        await built(pilot, 2)
        await pilot.press("equals_sign", sees="Outputs, dB (simulated)")
        said = workspace.detail.about.text()
        assert "logits" in said
        assert said.index("Outputs") < said.index("Worst layers") < said.index("Options")
        assert "quantized_method: channel → layer" in said
        assert f"{layer}: as the model → float16" in said
        assert "quantized_layers." not in said
        await pilot.press("escape", sees=f"layer, {layer} to float16")
        await pilot.press("equals_sign", "v")  # another view is the end of the comparison
        await until(pilot, lambda: workspace.view == "Variants", "the variants")
        await pilot.press("V", "space", sees="● ✓")
        await pilot.press("equals_sign", sees="this build is the marked one")
        await pilot.press("space")

        # a note, the earlier build again, and back
        await pilot.press("e", *"best", "enter", until=lambda: builds()[0].note == "best")
        changed = app.session.recipe
        await pilot.press("down", "enter")
        await until(pilot, lambda: "quantized_method" not in app.session.recipe, "its recipe")
        await until(pilot, lambda: app.session.built == app.session.recipe, "its result")
        await pilot.press("u")
        assert app.session.recipe == changed
        await pilot.press(keys_of("builds")[0], "home", "enter")  # its recipe is the present one
        await until(pilot, lambda: app.session.built == app.session.recipe, "its result")
        assert app.session.recipe == changed
        await pilot.sees("is open with its recipe. ")
        assert "goes back" not in screen_text(app).splitlines()[0]


@pytest.mark.long
async def test_a_sample_that_went_after_the_build_opens_no_dialog(
    tmp_path: Path, demo: Path
) -> None:
    recipe = write_recipe(tmp_path, demo, 3)
    last = tmp_path / "last.png"
    last.write_bytes((demo / "calibration" / "000.png").read_bytes())
    with (tmp_path / "dataset.txt").open("a", encoding="utf-8") as stream:
        stream.write("last.png\n")
    async with opened(recipe, Layers) as (app, pilot, _):
        await pilot.press("b", until=lambda: app.session.layers.table is not None)
    last.unlink()
    async with opened(recipe, Layers) as (app, pilot, workspace):
        await pilot.sees("no quality yet: ✗")
        assert "last.png" in app.session.asked["layers"]
        assert len(app.screen_stack) == 1
        assert "last.png" in workspace.unavailable_reason("lift")


@pytest.mark.long
async def test_log_search_marks_and_commands(demo: Path) -> None:
    async with opened(demo / "digits_demo.onnx", Builds) as (app, pilot, workspace):
        app.session.set_value("dataset", str(demo / "dataset.txt"))
        await pilot.press("b")
        await built(pilot, 1)
        await pilot.sees("float graph")
        await pilot.press("d", sees=("✓ Calibrate", "tensors quantized to w8a8"))
        await pilot.press("B")
        await built(pilot, 2)
        await pilot.sees("without the cache")
        await pilot.press("down", "r")
        await built(pilot, 3)
        await pilot.sees("from the cache")
        await pilot.press("tab", "slash", *"w8a8", sees="1 line with “w8a8”")
        await pilot.press("enter", "n", "escape", "escape")
        await pilot.press("slash", *"nothing like it", rests=True)
        assert workspace.history.row_count == 0
        await pilot.press("escape")
        assert workspace.history.row_count == 3
        await pilot.press("Y")
        assert app.clipboard.startswith("rknntui build ")
        assert "--dataset" in app.clipboard
        await pilot.press("space", "V", until=lambda: workspace.history.total >= 3)


@pytest.mark.long
async def test_variants_are_built_and_applied(digits: Path) -> None:
    async with opened(digits, Builds) as (app, pilot, workspace):
        await pilot.press("v", "r", sees="Build variants")
        await pilot.press("enter")
        table = workspace.history
        await until(pilot, lambda: table.total > 1 and app.session.running is None, "variants")
        await pilot.sees("✓ done")
        table.select_record("title", "kl_divergence")
        await pilot.press("enter")
        assert app.session.recipe["quantized_algorithm"] == "kl_divergence"


def test_a_job_is_named_in_words() -> None:
    assert job_title("encryption.encrypt", "encryption.encrypt a.rknn") == "encryption a.rknn"
    assert job_title("vendor.check", "vendor.check") == "vendor check"


def test_rows_say_what_changed() -> None:
    def record(at: int, recipe: dict[str, Any], method: str = "build", **more: Any) -> JobRecord:
        params = {"recipe": {"model": "m", **recipe}}
        return JobRecord(str(at), method, "x", "done", at, at + 1.0, params, more, None, "")

    outputs = [{"name": "a", "sqnr_db": None}, {"name": "b", "sqnr_db": 20.5}]
    scores = [{"name": "top1", "simulated": 0.409}]
    promoted = {"quantized_layers": {"Conv_1": "float16"}, "quantized_algorithm": "mmse"}
    rows = build_rows(
        [
            record(6, promoted, "devices.perf", label="emulated", points=[{"median": 9.0}]),
            record(5, {}, "devices.perf", label="measured", points=[{"median": 5180.0}]),
            record(4, promoted, "evaluate", scores=scores),
            record(3, promoted, outputs=outputs, container_bytes=7),
            record(2, {"quantized_layers": dict.fromkeys("abcd", "int16")}, outputs="damaged"),
            record(1, {}, outputs=[{"sqnr_db": "x"}, 3]),
        ]
    )
    assert [row.changes for row in rows] == [
        "quantized_algorithm normal → mmse, Conv_1 to float16, 4 layers as the model again",
        "4 layers to int16",
        "first build",
    ]
    assert [row.promoted for row in rows] == [1, 4, 0]
    assert (rows[0].lowest, rows[0].size, rows[0].score) == (20.5, 7, "top1 0.409")
    assert rows[1].lowest is None
    assert [row.median_ms for row in rows] == [None, None, 5.18], "an emulated time is not measured"


def test_the_front_joins_what_nothing_dominates() -> None:
    points = [
        (time, Tried(name, {}, db, name, name == "v"))
        for name, time, db in (("a", 1.0, 20.0), ("b", 2.0, 30.0), ("c", 2.5, 25.0), ("v", 4, inf))
    ]
    assert [one.id for _, one in pareto_front(points)] == ["a", "b", "v"]
    assert pareto_front([(1.0, points[0][1]), (1.0, points[1][1])]) == [(1.0, points[1][1])]
    chart = FrontChart()
    chart.show(points, "b", "rk3588", "")
    text = words(chart._draw(78, 12))
    signs = "\n".join(line[9:] for line in text.splitlines()[1:])
    assert [signs.count(sign) for sign in "■◆•□┘"] == [1, 1, 1, 1, 2]
    assert "◆ 30.00 dB, 2.000 ms, front" in text
    assert "ms, estimated on rk3588" in text
    assert all(cell_len(line) <= 78 for line in text.splitlines())
    chart.show(points[:1], "a", "rk3588", "")
    assert "◆" in words(chart._draw(60, 6))


@pytest.mark.long
async def test_the_front_follows_the_cursor_and_the_target(demo: Path, digits: Path) -> None:
    for algorithm in ("normal", "mmse"):
        record, recipe = new_record(), {"model": str(demo / "digits_demo.onnx")}
        recipe |= {"dataset": str(demo / "dataset.txt"), "quantized_algorithm": algorithm}
        record.start("build", "digits", {"recipe": recipe})
        record.end("done", {"outputs": [{"name": "y", "sqnr_db": 20.0 + len(algorithm)}]})
    run = new_record()
    run.start("devices.perf", "digits", {"recipe": recipe})
    run.end("done", {"points": [{"median": 1500.0}]})
    async with opened(digits, Builds) as (app, pilot, workspace):
        await pilot.press("V", sees="estimated for a target")
        assert [row.median_ms for row in workspace.history.records] == [1.5, None]
        assert workspace.history.total == 2, "what runs beside is no job of the list"
        app.session.set_value("target_platform", "rk3588")
        await pilot.sees("estimated on rk3588")
        await pilot.sees("◆ 24.00 dB")
        await pilot.press("j", sees="◆ 26.00 dB")
        await pilot.press("x", sees="Write the chart")


def test_a_million_lines_are_searched_in_seconds(session_home: Path) -> None:
    record = new_record()
    record.start("build", "long", {})
    line = encode({"t": 1.0, "n": 1, "event": event_to_dict(LogLine("layer of the model"))})
    rare = encode({"t": 1.0, "n": 1, "event": event_to_dict(LogLine("One “Needle” here"))})
    block = line * 9_999 + rare
    with (record.folder / "events.jsonl").open("ab") as stream:
        for _ in range(100):
            stream.write(block)
    record.end("done", {})
    begun = time.monotonic()
    lines, total = find_log(record.id, "“needle”")
    assert time.monotonic() - begun < 15
    assert (len(lines), total) == (100, 100)
    lines, total = find_log(record.id, "layer")
    assert (len(lines), total) == (5000, 999_900)
    begun = time.monotonic()
    assert len(read_events(record.id, 20_000)) < 50_000
    assert time.monotonic() - begun < 15


async def test_esc_asks_and_y_stops(demo: Path, tmp_path: Path) -> None:
    many = many_samples(demo, tmp_path, 60)
    async with opened(demo / "digits_demo.onnx", Builds) as (app, pilot, _):
        app.session.set_value("dataset", str(many))
        app.start_job(BUILD, BuildParams(recipe=app.session.recipe), "digits_demo.onnx")
        await until(
            pilot,
            lambda: app.session.running is not None and "calibrate" in app.session.running.stages,
            "it calibrates",
        )
        await pilot.press("escape", rests=True)
        assert "Stop “" in screen_text(app)
        await pilot.press("n")
        assert app.session.running is not None
        app.start_job(BUILD, BuildParams(recipe=app.session.recipe), "again")
        await until(pilot, lambda: len(builds()) == 2, "it waits")
        await pilot.press("v", "v", "ctrl+x", sees="Stop which job?")
        assert screen_text(app).count("waiting") == 2, "in the list behind it, too"
        await pilot.press("down", "enter", "y", until=lambda: builds()[0].state == "cancelled")
        assert app.session.running is not None
        await pilot.press("V", "V", "down", "escape", "y")
        await until(pilot, lambda: app.session.running is None, "it stopped")
        await pilot.sees("cancelled")
        assert [one.state for one in builds()] == ["cancelled"] * 2


async def test_a_failed_job_is_explained(demo: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("missing.png\n")
    async with opened(demo / "digits_demo.onnx", Builds) as (app, pilot, _):
        recipe = {**app.session.recipe, "dataset": str(wrong)}
        app.start_job(BUILD, BuildParams(recipe=recipe), "digits_demo.onnx")
        await until(pilot, lambda: len(app.screen_stack) > 1, "a dialog")
        await settle(pilot)
        await pilot.sees("missing.png", "Fix")
        await pilot.press("escape", sees="failed")


@pytest.mark.long
def test_a_lost_terminal_loses_no_job(demo: Path, tmp_path: Path) -> None:
    many = many_samples(demo, tmp_path, 20)
    recipe = {"model": str(demo / "digits_demo.onnx"), "dataset": str(many)}
    code = (
        "import sys\n"
        "from engine.wire.build import BUILD, BuildParams\n"
        "from rknntui.app import Workbench\n"
        f"recipe = {recipe!r}\n"
        "app = Workbench(recipe=recipe)\n"
        "app.bind('dollar_sign', 'go_on')\n"
        "params = BuildParams(recipe=recipe)\n"
        "type(app).action_go_on = lambda self: self.start_job(BUILD, params, 'demo')\n"
        "app.run()\n"
    )
    with Terminal(code=code) as first:
        first.wait_for("idle")
        first.type("$")
        first.wait_for("build calibrate")
        first.hang_up()
        first.process.wait(PATIENCE)
    assert builds()[0].state == "running"
    with Terminal() as second:
        second.wait_for("build ")
        second.type(keys_of("builds")[0])
        second.wait_for("found again")
        second.wait_for("done", 60)
        second.type("q")
        assert second.ended() == 0
    assert builds()[0].state == "done"


async def test_quitting_with_a_job_asks(demo: Path, tmp_path: Path) -> None:
    many = many_samples(demo, tmp_path, 60)
    async with workbench(demo / "digits_demo.onnx", kept=True) as (app, pilot):
        await until(pilot, lambda: app.session.model is not None, "the model is open")
        recipe = {**app.session.recipe, "dataset": str(many)}
        app.start_job(BUILD, BuildParams(recipe=recipe), "digits_demo.onnx")
        await until(pilot, lambda: app.session.running is not None, "it runs")
        await pilot.press("q", rests=True)
        assert "If it is kept" in screen_text(app)
        await pilot.press("s")
        assert app.is_running
        await pilot.press("q", "c")
    for _ in range(400):
        if builds()[0].state != "running":
            break
        await asyncio.sleep(0.05)
    assert builds()[0].state == "cancelled"


def test_a_view_survives_events_of_unknown_stages() -> None:
    from engine import Finished, Progress

    view = JobView("1", "build", "x", 0.0)
    view.apply(Progress("calibrate", 5, 10))
    assert view.fraction == pytest.approx(0.5)
    view.apply(Finished("done", 1.0))
    assert view.fraction == 1.0
