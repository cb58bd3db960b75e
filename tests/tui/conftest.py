"""Driving the workbench by keys, over the real worker."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
import pytest_asyncio
from onnx import helper
from textual.app import App
from textual.pilot import Pilot

from engine import Worker, WorkerError
from rknntui.app import Workbench
from rknntui.bridge import Bridge
from tests.graph.models import finish, tensor
from tests.tui.calm import calm, wait_by_what_is_left

__all__ = [
    "Driver",
    "driven",
    "screen_text",
    "settle",
    "until",
    "unwrapped",
    "with_graph",
    "workbench",
    "write_recipe",
]

PATIENCE = 60.0
"""Seconds that a test waits for the worker on a busy machine."""


def screen_text(app: App[Any]) -> str:
    """What is on the screen, as text."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def unwrapped(app: App[Any]) -> str:
    """The same without frames and line breaks."""
    return " ".join(re.sub("[│┃▌]", " ", screen_text(app)).split())


async def until(pilot: Pilot[None], true: Callable[[], object], what: object = "") -> None:
    """Wait for something to become true."""
    for _ in range(int(PATIENCE / 0.02)):
        if true():
            await pilot.pause()
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"never: {what or true}\n{screen_text(pilot.app)}")


async def settle(pilot: Pilot[None]) -> None:
    """Let messages and the resting time of the cursor pass."""
    await calm(pilot.app, 0.2, rests=True)
    await pilot.pause()


_until = until


class Driver(Pilot[None]):
    """A pilot that waits for what is seen."""

    @property
    def app(self) -> Workbench:
        """The workbench; of :func:`driven` with another application that one."""
        return cast(Workbench, self._app)

    async def press(
        self,
        *keys: str,
        sees: str | tuple[str, ...] = (),
        until: Callable[[], object] | None = None,
        rests: bool = False,
    ) -> None:
        """Press keys, and wait for what comes of them.

        Args:
            *keys: names of Textual.
            sees: texts that are on the screen then.
            until: becomes true then.
            rests: let the resting time of the cursor pass.
        """
        await super().press(*keys)
        if sees:
            await self.sees(*(sees if isinstance(sees, tuple) else (sees,)))
        if until:
            await _until(self, until, keys)
        if rests:
            await settle(self)

    async def sees(self, *texts: str) -> None:
        """Wait until all texts are on the screen at once, as they are or wrapped."""
        missing = list(texts)

        def all_there() -> bool:
            screen = f"{screen_text(self.app)}\n{unwrapped(self.app)}"
            missing[:] = [text for text in texts if text not in screen]
            return not missing

        await until(self, all_there, missing)


@asynccontextmanager
async def driven(
    app: App[None], size: tuple[int, int] = (80, 24), *, notices: bool = False
) -> AsyncIterator[Driver]:
    """An application that runs at a size, with the boxes of long notices where asked for."""
    async with app.run_test(size=size, notifications=notices):
        yield Driver(app)


@asynccontextmanager
async def workbench(
    path: Path | None = None,
    *,
    size: tuple[int, int] = (80, 24),
    kept: bool = False,
    notices: bool = False,
    **more: Any,
) -> AsyncIterator[tuple[Workbench, Driver]]:
    """A workbench that runs, on a file or with ``more`` of its arguments; else it is at rest.

    With ``kept`` it restores the state of the run before, and keeps its own.
    """
    app = Workbench(None if path is None else str(path), state_kept=kept, **more)
    async with driven(app, size, notices=notices) as pilot:
        if path is None and not more:
            await settle(pilot)
        yield app, pilot


@asynccontextmanager
async def with_graph(model: Path, **more: Any) -> AsyncIterator[tuple[Workbench, Driver]]:
    """As :func:`workbench`, with the graph of the model on the screen."""
    async with workbench(model, **more) as (app, pilot):
        await until(pilot, lambda: app.session.model is not None, "a model is open")
        await app.show("model")
        await until(pilot, lambda: app.workspace.graph.nodes, "its nodes are shown")
        yield app, pilot


