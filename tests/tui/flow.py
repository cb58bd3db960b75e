"""What the tests of the workspaces share: typing, pictures, a worker that answers as told."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pytest
from PIL import Image

from engine.base.errors import EngineError
from engine.base.events import Event, Finished
from engine.wire.codec import encode
from engine.wire.model import ModelView
from rknntui.app import Workbench
from rknntui.bridge import Bridge
from rknntui.screens.base.views import TableWorkspace
from rknntui.screens.base.workspace import Workspace
from rknntui.screens.dialogs.request import Form
from rknntui.session.job_view_model import JobView
from rknntui.widgets.header_footer import KeyBar
from rknntui.workspaces import keys_of
from tests.tui.conftest import Driver, until, workbench

__all__ = [
    "WorkerAnswers",
    "choose_path",
    "grey_keys",
    "model_view",
    "opened",
    "pictures",
    "read_form",
    "to_view",
    "typed",
    "visited",
]

R = TypeVar("R")
W = TypeVar("W", bound=Workspace)

NAMES = {
    " ": "space",
    "/": "slash",
    ".": "full_stop",
    "-": "minus",
    "_": "underscore",
    ",": "comma",
    "=": "equals_sign",
    "~": "tilde",
}


def typed(text: str) -> list[str]:
    """The keys of a text."""
    return [NAMES.get(character, character) for character in text]


async def choose_path(pilot: Driver, path: Path, key: str = "enter") -> None:
    """Type a path into the picker that is open; ``ctrl+s`` takes a folder.

    A path below the current folder is typed relative to it: keys take time.
    """
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    await until(pilot, lambda: type(pilot.app.screen).__name__ == "PathPicker", "a picker")
    await pilot.press("end", "ctrl+u", *typed(str(path)), key)


def model_view(path: str, **more: Any) -> ModelView:
    """A model without nodes, as the worker tells of one."""
    told: dict[str, Any] = {
        **dict.fromkeys(("nodes", "parameters", "weights_bytes"), 0),
        **dict.fromkeys(("inputs", "outputs", "findings"), ()),
        **dict.fromkeys(("recipe", "summary")),
        "kind": "onnx",
        "name": path,
        "format": "f",
        "sha256": "",
        "operators": {},
    }
    return ModelView(path=path, **(told | more))


def pictures(folder: Path, count: int, size: tuple[int, int] = (8, 8)) -> Path:
    """A folder of grey pictures with strokes, different every time the number is."""
    folder.mkdir(parents=True)
    for index in range(count):
        seen = np.random.default_rng(index).integers(0, 256, size[::-1], dtype=np.uint8)
        seen[:, index % size[0]] = 255
        Image.fromarray(seen).save(folder / f"stroke{index:03}.png")
    return folder


def read_form(now: R, texts: Mapping[str, str]) -> R:
    """A request with what the lines of a form say that leaves nothing out."""
    read: R = Form("", (type(now),)).read([now], texts)[0]
    return read


async def visited(pilot: Driver, workspace: type[W]) -> W:
    """A workspace, shown by its key once the model is open."""
    app = pilot.app
    await until(pilot, lambda: app.session.model is not None, "a model is open")
    await pilot.press(keys_of(workspace.NAME)[0])
    await until(pilot, lambda: isinstance(app.workspace, workspace), workspace.NAME)
    return cast(W, app.workspace)


@asynccontextmanager
async def opened(
    path: Path, workspace: type[W], **more: Any
) -> AsyncIterator[tuple[Workbench, Driver, W]]:
    """A workbench of its own with a file and a workspace."""
    async with workbench(path, **more) as (app, pilot):
        yield app, pilot, await visited(pilot, workspace)


def grey_keys(app: Workbench) -> set[str]:
    """The labels that the footer shows as keys that do nothing now."""
    line = app.screen_stack[0].query_one(KeyBar)._line
    return {text.split(None, 1)[1].strip() for text, style in line if style == "dim"}


async def to_view(pilot: Driver, workspace: TableWorkspace, name: str) -> None:
    """Step to a view."""
    while workspace.view != name:
        await pilot.press("v")
    await pilot.pause()


class WorkerAnswers:
    """Answers what is asked in the place of the worker, which answers the rest.

    Args:
        patch: puts it in place.
        answers: method -> its answer or the result of its job, or what makes it of the parameters;
            an error is raised, or fails the job.

    Attributes:
        asked: (method, parameters), oldest first.
        open: cleared by a test: no job ends yet.
        told: what a job tells before its end.
    """

    def __init__(self, patch: pytest.MonkeyPatch, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.told: list[Event] = []
        numbers, call, submit = itertools.count(1), Bridge.call, Bridge.submit

        async def answered(bridge: Bridge, method: Any, params: Any) -> Any:
            if method.name not in self.answers:
                return await call(bridge, method, params)
            answer = await self._answer(method.name, params)
            if isinstance(answer, EngineError):
                raise answer
            bridge._session.answered(answer)
            return answer

        async def submitted(
            bridge: Bridge, method: Any, params: Any, title: str, **how: bool
        ) -> JobView:
            if method.name not in self.answers:
                return await submit(bridge, method, params, title, **how)
            name = f"made-up-{next(numbers)}"
            view = JobView(name, method.name, title, time.time(), encode(params), **how)
            bridge._session.jobs.started(view)
            bridge._spawn(self._work(bridge, view, await self._answer(method.name, params)))
            return view

        patch.setattr(Bridge, "call", answered)
        patch.setattr(Bridge, "submit", submitted)

    async def _answer(self, method: str, params: Any) -> Any:
        self.asked.append((method, params))
        answer = self.answers[method]
        made = answer(params) if callable(answer) else answer
        return await made if inspect.isawaitable(made) else made

    async def _work(self, bridge: Bridge, view: JobView, result: Any) -> None:
        for event in self.told:
            view.apply(event)
        bridge._session.jobs.changed(view)
        await self.open.wait()
        if isinstance(result, EngineError):
            view.apply(Finished("failed", 0.5, error=result.to_dict()))
            bridge._session.job_ended(view, None)
            if not view.quiet:
                bridge._report(result)
        else:
            view.apply(Finished("done", 0.5))
            bridge._session.job_ended(view, result)
