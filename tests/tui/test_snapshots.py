"""What the steps look like as text at three sizes, from nothing open to a finished build.

The expected screens lie in ``snapshots/``; ``RKNNTUI_SNAPSHOTS=write`` writes them anew. Clocks
and seconds of a job are the same in every run; other screens with figures of this machine are left
to the tests that read them.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import engine.jobs.history
from engine import JobRecord
from engine.base.events import Event, Finished, StageFinished
from engine.wire.devices import PERF_LOOK, Listing
from rknntui.app import Workbench
from rknntui.bridge import Bridge
from rknntui.colours import theme_files
from rknntui.demo import demo_folder
from rknntui.screens.chips.workspace import Chips
from rknntui.screens.result.workspace import Result
from rknntui.session import background
from rknntui.session.job_view_model import JobView
from rknntui.widgets.thumbnail import Thumbnail
from tests.tui.bench_answers import READY, Answers, Watches, answers, perf_look, watches
from tests.tui.board_answers import BOARD, BoardAnswers, ran
from tests.tui.compile_answers import CompileAnswers
from tests.tui.conftest import Driver, screen_text, until, workbench
from tests.tui.cost_answers import CostAnswers
from tests.tui.flow import model_view, opened

__all__ = ["answers", "watches"]

SIZES = [(80, 24), (120, 40), (200, 60)]
EXPECTED = Path(__file__).parent / "snapshots"
PLACE = Path("/tmp/rknntui-snapshots")
"""A fixed folder: paths are on the screens, and cut to its width."""

at_sizes = pytest.mark.parametrize(
    "size",
    [SIZES[0], *(pytest.param(size, marks=pytest.mark.long) for size in SIZES[1:])],
    ids=lambda size: f"{size[0]}x{size[1]}",
)


@pytest.fixture
def recipe() -> Iterator[Path]:
    with PLACE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second run on this machine waits for the folder
        shutil.rmtree(PLACE, ignore_errors=True)
        shutil.copytree(demo_folder(), PLACE)
        path = PLACE / "digits.yaml"
        path.write_text(
            "version: 1\nsource: {model: digits_demo.onnx}\n"
            "preprocess: {mean_values: [[127.5]], std_values: [[127.5]]}\n"
            "dataset: {dataset: dataset.txt}\n"
        )
        yield path
        shutil.rmtree(PLACE, ignore_errors=True)


@pytest.fixture
def same_times(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Jobs of the history started on one day, and whatever runs takes 0.6 s."""
    seen_of: dict[str, set[float]] = {}  # jobs of the background come between
    record_of, apply = engine.jobs.history.record_of, JobView.apply

    def dated(folder: Path) -> JobRecord | None:
        record = record_of(folder)
        if record is None:
            return None
        starts = seen_of.setdefault(record.method, set())
        starts.add(record.started)
        at = 1_700_000_000 + 60 * sorted(starts).index(record.started)
        return replace(record, started=at, finished=None if record.finished is None else at + 0.6)

    def timed(view: JobView, event: Event) -> None:
        if isinstance(event, Finished | StageFinished):
            event = replace(event, seconds=0.6)
        apply(view, event)

    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        patch.setattr(engine.jobs.history, "record_of", dated)
        patch.setattr(JobView, "apply", timed)
        patch.setattr(Workbench, "notify", lambda *_args, **_more: None)  # they come and go
        yield
    time.tzset()


@pytest.fixture
def one_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """The boards of this machine are left alone."""
    call = Bridge.call

    async def answered(bridge: Bridge, method: Any, params: Any) -> Any:
        if method.name == "devices.list":
            return Listing((READY,))
        return await call(bridge, method, params)

    monkeypatch.setattr(Bridge, "call", answered)


def seen(app: Workbench) -> str:
    """The screen as text; trailing blanks and keys of the cache do not count."""
    text = re.sub(r"\b[0-9a-f]{16}\b", "0" * 16, screen_text(app))
    text = re.sub(r"\b\d+\.\d{3} s\b", "0.000 s", text)  # of stages, in a summary
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