def residual_model(
    blocks: int, path: Path, group: str = "/stage{}/block{}", weight_scale: float = 1.0
) -> Path:
    """A chain of Conv-Relu-Add blocks in named groups: three nodes a block."""
    weight = weight_scale * np.linspace(-1, 1, 4 * 4 * 3 * 3).reshape(4, 4, 3, 3)
    nodes, last = [], "input"
    for block in range(blocks):
        name = group.format(block // 10, block % 10)
        conv, relu, added = (f"{name}/{part}_out" for part in ("conv", "relu", "add"))
        nodes += [
            helper.make_node("Conv", [last, "weight"], [conv], f"{name}/Conv", pads=[1] * 4),
            helper.make_node("Relu", [conv], [relu], f"{name}/Relu"),
            helper.make_node("Add", [relu, last], [added], f"{name}/Add"),
        ]
        last = added
    ends = ([tensor(end, 1, 4, 8, 8)] for end in ("input", last))
    model = finish(nodes, *ends, {"weight": weight.astype(np.float32)}, opset=21, name="residual")
    onnx.save(model, path)
    return path


def write_recipe(folder: Path, demo: Path, count: int = 12) -> Path:
    """A recipe for the demo model with pictures of its own."""
    lines = sorted(str(p) for p in (demo / "calibration").glob("*.png"))[:count]
    (folder / "dataset.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    recipe = folder / "demo.yaml"
    recipe.write_text(
        "version: 1\n"
        f"source: {{model: {demo / 'digits_demo.onnx'}}}\n"
        "preprocess: {mean_values: [[127.5]], std_values: [[127.5]]}\n"
        "dataset: {dataset: dataset.txt}\n",
        encoding="utf-8",
    )
    return recipe


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of this folder share a loop, which is that of the warm worker."""
    for item in items:
        if item.path.parent == Path(__file__).parent and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture(scope="session", autouse=True)
def quick_pilot() -> Iterator[None]:
    """Keys take as long as what they do."""
    with wait_by_what_is_left():
        yield


@pytest.fixture(autouse=True)
def true_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal with all colours, wherever the tests run; one without is asked for by a test."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def warm_worker(session_home: Path) -> AsyncIterator[Worker]:
    """One real worker for all tests of the loop, since importing its libraries takes seconds."""
    worker = await Worker.start()
    await worker.call("ping", {})
    yield worker
    await worker.close()


def all_ask(worker: Worker, patch: pytest.MonkeyPatch) -> None:
    """Let workbenches ask this worker, and leave it running."""

    async def get_worker(bridge: Bridge, place: str = "main") -> Worker:
        return worker

    async def close(bridge: Bridge) -> None:
        for task in tuple(bridge._tasks):
            task.cancel()

    patch.setattr(Bridge, "_get_worker", get_worker)
    patch.setattr(Bridge, "close", close)


@pytest.fixture
def warm(warm_worker: Worker, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """The warm worker, which workbenches of this test ask."""
    all_ask(warm_worker, monkeypatch)
    return warm_worker


@pytest.fixture
def own_workers() -> None:
    """Workbenches of this test start workers of their own."""


@pytest.fixture(autouse=True)
def no_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker is started before something is asked, and none looks for boards.

    But for tests that ask for :func:`warm`, :func:`own_workers` or a worker of another name.
    """
    if {"warm", "own_workers", "worker"} & set(request.fixturenames):
        return
    get_main = Bridge._get_worker

    async def get_worker(bridge: Bridge, place: str = "main") -> Worker:
        if place == "main":
            return await get_main(bridge)
        raise WorkerError("Nobody looks for boards in this test.", remedy="Look at none.")

    monkeypatch.setattr(Bridge, "start", lambda bridge: None)
    monkeypatch.setattr(Bridge, "_get_worker", get_worker)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Forty blocks in four stages: 120 nodes, so that groups start closed."""
    return residual_model(40, tmp_path / "residual.onnx")


@pytest.fixture
def digits(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recipe for the demo model with twelve pictures, in the folder that the test is in."""
    monkeypatch.chdir(tmp_path)
    return write_recipe(tmp_path, demo)
