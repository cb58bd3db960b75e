"""Make the pictures of every workspace in ``docs/pictures``: the demo, at 120x40.

Runs the workbench headless over a real worker with a home of its own, drives it by keys and saves
what is on the screen as SVG. Usage: ``python scripts/make_pictures.py [FOLDER]``.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

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
    with tempfile.TemporaryDirectory() as home:
        for name in ("CONFIG", "STATE", "CACHE", "DATA"):
            os.environ[f"XDG_{name}_HOME"] = str(Path(home) / name.lower())
        os.environ["HOME"] = home
        os.environ["TERM"], os.environ["COLORTERM"] = "xterm-256color", "truecolor"
        os.environ.pop("NO_COLOR", None)
        os.chdir(home)
        recipe = _demo(Path(home))
        asyncio.run(_pictures(folder, recipe))


def _demo(home: Path) -> Path:
    """The demo's files under a short path, as a user would have them."""
    import shutil

    from rknntui.demo import demo_folder

    place = home / "digits"
    shutil.copytree(demo_folder(), place, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    recipe = place / "digits.yaml"
    recipe.write_text(
        "version: 1\n"
        "source: {model: digits_demo.onnx}\n"
        "preprocess: {mean_values: [[127.5]], std_values: [[127.5]]}\n"
        "dataset: {dataset: dataset.txt}\n",
        encoding="utf-8",
    )
    return recipe


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

    async def open(self, workspace: str, *keys: str) -> None:
        """Show a workspace by its key, then press others there."""
        from rknntui.workspaces import keys_of

        await self.press(keys_of(workspace)[0], *keys)

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self.pilot.press(*keys)

    def take(self, name: str) -> None:
        """Save what is on the screen."""
        self.pilot.app.clear_notifications()
        svg = _smaller(self.pilot.app.export_screenshot(title="RKNN TUI"))
        width, height = SIZE
        (self.folder / f"{name}-{width}x{height}.svg").write_text(svg, encoding="utf-8")


async def _pictures(folder: Path, recipe: Path) -> None:
    from rknntui.app import Workbench

    app = Workbench(str(recipe), state_kept=False)
    os.chdir(recipe.parent)
    async with app.run_test(size=SIZE) as pilot:
        camera = Camera(pilot, folder)
        await camera.until(lambda: app.session.model is not None, "the model")
        await _before_the_build(camera, app)
        await _after_the_build(camera)


async def _before_the_build(camera: Camera, app: Workbench) -> None:
    await camera.press("down", "down", "down")
    await camera.sees("Weights")
    camera.take("model")
    await camera.open("recipe")
    await camera.until(lambda: app.session.yaml, "the checked recipe")
    while app.workspace.form.rows.option.name != "mean_values":
        await camera.press("down")
    await camera.sees("Subtracted from every pixel")
    camera.take("recipe")
    await camera.press("v", "down", "down", "down")
    await camera.sees("003.png →")
    camera.take("recipe-data")
    await camera.press("escape")
    await camera.open("quantize", "B")
    await camera.sees("✓ built")
    camera.take("quantize")


async def _after_the_build(camera: Camera) -> None:
    await camera.open("accuracy", "r")
    await camera.sees("by SQNR")
    await camera.press("enter")
    await camera.sees("integer range")
    camera.take("histograms")
    await camera.press("escape")
    await camera.sees("by SQNR")
    camera.take("accuracy")
    await _guide_and_hybrid(camera)
    await camera.open("run", "n")
    await camera.sees("000.png")
    await camera.press("r")
    await camera.sees("Top 5")
    camera.take("run")
    await _chips(camera)
    await camera.open("jobs")
    await camera.sees("layers.search")
    camera.take("jobs")
    await camera.press("question_mark")
    await camera.sees("Everywhere")
    camera.take("help")
    await camera.press("escape", "ctrl+p")
    await camera.pilot.pause(1.5)
    camera.take("palette")


async def _chips(camera: Camera) -> None:
    """The chips with a goal, and after a compilation (with a toolkit, RKNNTUI_VENDOR)."""
    from engine.wire.compile import COMPILE

    await camera.open("chips", "f")
    await camera.sees("Frames a second to reach")
    await camera.press("enter")
    await camera.sees("chips reach 25 FPS")
    camera.take("chips")
    if "RKNNTUI_VENDOR" not in os.environ:
        print("no toolkit: this picture of Chips is not for the docs", file=sys.stderr)
        camera.take("chips-compiled")
        return
    await camera.press("W", "G", "space", "k", "space", "r")
    await camera.sees("Compile for")
    await camera.press("enter")
    app = camera.pilot.app
    await camera.until(lambda: app.session.last_of(COMPILE), "the compiled models")
    await camera.until(lambda: app.session.running is None, "the end of the job")
    camera.take("chips-compiled")


async def _guide_and_hybrid(camera: Camera) -> None:
    await camera.press("v", "r")
    await camera.sees("r next")
    await camera.press("r")
    await camera.sees("Quantize and compare")
    await camera.sees("r next")
    camera.take("guide")
    await camera.open("hybrid")
    await camera.sees("by SQNR dB")
    await camera.press("space", "down", "m", "m", "space")
    await camera.sees("simulated over")
    camera.take("hybrid")
    await camera.press("f", "enter")
    await camera.sees("✓ best")
    camera.take("search")
    await camera.press("v", "u", "u")


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
    sys.path.insert(0, str(REPOSITORY))
    main()
