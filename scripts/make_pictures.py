"""Make the pictures of every step in ``docs/pictures``: the demo, at 120x40; the tasks, at 80x24.

Runs the workbench headless over a real worker with a home of its own, drives it by keys and saves
what is on the screen as SVG. Usage: ``python scripts/make_pictures.py [FOLDER]``. Tasks need the
zoo (RKNNTUI_ZOO), adb, and a toolkit (RKNNTUI_VENDOR); the models are not kept.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.tasks import TASKS, Task, digits, play

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from rknntui.app import Workbench

REPOSITORY = Path(__file__).resolve().parents[1]
SIZE = (120, 40)
PATIENCE = 60.0
CELL = 12.2
"""Width of a character in the SVG that Rich writes."""


def main() -> None:
    """Make all pictures, or tell which screen never came."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY / "docs" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TERM"], os.environ["COLORTERM"] = "xterm-256color", "truecolor"
    os.environ.pop("NO_COLOR", None)
    with _adb_server():
        with _place() as place:
            asyncio.run(_pictures(folder, place))
        zoo = os.environ.get("RKNNTUI_ZOO")
        for name in TASKS if zoo is not None else ():
            with _place() as place:
                asyncio.run(_task(folder, name, TASKS[name], place, Path(str(zoo))))


@contextmanager
def _place() -> Iterator[Path]:
    """The folder of the pictures, whose path is short and always the same; a home of its own."""
    place = Path("/tmp/digits")  # noqa: S108
    place.mkdir()
    try:
        # a worker may write into its cache while it ends
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            for name in ("CONFIG", "STATE", "CACHE", "DATA"):
                os.environ[f"XDG_{name}_HOME"] = str(Path(home) / name.lower())
            os.environ["HOME"] = home
            yield place
    finally:
        shutil.rmtree(place)