async def holds(pilot: Driver, name: str, *keys: str, **comes: Any) -> None:
    """Press keys as :meth:`Driver.press`, and wait until the screen is the expected one; what never
    settles to it fails with both.
    """
    await pilot.press(*keys, **comes)
    app = pilot.app
    width, height = app.size
    path = EXPECTED / f"{name}-{width}x{height}.txt"
    if os.environ.get("RKNNTUI_SNAPSHOTS") == "write":
        await pilot.pause(1)
        path.write_text(seen(app), encoding="utf-8")
    expected = path.read_text(encoding="utf-8")
    await _is(pilot, expected, "")
    own = app.theme
    for theme in (*(each for each in theme_files() if each != own), own):
        assert app.theming.use(theme)
        await pilot.pause()  # else it is the screen of the theme before
        pictures = app.screen.query(Thumbnail)
        if not any(one.plain and one.region.area for one in pictures):  # made of characters
            await _is(pilot, expected, theme)


async def _is(pilot: Driver, expected: str, theme: str) -> None:
    """The screen becomes the expected one: no theme has other words or signs."""
    app = pilot.app
    for _ in range(100):
        if seen(app) == expected:
            return
        await pilot.pause(0.05)
    assert seen(app) == expected, theme


@at_sizes
@pytest.mark.usefixtures("warm", "same_times", "one_board")
async def test_a_model_before_its_build(recipe: Path, size: tuple[int, int]) -> None:
    async with workbench(recipe, size=size) as (app, pilot):
        await until(pilot, lambda: app.session.model is not None, "the model")
        await until(pilot, lambda: app.session.dataset is not None, "its samples")
        await until(pilot, lambda: app.session.estimates is not None, "its estimates")
        await holds(pilot, "overview-model", "0")
        await holds(pilot, "help", "question_mark")
        await holds(pilot, "palette", "escape", "ctrl+p")
        await holds(pilot, "target", "escape", "t")
        await holds(pilot, "model", "escape", "1", sees="Operators")
        await holds(pilot, "model-walk", "down", "down", "down", "enter", sees="▶")
        await holds(pilot, "recipe", "escape", "2", sees="default: none")
        await holds(pilot, "recipe-data", "v", sees="expected")
        await holds(pilot, "layers-nothing", "3", sees="b builds")
        await holds(pilot, "guide", "D", sees="r runs the first step")
        await holds(pilot, "builds-nothing", "7")


@at_sizes
@pytest.mark.usefixtures("own_workers", "same_times", "one_board")
async def test_a_finished_build(recipe: Path, size: tuple[int, int]) -> None:
    with recipe.open("a", encoding="utf-8") as file:
        file.write("target: {target_platform: rk3588}\n")
    async with workbench(recipe, size=size) as (app, pilot):
        await until(pilot, lambda: app.session.dataset is not None, "its samples")
        await pilot.press("0", "b")
        layers = app.session.layers
        for source in ("choice", "proposed", "estimated"):
            await until(pilot, lambda source=source: layers.of(source), source)
        await holds(pilot, "overview-built", "0")
        await pilot.press("3", "r", until=lambda: layers.of("error"))
        await until(pilot, lambda: app.session.running is None, "they are all there")
        await holds(pilot, "layers-quality")
        await holds(pilot, "layers-detail", "d", sees="integer range")
        await holds(pilot, "layers-cost", "escape", "v")
        await holds(pilot, "layers-search", "f", until=lambda: len(app.screen_stack) == 2)
        await pilot.press("escape", "space", "b")
        await until(pilot, lambda: app.session.built == app.session.recipe, "the next build")
        await until(pilot, lambda: app.session.running is None, "it is kept")
        await holds(pilot, "builds", "7", until=lambda: len(app.workspace.history.records) == 2)
        await holds(pilot, "builds-comparison", "equals_sign", sees="Outputs, dB (simulated)")


