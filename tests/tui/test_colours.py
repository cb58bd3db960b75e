"""Themes, ours and the user's own, on terminals with all colours, with 256 and with 16."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.color import ColorType
from textual.color import Color

from rknntui.app import Workbench
from rknntui.colours import read_theme
from rknntui.palette import Triplet, _distance, _oklab, nearest, xterm_colour
from rknntui.session.kept import State, save_state
from rknntui.widgets.thumbnail import Thumbnail
from rknntui.workspaces import keys_of
from tests.tui.conftest import driven, screen_text, settle, until, workbench

GROUNDS = ("background", "surface", "panel")
TEXTS = ("foreground", "primary", "accent", "warning", "error", "success")
LEAST = {"dark": 4.5, "light": 4.5, "high-contrast": 7.0}


def luminance(colour: tuple[int, int, int]) -> float:
    linear = [
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4
        for v in (channel / 255 for channel in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """As WCAG 2 has it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def colours_of(name: str, few: bool) -> dict[str, tuple[int, int, int]]:
    """The colours of a theme as a terminal shows them, of 256 where it has so few."""
    theme = read_theme(name)
    named = {key: getattr(theme, key) for key in (*GROUNDS, *TEXTS)}
    named["muted"] = theme.variables["text-muted"]
    found = {key: tuple(Color.parse(value).rgb) for key, value in named.items()}
    return {k: xterm_colour(nearest(c)) for k, c in found.items()} if few else found


@pytest.mark.parametrize("few", [False, True], ids=["true colour", "256"])
@pytest.mark.parametrize("name", LEAST)
def test_every_text_can_be_read_on_every_ground(name: str, few: bool) -> None:
    colours = colours_of(name, few)
    for ground in GROUNDS:
        for text in (*TEXTS, "muted"):
            found = contrast(colours[text], colours[ground])
            assert found >= LEAST[name], f"{text} on {ground}: {found:.2f}"
    assert contrast(colours["background"], colours["primary"]) >= 4.5, "the row under the cursor"


@pytest.mark.parametrize("name", ["dark", "light"])
def test_panels_of_256_colours_are_greys_that_differ(name: str) -> None:
    grounds = [tuple(Color.parse(getattr(read_theme(name), key)).rgb) for key in GROUNDS]
    numbers = [nearest(colour) for colour in grounds]
    assert len(set(numbers)) == len(GROUNDS)
    assert all(len(set(xterm_colour(number))) == 1 for number in numbers), numbers


def test_the_nearest_colour_is_the_one_that_looks_most_alike() -> None:
    for number in range(16, 256):
        assert xterm_colour(nearest(xterm_colour(number))) == xterm_colour(number)
    chosen = random.Random(3)
    for _ in range(400):
        colour = tuple(chosen.randrange(256) for _ in range(3))
        wanted = _oklab(colour)
        ours = _distance(wanted, _oklab(xterm_colour(nearest(colour)))) ** 0.5
        best = min(_distance(wanted, _oklab(xterm_colour(n))) for n in range(16, 256)) ** 0.5
        assert ours <= best + 0.03, colour


@pytest.mark.usefixtures("warm")
async def test_a_terminal_of_256_colours_gets_them_and_no_teal_panels(
    monkeypatch: pytest.MonkeyPatch, digits: Path
) -> None:
    monkeypatch.delenv("COLORTERM")
    async with workbench(digits) as (app, pilot):
        await pilot.sees("32 nodes")
        await pilot.press("tab", keys_of("recipe")[0], "v", sees="▀▀")
        await pilot.press("1", "question_mark", rests=True)
        grounds: set[int] = set()
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                for colour in (segment.style.color, segment.style.bgcolor):
                    assert colour is None or colour.type != ColorType.TRUECOLOR
                if segment.style.bgcolor is not None and segment.style.bgcolor.number is not None:
                    grounds.add(segment.style.bgcolor.number)
        assert nearest((0x14, 0x17, 0x1C)) in grounds
        assert 23 not in grounds, "teal"


@pytest.mark.usefixtures("warm")
async def test_a_terminal_of_16_colours_has_its_own_and_pictures_of_characters(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, digits: Path
) -> None:
    monkeypatch.delenv("COLORTERM")
    monkeypatch.setenv("TERM", "linux")
    state = own_home / ".local" / "state" / "rknntui"
    state.mkdir(parents=True)
    (state / "interface.json").write_text(json.dumps({"version": 1, "theme": "light"}))
    async with workbench(digits, kept=True) as (app, pilot):
        await pilot.sees("32 nodes")
        await pilot.press(keys_of("recipe")[0], "v", until=lambda: app.query(Thumbnail))
        picture = app.query_one(Thumbnail)
        await until(pilot, lambda: bool(picture.rows), "a picture")
        await settle(pilot)
        assert "▀" not in screen_text(app)
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                for colour in (segment.style.color, segment.style.bgcolor):
                    standard = (ColorType.STANDARD, ColorType.DEFAULT)
                    assert colour is None or colour.type in standard
        app.save_state()
    assert json.loads((state / "interface.json").read_text())["theme"] == "light"