@contextmanager
def _adb_server() -> Iterator[None]:
    """An adb server of its own: that of the user has boards which are not for the docs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        os.environ["ANDROID_ADB_SERVER_PORT"] = str(free.getsockname()[1])
    os.environ.pop("ADB_SERVER_SOCKET", None)
    try:
        yield
    finally:
        subprocess.run(["adb", "kill-server"], check=False, capture_output=True)


class Camera:
    """Drives one workbench and takes its pictures."""

    def __init__(self, pilot: Pilot[None], folder: Path) -> None:
        self.pilot, self.folder = pilot, folder

    async def until(self, true: Callable[[], object], what: str) -> None:
        """Wait for something to become true."""
        for _ in range(int(PATIENCE / 0.05)):
            await self.pilot.pause(0.05)
            if true():
                await self.pilot.pause(0.4)
                return
        raise SystemExit(f"never: {what}\n{_text(self.pilot.app)}")

    async def sees(self, text: str) -> None:
        """Wait for a text on the screen."""
        await self.until(lambda: text in _text(self.pilot.app), text)

    async def open(self, workspace: str, *keys: str, sees: str = "") -> None:
        """Show a workspace by its key, then press others there."""
        from rknntui.workspaces import keys_of

        await self.press(keys_of(workspace)[0], *keys, sees=sees)

    async def press(self, *keys: str, sees: str = "") -> None:
        """Press keys, and wait for a text."""
        await self.pilot.press(*keys)
        if sees:
            await self.sees(sees)

    async def idle(self) -> None:
        """Wait for the end of all work, also of that which nobody asked for."""
        session = self.pilot.app.session  # type: ignore[attr-defined]
        await self.until(
            lambda: not any(job.running for job in session.jobs.values()), "the end of jobs"
        )
        await self.pilot.pause(1)

    async def take(self, name: str, *texts: str) -> None:
        """Save what is on the screen, without notices, once it has some texts."""
        from rknntui.widgets.header_footer import TopBar

        for text in texts:
            await self.sees(text)
        bar = self.pilot.app.screen_stack[0].query_one(TopBar)
        await self.until(lambda: not bar._notices, "the end of notices")
        self.pilot.app.clear_notifications()
        svg = _smaller(self.pilot.app.export_screenshot(title="RKNN TUI"))
        width, height = self.pilot.app.size
        (self.folder / f"{name}-{width}x{height}.svg").write_text(svg, encoding="utf-8")


async def _pictures(folder: Path, place: Path) -> None:
    from rknntui.app import Workbench
    from rknntui.demo import demo_folder

    Workbench.NOTIFICATION_TIMEOUT = 0.5  # a notice stands in the first line, on every picture
    app = Workbench(str(digits(place, place, demo_folder())), state_kept=False)
    os.chdir(place)
    async with app.run_test(size=SIZE) as pilot:
        camera = Camera(pilot, folder)
        await camera.until(lambda: app.session.model is not None, "the model")
        await _recipe(camera, app)
        await camera.press("b")
        await camera.until(lambda: app.session.built is not None, "the build")
        await camera.idle()
        await _model(camera)
        await _layers(camera)
        await _builds(camera)
        await _chips(camera)
        await _bench(camera)
        await _result(camera)
        await _frame(camera)


async def _task(folder: Path, name: str, task: Task, place: Path, zoo: Path) -> None:
    """The last screen of a task."""
    from rknntui.app import Workbench
    from rknntui.demo import demo_folder

    os.chdir(place)
    app = Workbench(str(task.file(place, zoo, demo_folder())), state_kept=False)
    async with app.run_test(size=(80, 24)) as pilot:
        camera = Camera(pilot, folder)
        await play((*task.before, *task.steps), camera.press, camera.sees)
        await camera.take(f"task-{name}")


async def _recipe(camera: Camera, app: Workbench) -> None:
    await camera.open("recipe")
    await camera.until(lambda: app.session.yaml, "the checked recipe")
    workspace: Any = app.workspace
    while workspace.form.rows.option.name != "mean_values":
        await camera.press("down")
    await camera.take("recipe", "Subtracted from every pixel", "expected")
    await camera.press("v", "down", "down", "down")
    await camera.take("recipe-data", "003.png →")
    await camera.press("escape")


async def _model(camera: Camera) -> None:
    """The graph with a node between its neighbours, then a walk from a sum of two."""
    await camera.open("model", "down", "down", "down")
    await camera.take("model", "Weights")
    await camera.press("slash", *"stage1.1/add", "enter", "enter", sees="┏┷")
    await camera.pilot.pause(1.5)
    await camera.take("model-walk")
    await camera.press("escape", "escape")


async def _layers(camera: Camera) -> None:
    await camera.open("layers")
    await camera.take("layers", "by gain per ms", "integer range")
    await camera.press("c")
    await camera.take("layers-detail", "cumulative (simulated)")
    await camera.press("c", "c", "f", sees="Search")
    await camera.press("enter", sees="✓ best")
    await camera.idle()
    await camera.take("search")
    await camera.press("D", "r", sees="r next")
    await camera.press("r", sees="Quantize and compare")
    await camera.idle()
    await camera.take("guide")


async def _builds(camera: Camera) -> None:
    """A build with the layer promoted that gains most, beside the first one."""
    await camera.open("layers", "v", sees="by gain per ms")
    await camera.press("space")
    await camera.open("recipe", "w", sees="Save the recipe")
    await camera.press("enter", sees="Replace what is there")
    await camera.press("y")
    await camera.until(lambda: "digits.yaml ●" not in _text(camera.pilot.app), "the saved recipe")
    await camera.open("builds", "b", sees="to float16")
    await camera.idle()
    await camera.take("builds")
    await camera.press("g", "equals_sign", sees="logits")
    await camera.pilot.pause(1)
    await camera.take("builds-compared")
    await camera.press("escape")


async def _chips(camera: Camera) -> None:
    """The chips with a goal, and after a compilation (with a toolkit, RKNNTUI_VENDOR)."""
    await camera.open("chips", "f", sees="Frames a second to reach")
    await camera.press("enter")
    await camera.take("chips", "chips reach 25 FPS")
    await camera.press("W", "r")
    if "RKNNTUI_VENDOR" in os.environ:
        await camera.sees("Compile for")
        await camera.press("enter")
        await camera.sees("✓ compiled")
        await camera.idle()
    else:
        print("no toolkit: the pictures of Chips and Bench are not for the docs", file=sys.stderr)
    await camera.take("chips-compiled")
    await camera.press("equals_sign", "v")
    await camera.take("memory", "Tensors alive")
    await camera.press("v")
    await camera.take("roofline", "Layers under the roof")


async def _bench(camera: Camera) -> None:
    """An emulated board, in the middle of a run."""
    await camera.open("bench", "a", sees="over    emulated")
    await camera.press("enter", sees="✓ ready")
    await camera.press("enter", sees="r measures")
    await camera.press("r", sees="Layers (emulated)")
    await camera.pilot.pause(12)
    await camera.take("bench")
    await camera.press("r")
    await camera.until(lambda: "▶ 0:" not in _text(camera.pilot.app), "the end of the run")


async def _result(camera: Camera) -> None:
    await camera.open("result", "r", sees="vs float")
    await camera.pilot.pause(1)
    await camera.take("result")


async def _frame(camera: Camera) -> None:
    await camera.open("overview", sees="Time on rk3588")
    await camera.pilot.pause(2)
    await camera.take("overview")
    await camera.press("t")
    await camera.pilot.pause(1.5)
    await camera.take("target")
    await camera.press("escape")
    await camera.open("layers", "question_mark")
    await camera.take("help", "Help: Layers")
    await camera.press("escape", "ctrl+p", *"mean")
    await camera.pilot.pause(1.5)
    await camera.take("palette")


def _text(app: object) -> str:
    strips = app.screen._compositor.render_strips()  # type: ignore[attr-defined]
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def _smaller(svg: str) -> str:
    """Without the fonts that a viewer would fetch from elsewhere, and with one name for all."""
    svg = re.sub(r"@font-face\s*\{[^}]*\}", "", svg)
    svg = re.sub(r"terminal-\d+", "t", svg)
    svg = svg.replace("Fira Code", "monospace")
    svg = re.sub(r"\n[ \t]+", "\n", svg)
    return _TEXT.sub(_trimmed, svg)


_TEXT = re.compile(
    r'<text class="([^"]*)" x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"([^>]*)>'
    r"((?:&#160;)*)(.*?)((?:&#160;)*)</text>"
)


def _trimmed(match: re.Match[str]) -> str:
    """Text moved to its first visible character: some viewers drop blanks at the start."""
    style, x, y, length, rest, before, text, after = match.groups()
    blank = len("&#160;")
    if not text:
        return ""
    left, right = len(before) // blank * CELL, len(after) // blank * CELL
    place = f'x="{float(x) + left:g}" y="{y}" textLength="{float(length) - left - right:g}"'
    return f'<text class="{style}" {place}{rest}>{text}</text>'


if __name__ == "__main__":
    main()
