"""The rows, states and forms of Chips; its views with figures of the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.events import Progress, StageFinished, StageStarted
from engine.wire.build_tables import AGREEMENT
from engine.wire.compile import OutputAgreement
from engine.wire.encryption import EncryptParams, KeyParams
from engine.wire.segments import SegmentsParams
from engine.wire.vendor import CPU_INDEX, ToolkitInstallParams
from rknntui.keys.commandline import job_command
from rknntui.screens.chips.compiling import chip_states
from rknntui.screens.chips.exports import checked_cuts, checked_key
from rknntui.screens.chips.toolkits import checked_source
from rknntui.session.job_view_model import JobView
from tests.tui.conftest import until
from tests.tui.flow import read_form
from tests.tui.test_chips import on_chips, seen


def test_a_chip_s_state_is_that_of_its_own_stages() -> None:
    job = JobView("1", "compile", "t", 0.0)
    for event in (
        StageStarted("compiled-rk3566", "Compile for rk3566", 0, 3),
        StageFinished("compiled-rk3566", 1.0, False),
        StageStarted("compiled-rk3588", "Compile for rk3588", 1, 3),
    ):
        job.apply(event)
    chips = ("rk3566", "rk3588", "rv1106")
    assert list(chip_states(job, chips).values()) == ["✓ compiled", "▶ compiles", "waiting"]
    job.apply(Progress("compiled-rk3588", 1, 4))
    assert chip_states(job, chips)["rk3588"] == "▶ 25%"
    assert chip_states(job, ("rv1106b", "rk356"))["rk356"] == "waiting"  # not by a part of a name


def test_jobs_have_their_command_line() -> None:
    recipe = {"model": "net.onnx"}
    asked = {"recipe": recipe, "chips": ["rk3566", "rk3588"], "path": "out", "samples": 4}
    words = "rknntui compile net.onnx --chip rk3566 --chip rk3588 --output out --samples 4"
    assert job_command("compile", asked) == words.split()
    asked |= {"samples": 0, "accept_difference": True}
    words = words.replace("--samples 4", "--samples 0 --accept-difference")
    assert job_command("compile", asked) == words.split()
    asked |= {"samples": "/mine", "accept_difference": False}
    assert job_command("compile", asked)[-2:] == ["--samples", "/mine"]
    asked = {"recipe": recipe, "language": "cpp", "task": "none", "path": "p", "inputs": ["a.png"]}
    words = "rknntui codegen net.onnx --output p --input a.png"
    assert job_command("codegen", asked) == words.split()


@pytest.mark.parametrize(
    ("texts", "after", "max_ms"),
    [
        ({"after": "12, 30"}, ("12", "30"), None),
        ({"after": "/conv1 /conv2"}, ("/conv1", "/conv2"), None),
        ({"max_ms": "5 ms"}, (), 5.0),
        ({"max_ms": "0.5ms"}, (), 0.5),
    ],
)
def test_where_a_model_is_cut_is_read_from_a_form(
    texts: dict[str, str], after: tuple[str, ...], max_ms: float | None
) -> None:
    asked = checked_cuts(read_form(SegmentsParams(path="a.rknn"), texts))
    assert (asked.after, asked.max_ms) == (after, max_ms)


@pytest.mark.parametrize(
    "texts", [{"after": ""}, {"max_ms": "0ms"}, {"max_ms": "-1 ms"}, {"max_ms": "many ms"}]
)
def test_where_nothing_is_cut_is_refused(texts: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="ms"):
        checked_cuts(read_form(SegmentsParams(path="a.rknn"), texts))


def test_an_output_says_for_which_shapes_it_is() -> None:
    rows = (
        OutputAgreement(name="y", samples=1, cosine=1.0, equal=1.0, shapes="1x3x192x192"),
        OutputAgreement(name="z", samples=1, cosine=1.0, equal=1.0),
    )
    assert AGREEMENT.column("equal").show(rows[0]) == "-", "few values of a float are equal"
    assert [AGREEMENT.column("name").show(row) for row in rows] == ["y at 1x3x192x192", "z"]


def test_wheels_take_nothing_from_a_network_and_a_key_is_given_once() -> None:
    here = ToolkitInstallParams(wheels="/wheels", index=CPU_INDEX)
    assert checked_source(here).index is None
    assert checked_source(replace(here, wheels=None)).index == CPU_INDEX
    model, typed = EncryptParams(path="a.rknn"), KeyParams("k")
    assert checked_key(model, typed) == (model, typed)
    with pytest.raises(ValueError, match="two keys"):
        checked_key(model, replace(typed, file="/key"))


@pytest.mark.usefixtures("warm")
async def test_the_engine_s_own_answers_fill_every_view(digits: Path) -> None:
    async with on_chips(digits) as (app, pilot, workspace):
        app.session.set_value("target_platform", "rk3588")
        await until(pilot, lambda: workspace.chip == "rk3588", "the target is looked at")
        rows = workspace.views.chips.table
        await until(pilot, lambda: sum(bool(row.get("fps")) for row in rows.records) >= 14, "FPS")
        assert rows.total == 15
        await seen(pilot, workspace, "Memory", "▼ peak")
        assert workspace.views.spans.table.total
        await seen(pilot, workspace, "Roofline", "operations a byte")
        await pilot.sees("roof: 2048 GOPS, 33.8 GB/s")
        await seen(pilot, workspace, "Advice", "Advice for rk3588")
        await pilot.press("escape", "f", *"20000", "enter", sees="0 of 15 chips reach 20000")
        await until(pilot, lambda: workspace.answers.ways("rk1808") is not None, "what it needs")