async def test_themes_are_looked_at_and_kept(own_home: Path) -> None:
    async with workbench(kept=True) as (app, pilot):
        app.action_theme()
        await settle(pilot)
        for name in ("ansi", "dark", "high-contrast", "light", "low-bandwidth"):
            assert name in screen_text(app)
        await pilot.press(*"low", "enter", rests=True)
        assert app.theme == "low-bandwidth"
        await pilot.press("q")
    again = Workbench()
    assert again.theme == "low-bandwidth"


def own_theme(home: Path, content: str) -> None:
    """The theme ``mine`` of the user."""
    folder = home / ".config" / "rknntui" / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('primary = "no colour"', "is not a colour: 'no colour'"),
        *(
            (f'primary = "#336699"\n[variables]\n{line}', "the variable")
            for line in (
                'text-muted = "no colour"',
                'text-muted = "} Screen { display: none"',
                'block-cursor-text-style = "bald"',
                'scrollbar = "$nothing"',
                "border = 3",
                '"a b" = "red"',
            )
        ),
    ],
)
async def test_a_bad_theme_falls_back_with_a_notice(
    own_home: Path, content: str, said: str
) -> None:
    own_theme(own_home, content)
    save_state(State(theme="mine"), pytest.fail)
    async with workbench(notices=True, kept=True) as (app, pilot):
        assert app.theme == "dark"
        # the notice is wrapped where it has to be, with a bar before each of its lines
        await pilot.sees(said)


async def test_good_variables_of_a_theme_are_taken(own_home: Path) -> None:
    own_theme(
        own_home,
        'primary = "#336699"\n[variables]\ntext-muted = "auto 60%"\nscrollbar = "red 40%"\n'
        'block-cursor-text-style = "bold not underline"\nlink-background = "initial"\n',
    )
    async with workbench() as (app, pilot):
        assert app.theming.use("mine")
        await settle(pilot)
        assert app.theme == "mine"


async def test_no_colour_is_asked_for_and_nothing_depends_on_it(monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with workbench(kept=True) as (app, _):
        for strip in app.screen._compositor.render_strips():
            for segment in strip.apply_filter(app._filters[-1], app.screen.background_colors[1]):
                style = segment.style
                for colour in (style.color, style.bgcolor) if style else ():
                    if colour is not None and colour.triplet is not None:
                        assert len(set(colour.triplet)) == 1, segment


SIGNS = re.compile(r"[✓✗!●▶○~…–↑↓▲▼+−•◆·-]|\b(no|not|none|Fix|input|output)\b")
"""What says a state beside its colour: a sign, or a word."""
DRAWN = re.compile(r"[\s\u2500-\u259f\u2800-\u28ff]*")
"""Lines, bars and curves, which are no text."""


def seen_rows(app: Workbench) -> Iterator[list[tuple[str, Triplet, Triplet]]]:
    """The texts of each row with their colours, of those that say something."""
    for strip in app.screen._compositor.render_strips():
        row = []
        for segment in strip:
            style = segment.style
            pair = [None if c is None else c.triplet for c in (style.color, style.bgcolor)]
            if not DRAWN.fullmatch(segment.text) and None not in pair:
                fore, back = reversed(pair) if style.reverse else pair
                row.append((segment.text, tuple(fore), tuple(back)))
        yield row


@pytest.mark.long
@pytest.mark.usefixtures("warm")
async def test_every_view_can_be_read_in_every_theme(
    monkeypatch: pytest.MonkeyPatch, digits: Path
) -> None:
    monkeypatch.setattr(Workbench, "notify", lambda *_args, **_more: None)  # they come and go
    digits.write_text(f"{digits.read_text()}target: {{target_platform: rk3588}}\n")
    app, wrong = Workbench(str(digits), state_kept=False), set[str]()
    async with driven(app, (120, 40)) as pilot:
        await until(pilot, lambda: app.session.estimates is not None, "its estimates")
        await pilot.press("b", until=lambda: app.session.layers.of("proposed"))
        await pilot.press("3", "r", until=lambda: app.session.layers.of("error"))
        for key in "0123vvvvvv4vvvvvvv5vvvvv6r7vvv":
            await pilot.press(key, rests=True)
            for name, least in LEAST.items():
                assert app.theming.use(name)
                await pilot.pause()
                where = f"{app.current} {getattr(app.workspace, 'view', '')} in {name}"
                theme = read_theme(name)
                states = {Color.parse(c).rgb for c in (theme.success, theme.warning, theme.error)}
                for row in seen_rows(app):
                    whole = "".join(text for text, _, _ in row)
                    for said, fore, back in row:
                        if (found := contrast(fore, back)) < least:
                            wrong.add(f"{where}: {found:.2f} of {said.strip()!r}")
                        if fore in states and not SIGNS.search(whole):
                            wrong.add(f"{where}: by colour alone: {said.strip()!r}")
    assert not wrong, "\n".join(sorted(wrong))