@at_sizes
@pytest.mark.usefixtures("same_times")
async def test_nothing_is_open(answers: Answers, size: tuple[int, int]) -> None:
    answers.listing = Listing(())
    async with workbench(size=size) as (_, pilot):
        await holds(pilot, "overview-nothing")
        await holds(pilot, "bench-nothing", "5", sees="No board was found")


@at_sizes
@pytest.mark.usefixtures("same_times")
async def test_a_board_runs_the_model(
    answers: Answers, watches: Watches, size: tuple[int, int]
) -> None:
    async with workbench(size=size) as (app, pilot):
        await pilot.press("5", sees="1 ready")
        app.session.model_opened(model_view("m.onnx", recipe={"model": "m.onnx"}), "r.yaml")
        await pilot.press("r", until=lambda: len(watches.jobs) == 2)
        for job in watches.jobs:
            if job.method == "devices.perf":
                job.apply(PERF_LOOK.event(perf_look(10.0, 191.4, layers=ran().layers)))
                app.session.jobs.changed(job)
        await pilot.sees("191.4")
        await holds(pilot, "bench-run")


@at_sizes
@pytest.mark.usefixtures("warm")
async def test_chips(recipe: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    CostAnswers(monkeypatch)
    async with opened(recipe, Chips, size=size) as (_, pilot, workspace):
        await pilot.sees("15 chips")
        await holds(
            pilot, "chips-chips", "home", "space", "G", until=lambda: not workspace.answers.asking
        )
        await pilot.press("f", *"250", "enter", sees="goal 250 FPS")
        await until(pilot, lambda: not workspace.answers.asking, "what chips need")
        await holds(pilot, "chips-goal")
        await holds(pilot, "chips-detail", "d")
        await pilot.press("d", "W")
        for view, shown in (
            ("Compare", "rk1808 ms"),
            ("Memory", "▼ peak"),
            ("Roofline", "operations a byte"),
            ("Advice", "multiple of 16"),
        ):
            workspace.views.bar.choose(view)
            await pilot.sees(shown)
            await holds(pilot, f"chips-{view.lower()}")
        await holds(pilot, "chips-what-if", "e", sees="What if (estimated)")


@at_sizes
@pytest.mark.usefixtures("warm")
async def test_what_is_made(
    recipe: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PLACE)
    monkeypatch.setattr(Workbench, "notify", lambda *_args, **_more: None)  # they come and go
    # its build would end at any time
    monkeypatch.setattr(background, "built_unseen", lambda _: None)
    CostAnswers(monkeypatch)
    answers = CompileAnswers(monkeypatch)
    async with opened(recipe, Chips, size=size) as (_, pilot, workspace):
        await pilot.sees("15 chips")
        await until(pilot, lambda: workspace.toolkits.rows is not None, "the toolkit")
        await pilot.press("G", "k", "space", "space")
        answers.open.clear()
        await holds(pilot, "chips-compiling", "r", "enter", sees="▶ 30%")
        answers.open.set()
        await pilot.sees("✓ compiled")
        await holds(pilot, "chips-compiled")
        await holds(pilot, "chips-code", "v", "r", sees="golden.bin")
        await holds(pilot, "chips-exports", "v")
        await holds(pilot, "chips-toolkits", "V", "V", "V", sees="3.11.7")


@at_sizes
@pytest.mark.usefixtures("warm")
async def test_result(recipe: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PLACE)
    monkeypatch.setattr(Workbench, "notify", lambda *_args, **_more: None)  # they come and go
    BoardAnswers(monkeypatch)
    async with opened(recipe, Result, size=size) as (app, pilot, workspace):
        await holds(pilot, "result-nothing")
        app.session.boards.choose(BOARD)
        workspace.inputs_pane.files["image"] = str(PLACE / "calibration" / "005.png")
        workspace.results.bar.choose("Board")
        await holds(pilot, "result-board", "r", sees="Outputs (emulated)")
        await holds(pilot, "result-score", "v")
