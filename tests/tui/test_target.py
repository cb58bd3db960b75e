"""The target as one state: what does not fit is told, and asked about before work starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.wire.board import BOARD_MEMORY, BOARD_RUN, BoardFacts, MemoryParams
from engine.wire.build import BUILD, BuildParams
from engine.wire.compile import COMPILE, CompiledModels
from rknntui.app import Workbench
from rknntui.keys.actions import REGISTRY
from rknntui.session.job_view_model import JobView
from rknntui.session.state import Session
from rknntui.session.target import generation_of, mismatches
from rknntui.widgets.header_footer import Tab, _tab_form, step_tabs
from rknntui.workspaces import WORKSPACES
from tests.tui.compile_answers import compiled
from tests.tui.conftest import driven, screen_text, settle, until, with_graph
from tests.tui.flow import model_view


def _session(chip: str = "rk3588") -> Session:
    session = Session(lambda _: None)
    session.model_opened(model_view("/m/net.onnx"), "/m/net.onnx")
    session.set_value("target_platform", chip)
    return session


def test_a_board_of_another_chip_is_a_mismatch_that_stops_work() -> None:
    session = _session()
    session.boards.choose("ssh:pi@bench")
    assert mismatches(session) == (), "a board that never told is no mismatch"
    session.answered(SimpleNamespace(facts=BoardFacts("ssh:pi@bench", "measured", "rv1106")))
    (one,) = mismatches(session)
    assert one.what == "ssh:pi@bench is an rv1106; the recipe is for rk3588."
    assert one.action in REGISTRY
    assert {"build", BOARD_RUN.name} <= set(one.stops)
    session.set_value("target_platform", "rk1808")
    assert "of generation 2, not 1" in mismatches(session)[0].what
    session.set_value("target_platform", "rv1106")
    assert mismatches(session) == ()


def test_a_compiled_file_is_for_its_chip_and_its_build() -> None:
    session = _session()
    built: dict[str, object] = {"model": "/m/net.onnx"}  # the chip was chosen after the build
    job = JobView("c", COMPILE.name, "compile", 0.0, {"recipe": dict(session.recipe)}, "done")
    made = compiled("rk3588", path="/m/net.rknn")
    session.built = built
    session.last[COMPILE.name] = (job, CompiledModels(model="net", chips=(made,)))
    session.choose_compiled("/m/net.rknn")
    kinds = [one.kind for one in mismatches(session)]
    assert "compiled" not in kinds, "a chip of its own makes a compilation no older"
    session.built = {**built, "mean_values": [[1.0]]}
    assert "net.rknn is older than the build" in [one.short for one in mismatches(session)]
    session.set_value("target_platform", "rv1106")
    assert "net.rknn is for rk3588, not rv1106" in [one.short for one in mismatches(session)]


def test_the_chips_of_boards_are_kept_for_the_next_start() -> None:
    session = _session()
    session.boards.chips["local"] = "rk3566"
    other = Session(lambda _: None)
    other.boards.restore(session.to_state())
    assert other.boards.chips == {"local": "rk3566"}


def test_toolkits_and_stale_builds_are_told() -> None:
    session = _session()
    session.answered(SimpleNamespace(environments=()))
    assert [one.kind for one in mismatches(session)] == ["toolkit"]
    session.built = {**session.recipe, "mean_values": [[1.0]]}
    assert (
        mismatches(session)[-1].what == "The build is older than the recipe: mean_values changed."
    )
    assert (generation_of("RK3588S"), generation_of("rk1808"), generation_of("x")) == (2, 1, 0)


def test_signs_stay_in_the_line_of_steps_figures_and_words_give_way() -> None:
    tabs = [
        tab._replace(sign="✓", figure="20.7 dB") if tab.sign else tab
        for tab in step_tabs(_session())
        if not tab.key.startswith("F")
    ]
    signs = sum(bool(tab.sign) for tab in tabs)
    for width in (60, 80, 100, 120, 200):
        form = _tab_form(tabs, width)
        used = sum(len(tab.key) + 2 for tab in tabs) + sum(len("".join(part)) for part in form)
        assert used <= width
        assert sum("✓" in said for _, said, _ in form) == signs
    assert all("20.7 dB" in said for _, said, _ in form if said.strip())
    assert isinstance(tabs[0], Tab)


@pytest.mark.usefixtures("warm")
async def test_the_chip_is_changed_from_anywhere_by_typing_and_undone(model: Path) -> None:
    async with with_graph(model) as (app, pilot):
        app.session.boards.chips["adb:mine"] = "rv1106"
        app.session.boards.choose("adb:mine")
        await pilot.press("t", sees="Target")
        await pilot.press(*"1106", "enter", until=lambda: app.session.chip == "rv1106")
        line = screen_text(app).splitlines()[0]
        assert "residual.onnx ●1   rv1106" in line
        await pilot.press("t", *"mine", "enter")
        await until(pilot, lambda: app.session.boards.chosen == "adb:mine", "the board stays")
        await pilot.press("u")
        await until(pilot, lambda: "no chip · adb:mine" in screen_text(app).splitlines()[0])


async def test_work_that_the_target_does_not_fit_is_asked_about_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Workbench(state_kept=False)
    submitted: list[str] = []

    async def submit(method: object, params: object, title: str) -> None:
        submitted.append(title)

    monkeypatch.setattr(app.bridge, "submit", submit)
    async with driven(app) as pilot:
        await settle(pilot)
        app.session.model_opened(model_view("/m/net.onnx"), "/m/net.onnx")
        app.session.set_value("target_platform", "rk3588")
        app.session.boards.chips["adb:1"] = "rv1106"
        app.session.boards.choose("adb:1")
        params = BuildParams(recipe=dict(app.session.recipe))
        app.start_job(BUILD, params, "build net")
        asked = "the board is an rv1106, the recipe for rk3588 (t mends it, again starts it)"
        await until(pilot, lambda: asked in screen_text(app).splitlines()[0], "the question")
        assert submitted == []
        app.start_job(BUILD, params, "build net")
        await until(pilot, lambda: submitted == ["build net"], "the second start is a yes")
        app.session.boards.choose(None)
        memory = MemoryParams(recipe=params.recipe, device="adb:1")
        assert app.starting.asks(BOARD_MEMORY.name, memory), "of the board that the job is for"
        assert not app.starting.asks(BOARD_MEMORY.name, replace(memory, device="adb:2"))
        assert set(WORKSPACES) >= {tab.name for tab in step_tabs(app.session)}
