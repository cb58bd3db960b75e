"""Driving the workbench by keys, over the real worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import pytest_asyncio
from onnx import TensorProto, helper, numpy_helper
from textual.pilot import Pilot

from engine import Worker, WorkerError
from rknntui.app import Workbench
from rknntui.bridge import Bridge
from tests.tui.calm import calm, wait_by_what_is_left

__all__ = ["screen_text", "settle", "until"]

PATIENCE = 60.0
"""Seconds that a test waits for the worker on a busy machine."""


def screen_text(app: Workbench) -> str:
    """What is on the screen, as text."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def until(pilot: Pilot[None], true: Callable[[], object], what: str = "") -> None:
    """Wait for something to become true."""
    for _ in range(int(PATIENCE / 0.02)):
        if true():
            await pilot.pause()
            return
        await asyncio.sleep(0.02)
    app = pilot.app
    assert isinstance(app, Workbench)
    pytest.fail(f"never: {what or true}\n{screen_text(app)}")


async def settle(pilot: Pilot[None]) -> None:
    """Let messages and the resting time of the cursor pass."""
    await calm(pilot.app, 0.2, rests=True)
    await pilot.pause()


def residual_model(
    blocks: int, path: Path, group: str = "/stage{}/block{}", weight_scale: float = 1.0
) -> Path:
    """A chain of Conv-Relu-Add blocks in named groups: three nodes a block."""
    nodes, weights = [], []
    weight = np.linspace(-1, 1, 4 * 4 * 3 * 3, dtype=np.float32).reshape(4, 4, 3, 3)
    weight *= weight_scale
    weights.append(numpy_helper.from_array(weight, "weight"))
    last = "input"
    for block in range(blocks):
        name = group.format(block // 10, block % 10)
        nodes += [
            helper.make_node(
                "Conv",
                [last, "weight"],
                [f"{name}/conv_out"],
                f"{name}/Conv",
                pads=[1, 1, 1, 1],
            ),
            helper.make_node("Relu", [f"{name}/conv_out"], [f"{name}/relu_out"], f"{name}/Relu"),
            helper.make_node("Add", [f"{name}/relu_out", last], [f"{name}/add_out"], f"{name}/Add"),
        ]
        last = f"{name}/add_out"
    graph = helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, 4, 8, 8])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    return path


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


@pytest.fixture
def warm(warm_worker: Worker, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """Workbenches of this test ask the warm worker and leave it running."""

    async def get_worker(bridge: Bridge, place: str = "main") -> Worker:
        return warm_worker

    async def close(bridge: Bridge) -> None:
        for task in tuple(bridge._tasks):
            task.cancel()

    monkeypatch.setattr(Bridge, "_get_worker", get_worker)
    monkeypatch.setattr(Bridge, "close", close)
    return warm_worker


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of the shell alone: no worker is started."""
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
def opened(model: Path) -> Callable[[Pilot[None]], Awaitable[Workbench]]:
    """Waits until the model of the argument is on the screen."""

    async def wait(pilot: Pilot[None]) -> Workbench:
        app = pilot.app
        assert isinstance(app, Workbench)
        await until(pilot, lambda: app.session.model is not None, "a model is open")
        await app.show("model")
        await until(pilot, lambda: len(app.workspace.graph.nodes) > 0, "its nodes are shown")
        return app

    return wait
