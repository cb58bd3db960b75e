"""Dialogs by keys and by the mouse: what a key does below one, a click on it does too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.widgets import Input

from rknntui.screens.dialogs.dialogs import ConfirmDialog, PromptDialog, TextDialog
from rknntui.screens.dialogs.help import JumpOverlay, first_lines
from rknntui.screens.dialogs.lists import ChoiceDialog
from rknntui.screens.dialogs.picker import PathPicker
from rknntui.screens.dialogs.request import Form, RequestDialog
from rknntui.session.state import Session
from rknntui.session.steps import Step
from rknntui.widgets.entries import ChoiceLine
from rknntui.widgets.line_list import TextRows
from rknntui.workspaces import keys_of
from tests.tui.conftest import Driver, driven, screen_text, settle, until, workbench
from tests.tui.test_forms import NOW, Asked

ABOUT = {f"chip{number}": f"the {number}th" for number in range(40)}


async def click_on(pilot: Driver, text: str) -> None:
    """Click on the last place of the screen that has a text."""
    lines = screen_text(pilot.app).splitlines()
    y = max(at for at, line in enumerate(lines) if text in line)
    await pilot.click(offset=(lines[y].index(text) + 1, y))
    await pilot.pause()


@pytest.mark.parametrize(
    ("dialog", "text", "answer"),
    [
        (lambda: ConfirmDialog("Q", "Stop?", [("y", "stop", 1), ("n", "keep", 2)]), "n keep", 2),
        (lambda: PromptDialog("Key", value="abc"), "Enter accept", "abc"),
        (lambda: TextDialog("[b]of a file[/b]", [[("text", "")]]), "Esc close", None),
        (lambda: ChoiceDialog("Chip", tuple(ABOUT), "chip3", ABOUT), "Enter select", "chip3"),
    ],
    ids=["question", "line", "text", "list"],
)
async def test_a_click_on_a_key_of_the_frame_presses_it(
    dialog: Any, text: str, answer: Any
) -> None:
    taken: list[Any] = []
    async with workbench() as (app, pilot):
        app.push_screen(shown := dialog(), taken.append)
        await pilot.sees(text)
        assert shown.TITLE_TEXT in screen_text(app), "a title is no markup"
        await click_on(pilot, text)
        await until(pilot, lambda: taken == [answer], "its answer")


async def test_a_list_is_searched_chosen_from_and_closed_like_that_of_files() -> None:
    taken: list[Any] = []
    async with workbench() as (app, pilot):

        async def ask() -> ChoiceDialog:
            dialog = ChoiceDialog("Chip", tuple(ABOUT), "chip3", ABOUT)
            app.push_screen(dialog, taken.append)
            await pilot.sees("chip3")
            return dialog

        dialog = await ask()
        await pilot.press(*"17")
        assert dialog.here == "chip17"
        await pilot.press("x", "enter")
        assert "no matches" in screen_text(app)
        assert dialog.is_current, "nothing is chosen"
        await pilot.press("escape")
        assert taken == [None], "one Esc closes it, whatever is typed"
        dialog = await ask()
        for key in (*"chip1", "down", "enter"):  # in one burst, before the list is of the text
            app.simulate_key(key)
        await until(pilot, lambda: len(taken) == 2, "the second of them")
        assert taken[-1] == "chip10"
        dialog = await ask()
        rows = dialog.query_one(TextRows)
        await pilot.click(rows, offset=(4, 6))
        assert (dialog.here, dialog.query_one(Input).has_focus) == ("chip6", True)
        await pilot.click(rows, offset=(4, 6))
        await until(pilot, lambda: taken[-1] == "chip6", "by the mouse alone")


async def test_help_names_the_keys_of_the_focus() -> None:
    async with workbench(kept=True) as (app, pilot):
        await pilot.press("question_mark", rests=True)
        await pilot.sees("Help: Overview", "In this list")
        assert "Do the step under the cursor" in app.screen.query_one("TextRows").text()
        assert "Open the workspace Builds." in app.screen.query_one("TextRows").text()
        await pilot.press("escape", keys_of("builds")[0], "f1", rests=True)
        assert "Help: Builds" in screen_text(app)
        rows = []
        for keys in (keys_of("layers")[0],), ("V",):  # columns Quality, and the guide
            await pilot.press("escape", *keys, "question_mark", rests=True)
            rows.append(app.screen.query_one("TextRows").text())
        assert "Measure" in rows[0]
        assert "Compare the layers with the float graph" in rows[0]
        assert "step of the guide" not in rows[0]
        assert "Run the next step of the guide." in rows[1]
        assert "Compare the layers" not in rows[1]


def test_help_names_a_next_step_whose_action_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step("possible", "", "", "overview.compile", "compile for rk3588", name="compile")
    monkeypatch.setattr("rknntui.screens.dialogs.help.next_step", lambda known: step)
    said = first_lines(Session(lambda message: None), "chips", "Chips")[-1]
    assert said == "Next: compile for rk3588 (0, Enter)."


async def test_help_is_searched_by_keys_and_words() -> None:
    async with workbench(kept=True) as (app, pilot):
        await pilot.press("question_mark", rests=True)
        rows = app.screen.query_one("TextRows")
        whole = rows.text()
        assert whole.count("Everywhere") == 1
        assert "Page Left" not in whole
        await pilot.press("slash", *"quit")  # q is a letter here, and closes nothing
        await settle(pilot)
        assert "Quit; if a job is running" in rows.text()
        assert "Find nodes" not in rows.text()
        await pilot.press("enter", rests=True)
        assert "Find nodes" not in rows.text(), "Enter keeps the filter"
        await pilot.press("slash", *"zzz", rests=True)
        assert rows.text() == "no matches"
        await pilot.press("escape", rests=True)
        assert rows.text() == whole
        await pilot.press("q", rests=True)
        assert app.is_running
        assert len(app.screen_stack) == 1


async def test_a_click_turns_a_choice() -> None:
    app: App[None] = App()
    async with driven(app) as pilot:
        line = ChoiceLine({"a": "first", "b": "second", "c": "third"}, "a", id="choice")
        await app.mount(line)
        for x, value in ((0, "b"), (1, "c"), (6, "b"), (9, "c")):  # x 6 is ◂ behind “third”
            await pilot.click(line, offset=(x, 0))
            assert line.value == value


async def test_a_click_on_a_letter_goes_to_its_pane() -> None:
    async with workbench() as (app, pilot):
        await pilot.press("ctrl+o", until=lambda: isinstance(app.screen, JumpOverlay))
        overlay, target = app.screen, app.screen._targets["a"]
        await pilot.click("#jump-a")
        await until(pilot, lambda: len(app.screen_stack) == 1 and target.has_focus, "the pane")
        overlay._place()  # keys in one burst close it before its first paint


async def test_a_form_is_filled_by_the_mouse_alone(tmp_path: Path) -> None:
    (tmp_path / "a.rknn").touch()
    app: App[None] = App()
    asked: list[Asked] = []
    async with driven(app) as pilot:
        form = Form("A form", (Asked,), {"force": "asked for later"})
        form.ask(app, replace(NOW, path=f"{tmp_path}/"), then=asked.append)
        await until(pilot, lambda: isinstance(app.screen, RequestDialog), "the form")
        await pilot.click(app.screen.query_one("#anew", ChoiceLine))
        await pilot.click(app.screen.query_one(".pick"))
        await until(pilot, lambda: isinstance(app.screen, PathPicker), "the picker of the path")
        await pilot.click(app.screen.query_one(TextRows), offset=(2, 0))
        await until(pilot, lambda: isinstance(app.screen, RequestDialog), "the form again")
        await click_on(pilot, "Enter accept")
        await until(pilot, lambda: bool(asked), "what is asked for")
    assert asked == [replace(NOW, path=str(tmp_path / "a.rknn"), anew=True)]
