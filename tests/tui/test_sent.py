"""Only what changed is sent to the terminal, and the terminal shows all of it."""

from __future__ import annotations

import random
from pathlib import Path

import pyte
import pytest
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Region, Size
from textual.strip import Strip

from rknntui.app import Workbench
from rknntui.sent import Sent
from tests.tui.conftest import driven, screen_text, settle, workbench

SIZE = Size(24, 6)
STYLES = [
    Style.parse(text)
    for text in ("red", "bold blue on white", "none", "on #102030", "underline", "reverse green")
]
CONSOLE = Console(force_terminal=True, color_system="truecolor", width=SIZE.width)


def a_strip(chosen: random.Random, width: int) -> Strip:
    """A line of texts of one and two cells, as wide as it should be."""
    segments: list[Segment] = []
    left = width
    while left:
        text = chosen.choice(["a", "bc", "   ", "文", "字节", "é", "▀", "—"])
        text = text if Segment(text).cell_length <= left else " "
        segments.append(Segment(text, chosen.choice(STYLES)))
        left -= segments[-1].cell_length
    return Strip(segments)


class Screen:
    """A terminal of pyte."""

    def __init__(self) -> None:
        self.screen = pyte.Screen(SIZE.width, SIZE.height)
        self.stream = pyte.Stream(self.screen)

    def show(self, text: str) -> None:
        self.stream.feed(text)

    def cells(self) -> list[list[tuple]]:
        """What is seen: a blank that is neither underlined nor reversed has a background alone."""
        return [
            [
                (c.data, c.fg, c.bg, c.bold, c.underscore, c.reverse)
                if c.data.strip() or c.underscore or c.reverse
                else (c.data, c.bg)
                for c in (self.screen.buffer[y][x] for x in range(SIZE.width))
            ]
            for y in range(SIZE.height)
        ]


@pytest.mark.parametrize("seed", range(20))
def test_the_terminal_shows_the_same_as_if_everything_were_sent(seed: int) -> None:
    chosen = random.Random(seed)
    sent, ours, full = Sent(), Screen(), Screen()
    for _ in range(30):
        if chosen.random() < 0.5:
            lines = [[a_strip(chosen, 10), a_strip(chosen, 14)] for _ in range(SIZE.height)]
            update = LayoutUpdate(lines, Region(0, 0, SIZE.width, SIZE.height))
        else:
            y, x = chosen.randrange(SIZE.height), chosen.randrange(0, SIZE.width - 8)
            chops = [{} for _ in range(SIZE.height)]
            chops[y] = {x: a_strip(chosen, 8)}
            ends = [[x + 8]] * SIZE.height
            update = ChopsUpdate(chops, [(y, x, x + 8)], ends)
            if any(
                not cell[0] for cell in [full.screen.buffer[y][x], full.screen.buffer[y][x + 8]]
            ):
                continue  # Textual never begins in the middle of a character
        changes = sent.changes(update, SIZE)
        ours.show(changes.render_segments(CONSOLE))
        full.show(update.render_segments(CONSOLE))
        assert ours.cells() == full.cells()
        again = sent.changes(update, SIZE)
        assert again.cells == 0, "what is there is not sent again"
    assert sent.spared > 0


def test_of_a_look_only_what_differs_is_sent() -> None:
    texts = (("ab", "bold red on blue"), ("  ", "green on blue"), ("c", "bold #00ff00 on blue"))
    line = Strip([Segment(text, Style.parse(style)) for text, style in texts])
    update = LayoutUpdate([[line]], Region(0, 0, 5, 1))
    changes = Sent().changes(update, Size(5, 1))
    said = changes.render_segments(CONSOLE)
    assert said == "\x1b[1;1H\x1b[0;1;31;44mab  \x1b[38;2;0;255;0mc\x1b[0m"


def test_everything_is_sent_again_after_another_program_or_a_resize() -> None:
    sent = Sent()
    strips = [[Strip([Segment("x" * SIZE.width)])] for _ in range(SIZE.height)]
    update = LayoutUpdate(strips, Region(0, 0, SIZE.width, SIZE.height))
    every = SIZE.width * SIZE.height
    for forget in (lambda: None, sent.forget, lambda: None):
        forget()
        sent.changes(update, SIZE)
    assert sent.count == 2 * every
    sent.changes(update, Size(SIZE.width, SIZE.height + 1))
    assert sent.count == 3 * every


@pytest.mark.usefixtures("warm")
async def test_the_theme_for_slow_lines_sends_little_and_no_backgrounds(
    monkeypatch: pytest.MonkeyPatch, digits: Path
) -> None:
    sent: list[int] = []
    changes = Sent.changes

    def counted(self: Sent, update: CompositorUpdate, size: Size) -> CompositorUpdate:
        made = changes(self, update, size)
        sent.append(len(made.render_segments(app.console)))
        return made

    monkeypatch.setattr(Sent, "changes", counted)
    app = Workbench(str(digits), state_kept=False)
    async with driven(app, (120, 40)) as pilot:
        assert app.theming.use("low-bandwidth")
        await pilot.sees("32 nodes")
        await pilot.press("b", until=lambda: app.session.layers.of("proposed"))
        for key in "12v34567012":  # the samples of Recipe too
            await settle(pilot)
            sent.clear()
            await pilot.press(key, rests=True)
            await settle(pilot)
            assert sum(sent) <= 25_000, key
            grounds = sum(
                segment.cell_length
                for strip in app.screen._compositor.render_strips()
                for segment in strip
                if segment.style.bgcolor is not None and not segment.style.bgcolor.is_default
            )
            assert grounds <= 3 * 120, f"{key}: more than tabs and rows under a cursor"


@pytest.mark.long
@pytest.mark.usefixtures("warm")
async def test_entering_a_workspace_sends_each_cell_once(digits: Path) -> None:
    width, height = 120, 40
    async with workbench(digits, size=(width, height)) as (app, pilot):
        await pilot.sees("32 nodes")
        await pilot.press("b", until=lambda: app.session.summary is not None)
        for visit in range(2):
            for key in "0123567":
                await settle(pilot)
                before = app.sent.count
                await pilot.press(key, rests=True)
                await settle(pilot)
                limit = 1.0 if visit else 2.0  # a first visit has no answers at its first paint
                sent = (app.sent.count - before) / (width * height)
                assert sent <= limit, f"{key}: {sent:.2f} screens"
        await settle(pilot)
        await pilot.resize_terminal(width, height - 1)
        await settle(pilot)
        rows = [[cell[0] for cell in row if cell] for row in app.sent._rows]
        assert ["".join(row) for row in rows] == screen_text(app).splitlines()
