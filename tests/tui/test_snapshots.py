"""What the screens look like as text at three sizes: Model, Configure, Dataset, help; the guide
and Layers as they are before a build.

The expected screens lie in ``snapshots/``; ``RKNNTUI_SNAPSHOTS=write`` writes them anew. Screens
with figures of this machine (builds, Jobs) are left to the tests that read them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from rknntui.app import Workbench
from rknntui.demo import demo_folder
from tests.tui.conftest import screen_text, until

SIZES = [(80, 24), (120, 40), (200, 60)]
EXPECTED = Path(__file__).parent / "snapshots"
PLACE = Path("/tmp/rknntui-snapshots")
"""A fixed folder: paths are on the screens, and cut to its width."""

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("warm")]


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


def seen(app: Workbench) -> str:
    """The screen as text; trailing blanks do not count."""
    return "\n".join(line.rstrip() for line in screen_text(app).splitlines()) + "\n"


async def holds(pilot: Pilot[None], name: str) -> None:
    """Wait until the screen is the expected one; what never settles to it fails with both."""
    app = pilot.app
    assert isinstance(app, Workbench)
    width, height = app.size
    path = EXPECTED / f"{name}-{width}x{height}.txt"
    if os.environ.get("RKNNTUI_SNAPSHOTS") == "write":
        await pilot.pause(2)
        path.write_text(seen(app), encoding="utf-8")
    expected = path.read_text(encoding="utf-8")
    for _ in range(100):
        if seen(app) == expected:
            return
        await pilot.pause(0.05)
    assert seen(app) == expected


@pytest.mark.parametrize(
    "size",
    [*SIZES[:2], pytest.param(SIZES[2], marks=pytest.mark.long)],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
async def test_screens(recipe: Path, size: tuple[int, int]) -> None:
    app = Workbench(str(recipe), state_kept=False)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "32 nodes" in screen_text(app), "the model")
        await until(pilot, lambda: "Operators" in screen_text(app), "its details")
        await holds(pilot, "model")
        await pilot.press("question_mark")
        await holds(pilot, "help")
        await pilot.press("escape", "2")
        await until(pilot, lambda: "default: none" in screen_text(app), "the option's help")
        if size[0] > 80:  # narrow screens have no room for findings
            await until(pilot, lambda: "opset 17" in screen_text(app), "what the engine found")
        await holds(pilot, "configure")
        await pilot.press("3")
        await until(pilot, lambda: "expected" in screen_text(app), "the preview")
        await holds(pilot, "dataset")
        await pilot.press("3", "D")
        await until(pilot, lambda: "r runs the first step" in screen_text(app), "the guide")
        await holds(pilot, "guide")
        await pilot.press("escape")
        await until(pilot, lambda: "b builds" in screen_text(app), "Layers")
        await holds(pilot, "layers")
