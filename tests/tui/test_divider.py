"""The line between two panes: moved by keys and the mouse, and kept for the next start."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.containers import Container

from rknntui.app import Workbench
from rknntui.widgets.divider import LEAST, Divider
from rknntui.widgets.line_list import TextRows
from rknntui.workspaces import keys_of
from tests.tui.conftest import driven, screen_text, settle, until, workbench

SIZE = (120, 40)


async def test_keys_and_mouse_move_it_and_the_next_start_has_it_there(own_home: Path) -> None:
    async with workbench(size=SIZE, kept=True) as (app, pilot):
        await pilot.press(keys_of("model")[0], until=lambda: app.current == "model")
        await settle(pilot)
        divider = app.workspace.query_one(Divider)
        before = divider.region.x
        await pilot.press("ctrl+right", until=lambda: divider.region.x > before)
        await pilot.mouse_down(divider)
        await pilot.hover("TopBar", offset=(30, 1))
        await pilot.mouse_up("TopBar", offset=(30, 1))
        await until(pilot, lambda: abs(divider.region.x - 30) <= 1, "it was dragged")
        for _ in range(20):
            await pilot.press("ctrl+left")
        await settle(pilot)
        assert app.dividers == {"model-divider beside": LEAST}
        await pilot.press("q")
    again = Workbench()
    async with driven(again, SIZE) as pilot:
        await pilot.press(keys_of("model")[0], until=lambda: again.current == "model")
        await settle(pilot)
        assert again.workspace.query_one(Divider).region.x == round(SIZE[0] * LEAST / 100)
        await pilot.press(keys_of("overview")[0], until=lambda: again.current == "overview")
        await pilot.press("ctrl+left")
        why = "No line between panes can be moved here."
        await until(pilot, lambda: why in screen_text(again), "why not")


async def test_every_view_with_two_panes_has_one() -> None:
    async with workbench(size=SIZE) as (app, pilot):
        for name in ("model", "recipe", "layers", "chips", "bench", "result", "builds"):
            await pilot.press(keys_of(name)[0], until=lambda name=name: app.current == name)
        views = {
            *("model", "recipe", "layers", "guide", "search", "code"),
            *("memory", "roofline"),
            *("job", "bench", "result", "builds"),
        }
        placed = {str(divider.id).removesuffix("-divider") for divider in app.query(Divider)}
        assert placed == views


class Panes(App[None]):
    """Three panes, of which two at a time are shown."""

    dividers: ClassVar[dict[str, int]] = {}

    def compose(self) -> ComposeResult:
        with Container():
            yield from (TextRows(id=name) for name in ("a", "b"))
            yield Divider("line")
            yield TextRows(id="c")


async def test_it_stands_or_lies_between_the_panes_that_are_shown() -> None:
    app = Panes()
    async with driven(app, (100, 41)) as pilot:
        line, box = app.query_one(Divider), app.query_one(Container)
        a, b, c = (app.query_one(f"#{name}") for name in "abc")
        for pane in (a, b, c):
            pane.styles.width = pane.styles.height = "1fr"
        a.display = False
        await pilot.pause()
        assert (line.size.width, line.size.height) == (100, 1)
        line.move(-20)
        await pilot.pause()
        assert (b.size.height, c.size.height) == (12, 28)
        a.display, b.display = True, False
        await pilot.pause()
        assert a.size.height == 12, "what stands in its place has the share, too"
        box.styles.layout = "horizontal"
        await pilot.pause()
        assert (line.size.width, line.size.height) == (1, 41)
        assert abs(a.size.width - c.size.width) <= 1, "that was of panes that lie"
        c.display = False
        await pilot.pause()
        assert not line.display
        assert a.size.width == 100
