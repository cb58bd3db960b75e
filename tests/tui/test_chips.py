"""Workspace Chips, by keys alone at 80x24; the estimates are prepared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import GraphError
from engine.wire.cost import ChipEstimate, WhatIf
from rknntui.app import Workbench
from rknntui.screens.chips.estimates import AS_IS
from rknntui.screens.chips.words import chip_lines
from rknntui.screens.chips.workspace import Chips
from rknntui.session.steps import placement
from rknntui.widgets.strips import bar
from rknntui.workspaces import keys_of
from tests.tui.conftest import Driver, screen_text, until, workbench
from tests.tui.cost_answers import CPU_LAYER, LAYERS, CostAnswers
from tests.tui.flow import choose_path, opened, to_view

SIZE = (80, 24)
pytestmark = pytest.mark.usefixtures("warm")


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> CostAnswers:
    return CostAnswers(monkeypatch)


@asynccontextmanager
async def on_chips(recipe: Path, **more: Any) -> AsyncIterator[tuple[Workbench, Driver, Chips]]:
    """Chips, with the estimates of all chips."""
    async with opened(recipe, Chips, **more) as (app, pilot, workspace):
        await pilot.sees("15 chips")
        yield app, pilot, workspace


async def seen(pilot: Driver, workspace: Chips, name: str, shown: str) -> None:
    """Step to a view and wait for its figures."""
    await to_view(pilot, workspace, name)
    await pilot.sees(shown)


async def test_all_fifteen_chips_are_side_by_side(digits: Path, answers: CostAnswers) -> None:
    async with on_chips(digits) as (app, pilot, workspace):
        await pilot.sees("Chips (estimated) · 15")
        text = screen_text(app)
        rows = {line.split()[1 if "▸" in line else 0]: line for line in text.splitlines()[6:21]}
        assert len(rows) == 15
        assert "rk3588" in text.splitlines()[2]  # that of most boards is looked at first
        assert rows["rk3566"].split()[1:5] == ["266.7", "240.0", "to", "293.3"]
        assert "calibrated" in rows["rk3566"]
        assert "structural" in rows["rk3588"]
        asked = next(params for name, params in answers.asked if name == "cost.estimate")
        assert asked.recipe == app.session.recipe
        assert not asked.layers
        table = workspace.views.chips.table
        table.sort_field("fps", descending=True)
        assert workspace.names[0] == "rk1808"
        assert workspace.names[-1] == "rk2118"  # it has no figure
        await pilot.press("G", sees=("has no int8", "Fix: Estimate it as float16"))


async def test_enter_leads_to_the_layers_of_the_target_and_those_of_others_beside_them(
    digits: Path,
) -> None:
    async with on_chips(digits) as (app, pilot, workspace):
        app.session.set_value("target_platform", "rk3566")
        await pilot.sees("rk3566 ·")
        assert any(line.split()[:2] == ["▸", "◆"] for line in screen_text(app).splitlines())
        await pilot.press("down", "enter", sees=("rk3566 ms", "rk3568 ms"))
        await pilot.press("right_square_bracket", sees="rk3576 ms")
        await pilot.press("left_square_bracket", "left_square_bracket", "escape")
        await until(pilot, lambda: workspace.view == "Chips", "back")
        assert workspace.chip == "rk3566"
        await pilot.press("enter")
        await until(pilot, lambda: app.current not in ("chips", "model"), "the layers")


@pytest.mark.long
async def test_the_detail_has_limits_facts_and_sources_and_takes_the_place_of_a_low_table(
    digits: Path, answers: CostAnswers
) -> None:
    async with on_chips(digits) as (app, pilot, workspace):
        await until(pilot, lambda: workspace.answers.estimate("rk3588") is not None, "layers")
        assert "the vendor's benchmark clock script" not in screen_text(app)
        await pilot.press("d", sees=("the vendor's benchmark clock script", "NPU clock: 1000 MHz"))
        await pilot.sees("limited by (estimated): compute")
        await pilot.press("y")
        assert "NPU clock" in app.clipboard
        await pilot.press("escape", sees="rk1808")
        await pilot.resize_terminal(120, 40)
        await pilot.sees("the vendor's benchmark clock script")


async def test_which_chips_do_25_frames_a_second_and_what_the_others_need(
    digits: Path, answers: CostAnswers
) -> None:
    """At most 4 keys: the workspace, the goal, Enter, the next chip that may miss it."""
    async with on_chips(digits) as (app, pilot, workspace):
        await pilot.press("f", sees="Frames a second to reach")
        await pilot.press("enter", sees="14 of 15 chips reach 25 FPS")
        assert workspace.disabled_reason("step_miss") == "no chip misses the goal."
        await pilot.press("f", *"250", "enter", sees="goal 250 FPS")
        await pilot.press("n", sees="FPS: Make the channels of")
        signs = {row["chip"]: row["reaches"] for row in workspace.views.chips.table.records}
        assert (signs["rk1808"], signs["rk3566"], signs["rk3588"]) == ("yes", "maybe", "no")
        assert workspace.chip in workspace.missing
        await pilot.sees("then FPS")
        text = screen_text(app)
        assert "not even at the high end" in text or "leaves it open" in text
        await pilot.press("Y")
        assert app.clipboard.endswith("--fps 250")
        workspace.scenario = WhatIf(dtype="float16")
        workspace.answers.update()
        both = ("what if", "then FPS")
        await until(pilot, lambda: all(text in screen_text(app) for text in both), "both")
        assert "FPS Δ" not in screen_text(app)  # the figures that a chip needs are whole
        await pilot.press("W", until=lambda: "goal" not in screen_text(app).splitlines()[4])
        await pilot.press("slash", *"zzz", "enter", sees="Nothing here has")


@pytest.mark.long
async def test_two_chips_are_compared_layer_by_layer(digits: Path) -> None:
    async with on_chips(digits) as (app, pilot, workspace):
        await pilot.press("equals_sign", sees=("Space in Chips marks other", "rk3588 (] the next)"))
        await pilot.press("escape", "home", "space", "space")
        assert list(workspace.targets.marked) == ["rk1808", "rk3399pro"]
        await pilot.press("G")
        await seen(pilot, workspace, "Compare", "rk3399pro ms")
        await pilot.sees("rk3588 ms", "rk1808 ms")
        text = screen_text(app)
        stem = next(line for line in text.splitlines() if "stem.0" in line)
        assert "1.8" in stem
        assert "0.4" in stem
        assert "4.5x" in stem
        gemm = next(line for line in text.splitlines() if CPU_LAYER in line)
        assert gemm.count("!") == 2  # of rk3399pro it is on the NPU


@pytest.mark.long
async def test_memory_over_time_marks_its_peak(digits: Path) -> None:
    async with on_chips(digits) as (app, pilot, workspace):
        await seen(pilot, workspace, "Memory", "▼ peak 35.00 KiB")
        await pilot.sees("Tensors alive at layer 3")
        text = screen_text(app)
        alive = [str(record["tensor"]) for record in workspace.views.spans.table.records]
        assert alive == ["pointwise", "stem", "depthwise"]
        assert "internal 35.00 KiB" in text
        await pilot.press("right", "right", "right", sees="alive at layer 5")
        alive = [str(record["tensor"]) for record in workspace.views.spans.table.records]
        assert alive == ["pooled"]
        await pilot.press("p", sees="alive at layer 3")


@pytest.mark.long
async def test_the_roofline_marks_the_layer_under_the_cursor(digits: Path) -> None:
    async with on_chips(digits) as (app, pilot, workspace):
        await seen(pilot, workspace, "Roofline", "operations a byte")
        await pilot.sees("roof: 1024 GOPS, 8 GB/s (estimated)")
        text = screen_text(app)
        assert text.count("◆") == 1
        assert "GlobalAveragePool" not in text  # it multiplies nothing
        before = next(line for line in text.splitlines() if "◆" in line)
        await pilot.press("j", until=lambda: before not in screen_text(app))
        assert workspace.views.layer_id == LAYERS[1]


@pytest.mark.long
async def test_advice_has_the_layers_that_are_not_on_the_npu_first(digits: Path) -> None:
    async with on_chips(digits) as (app, pilot, workspace):
        await seen(pilot, workspace, "Advice", "multiple of 16")
        await pilot.sees("! on the CPU: Conv:/head/Gemm", "Softmax over 80 elements")
        await pilot.sees("Fix: Take it out of the model")
        assert workspace.views.layer_id == CPU_LAYER
        await pilot.press("j", sees=("Source: RKNN-T2 2.3.2, 5.1", "0.2500   25.00"))
        assert workspace.views.layer_id == LAYERS[0]
        await pilot.press("j", sees="SiLU is a table")
        assert not workspace.views.layer_id
        await pilot.press("left_square_bracket", sees="Advice for rk3576")
        assert "on the CPU" not in screen_text(app)


async def test_overview_finds_the_layers_that_chips_warns_of(digits: Path) -> None:
    async with workbench(digits, size=(120, 40)) as (app, pilot):
        await until(pilot, lambda: app.session.estimates is not None, "estimates")
        app.session.set_value("target_platform", "rk3588")
        await pilot.sees("on the CPU: Softmax over 80")
        assert [one.where for one in placement(app.session)] == [CPU_LAYER]


@pytest.mark.long
async def test_what_if_shows_the_change(digits: Path, answers: CostAnswers) -> None:
    async with on_chips(digits) as (app, pilot, workspace):
        await pilot.press("e", *"float16", "down", *"big", "enter", sees="✗ 'big' is no size")
        await pilot.press("ctrl+u", *["down"] * 3, "ctrl+u")
        await pilot.press(*"2", "enter", sees=("what if float16, 2 cores", "FPS Δ"))
        asked = answers.asked[-1][1]
        assert (asked.dtype, asked.cores, asked.batch) == ("float16", 2, None)
        assert "277.8 FPS (+25.0 %)" in screen_text(app)
        await pilot.press("W", until=lambda: "what if" not in screen_text(app))
        assert workspace.scenario == AS_IS
        count = len(answers.asked)
        await pilot.press("equals_sign", until=lambda: workspace.views.view == "Compare")
        assert len(answers.asked) == count


@pytest.mark.long
async def test_a_report_is_written_and_commands_say_the_same(digits: Path, tmp_path: Path) -> None:
    async with on_chips(digits) as (app, pilot, workspace):
        await pilot.press("x")
        await choose_path(pilot, tmp_path / "report.txt")
        assert not (tmp_path / "report.txt").exists()  # it says what a report ends in
        await pilot.press("x")
        await choose_path(pilot, tmp_path / "report.csv")
        await until(pilot, (tmp_path / "report.csv").exists, "the report")
        rows = (tmp_path / "report.csv").read_text(encoding="utf-8").splitlines()
        assert len(rows) == 16
        assert rows[0].startswith("chip,")
        commands = []
        for view in ("Chips", "Compare", "Memory", "Roofline", "Advice"):
            workspace.views.bar.choose(view)
            await pilot.press("Y")
            commands.append(app.clipboard.split(" ", 2))
        assert [words[1] for words in commands] == ["chips", "perf", "memory", "perf", "perf"]
        assert "--chip" not in commands[0][2]
        assert all(" --chip rk3588" in words[2] for words in commands[1:])
        app.session.set_value("optimization_level", 1)
        workspace.scenario = WhatIf((), "float16", ("image=1,1,16,16",), 2, 500.0, 3)
        workspace.views.bar.choose("Compare")
        words = workspace.command_line()
        assert words[1:3] == ["perf", "estimate"]
        assert "--optimization-level" in words
        assert words[-12:] == [
            *("--chip", "rk3588", "--dtype", "float16", "--input-size", "image=1,1,16,16"),
            *("--rknn-batch-size", "2", "--npu-mhz", "500", "--cores", "3"),
        ]


async def test_nothing_waits_for_an_estimate_and_its_error_is_told(
    digits: Path, answers: CostAnswers
) -> None:
    answers.open.clear()
    async with opened(digits, Chips) as (app, pilot, _):
        await pilot.sees("estimating …")
        await pilot.press("1", until=lambda: app.current == "model")
        answers.refused = GraphError("The input has no fixed size.", remedy="Set input_size_list.")
        answers.open.set()
        await pilot.press(keys_of("chips")[0])
        told = "✗ The input has no fixed size. Set input_size_list."
        await pilot.sees(told)
        answers.refused = None
        app.workspace.action_estimate()
        await pilot.sees("15 chips")
        app.session.set_value("target_platform", "rk3562")
        await pilot.sees("rk3562 ·")
        await until(pilot, lambda: "target_platform" in answers.asked[-1][1].recipe, "of it")
        assert answers.asked[-1][1].recipe["target_platform"] == "rk3562"
        await pilot.press("Y")
        assert app.clipboard.startswith("rknntui chips ")


@pytest.mark.long
async def test_a_measured_run_calibrates_the_estimates(digits: Path, answers: CostAnswers) -> None:
    async with on_chips(digits, notices=True) as (_, pilot, workspace):
        await until(pilot, lambda: not workspace.answers.asking, "all answers")
        count = len(answers.asked)
        await pilot.press("K", until=lambda: len(answers.asked) >= count + 2)
        assert [name for name, _ in answers.asked[count : count + 2]] == [
            *("cost.calibrate", "cost.estimate")
        ]


@pytest.mark.long
async def test_a_what_if_is_the_way_out_of_a_model_without_sizes(
    digits: Path, answers: CostAnswers
) -> None:
    answers.refused = GraphError("The input has no fixed size.", remedy="Set input_size_list.")
    async with opened(digits, Chips) as (app, pilot, _):
        await pilot.sees("✗ The input has no fixed")
        answers.refused = None
        await pilot.press("e", "down", *"16x16", "enter", sees="what if 16x16")
        assert "✗" not in screen_text(app)
        assert "rk3588" in screen_text(app)


async def test_a_known_crash_of_the_compiler_is_told_first() -> None:
    told = ("rknn-toolkit2 2.3.2 crashes at optimization_level 3 with 2 attention layers.",)
    chip = ChipEstimate("rk3588", 2, "int8", 1, 1, 1000.0, "fitted", warnings=told)
    lines = chip_lines(chip, 80)
    words = " ".join(text for ((text, style),) in lines if style == "warn")
    assert words == f"! {told[0]}"
    assert lines[0][0][1] == "warn"


async def test_figures_as_texts() -> None:
    assert [bar(share, 4) for share in (0.0, 1e-9, 0.5, 2.0)] == ["    ", "▏   ", "██  ", "████"]
