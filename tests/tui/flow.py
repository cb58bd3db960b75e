"""What the tests of the workspaces share: typing, a folder of pictures, the demo's recipe."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from PIL import Image
from textual.pilot import Pilot

from engine.wire.model import ModelView
from rknntui.app import Workbench
from rknntui.screens.base.views import TableWorkspace
from rknntui.screens.base.workspace import Workspace
from rknntui.screens.dialogs.request import Form
from rknntui.widgets.header_footer import KeyBar
from rknntui.workspaces import keys_of
from tests.tui.conftest import until

__all__ = [
    "app",
    "choose_path",
    "grey_keys",
    "model_view",
    "opened",
    "pictures",
    "press_text",
    "read_form",
    "shown",
    "to_view",
    "visited",
    "write_recipe",
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


async def press_text(pilot: Pilot[None], text: str) -> None:
    """Type a text, key by key."""
    await pilot.press(*(NAMES.get(character, character) for character in text))


async def choose_path(pilot: Pilot[None], path: Path, key: str = "enter") -> None:
    """Type a path into the picker that is open; ``ctrl+s`` takes a folder.

    A path below the current folder is typed relative to it: keys take time.
    """
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    await until(pilot, lambda: type(pilot.app.screen).__name__ == "PathPicker", "a picker")
    await pilot.press("end", "ctrl+u")
    await press_text(pilot, str(path))
    await pilot.press(key)


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


def read_form(now: R, texts: Mapping[str, str]) -> R:
    """A request with what the lines of a form say that leaves nothing out."""
    read: R = Form("", (type(now),)).read([now], texts)[0]
    return read


def shown(pilot: Pilot[None]) -> Workbench:
    """The workbench that the pilot drives."""
    app = pilot.app
    assert isinstance(app, Workbench)
    return app


async def visited(pilot: Pilot[None], workspace: type[W]) -> W:
    """A workspace, shown by its key once the model is open."""
    app = shown(pilot)
    await until(pilot, lambda: app.session.model is not None, "a model is open")
    await pilot.press(keys_of(workspace.NAME)[0])
    await until(pilot, lambda: isinstance(app.workspace, workspace), workspace.NAME)
    assert isinstance(app.workspace, workspace)
    return app.workspace


@asynccontextmanager
async def opened(
    path: Path, workspace: type[W], size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Workbench, Pilot[None], W]]:
    """A workbench of its own with a file and a workspace."""
    app = Workbench(str(path), state_kept=False)
    async with app.run_test(size=size) as pilot:
        yield app, pilot, await visited(pilot, workspace)


def grey_keys(app: Workbench) -> set[str]:
    """The labels that the footer shows as keys that do nothing now."""
    line = app.screen_stack[0].query_one(KeyBar)._line
    return {text.split(None, 1)[1].strip() for text, style in line if style == "dim"}


@pytest.fixture
def app(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    """A workbench on :func:`write_recipe`, whose folder it is in."""
    monkeypatch.chdir(tmp_path)
    return Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)


async def to_view(pilot: Pilot[None], workspace: TableWorkspace, name: str) -> None:
    """Step to a view."""
    while workspace.view != name:
        await pilot.press("v")
    await pilot.pause()
