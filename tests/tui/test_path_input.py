"""The path line of the picker: an absolute path goes over the folder that stands there."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.events import Paste
from textual.widgets import Input

from rknntui.app import Workbench
from rknntui.screens.dialogs.picker import PathPicker
from tests.tui.conftest import Driver, until, workbench
from tests.tui.flow import typed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The current folder, with a slash at its end as the picker shows it."""
    for name in ("home/mine.onnx", "here/sub/near.onnx", "my model.onnx"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    return f"{tmp_path}/here/"


async def asked(app: Workbench, pilot: Driver, taken: list[str | None]) -> Input:
    """The line of a new picker in the current folder."""
    app.push_screen(PathPicker("Open"), taken.append)
    await until(pilot, lambda: isinstance(app.screen, PathPicker), "it asks")
    return app.screen.query_one(Input)


async def paste(pilot: Driver, line: Input, text: str) -> None:
    line.post_message(Paste(text))
    await pilot.pause()


@pytest.mark.long
async def test_a_slash_or_tilde_behind_a_slash_begins_anew(folder: str) -> None:
    taken: list[str | None] = []
    async with workbench(kept=True) as (app, pilot):
        for text, value in (
            ("/", "/"),
            ("//", "/"),
            ("/dev/", "/dev/"),
            ("sub/", f"{folder}sub/"),  # what is no begin is a letter
            ("sub~", f"{folder}sub~"),
            ("sub//dev", "/dev"),
            ("~", "~"),
            ("~nobody-of-this-name/x", "~nobody-of-this-name/x"),
        ):
            line = await asked(app, pilot, taken)
            assert line.value == folder
            await pilot.press(*typed(text))
            assert (line.value, line.cursor_position) == (value, len(value)), text
            await pilot.press("escape")
        line = await asked(app, pilot, taken)
        await pilot.press(*typed("~/"), sees="mine.onnx")
        await pilot.press(*typed("mine.onnx"), "enter", until=lambda: taken[-1] is not None)
    assert taken[-1] == str(Path(folder).parent / "home" / "mine.onnx")


async def test_within_the_line_only_what_is_before_the_cursor_goes(folder: str) -> None:
    async with workbench(kept=True) as (app, pilot):
        line = await asked(app, pilot, [])
        line.value, line.cursor_position = "/one/two/three", len("/one/")
        await pilot.press(*typed("/"))
        assert (line.value, line.cursor_position) == ("/two/three", 1)
        line.cursor_position = 0
        await pilot.press(*typed("~"))
        assert line.value == "~/two/three"


async def test_backspace_brings_the_folder_back(folder: str) -> None:
    async with workbench(kept=True) as (app, pilot):
        line = await asked(app, pilot, [])
        for key in "/~":
            await pilot.press(*typed(key), "backspace")
            assert (line.value, line.cursor_position) == (folder, len(folder))
        await pilot.press("backspace")
        assert line.value == folder[:-1]
        # Once something was typed behind it, Backspace takes letters away, down to an empty line.
        await pilot.press(*typed("//d"), "backspace")
        assert line.value == "/"
        line.value = "/"
        await pilot.press(*typed("/"), "backspace")
        assert line.value == ""


@pytest.mark.long
async def test_a_pasted_absolute_path_replaces_the_text(folder: str) -> None:
    model = str(Path(folder).parent / "my model.onnx")
    taken: list[str | None] = []
    async with workbench(kept=True) as (app, pilot):
        for pasted, value in (
            (model, model),
            (f" '{model}' \n", model),  # as a terminal pastes a file that is dropped on it
            (f'"{model}"', model),
            ("~/mine.onnx", "~/mine.onnx"),
            ("sub/near.onnx", f"{folder}sub/near.onnx"),
            ("~nobody-of-this-name/x", f"{folder}~nobody-of-this-name/x"),
            ("'", f"{folder}'"),
        ):
            line = await asked(app, pilot, taken)
            await paste(pilot, line, pasted)
            assert (line.value, line.cursor_position) == (value, len(value)), pasted
            await pilot.press("escape")
        line = await asked(app, pilot, taken)
        await pilot.press(*typed("sub/ne"))
        app.copy_to_clipboard(model)
        await pilot.press("ctrl+v", "enter", until=lambda: taken[-1] is not None)
    assert taken[-1] == model


async def test_a_home_of_nobody_is_no_crash(folder: str) -> None:
    async with workbench(kept=True) as (app, pilot):
        await asked(app, pilot, [])
        await pilot.press(*typed("~nobody-of-this-name/m.onnx"))
        await pilot.press("enter", sees="There is no folder ~nobody")


async def test_a_proposal_is_replaced_by_typing_and_a_burst_opens_its_path(folder: str) -> None:
    taken: list[str | None] = []
    async with workbench(kept=True) as (app, pilot):
        app.push_screen(PathPicker("Write", f"{folder}proposed.rknn", new=True), taken.append)
        await until(pilot, lambda: isinstance(app.screen, PathPicker), "it asks")
        line = app.screen.query_one(Input)
        await pilot.press(*typed("x.rknn"))
        assert line.value == "x.rknn"
        await pilot.press("enter", until=lambda: taken == [f"{folder}x.rknn"])
        line = await asked(app, pilot, taken)
        await pilot.press("ctrl+u")
        line.value = str(Path(folder).parent / "home")  # all at once: the list is not yet of it
        line.post_message(Input.Submitted(line, line.value))
        await pilot.sees("mine.onnx")
        assert line.value == f"{Path(folder).parent}/home/"
        await pilot.press("enter", until=lambda: len(taken) == 2)
    assert taken[-1] == str(Path(folder).parent / "home" / "mine.onnx")


async def test_a_file_that_cannot_be_taken_says_why_and_a_folder_is_the_first_row(
    folder: str,
) -> None:
    taken: list[str | None] = []
    (Path(folder) / "a.png").touch()
    (Path(folder) / "list.txt").touch()
    async with workbench(kept=True) as (app, pilot):
        picker = PathPicker("A dataset", folders=True, suffixes=(".txt",))
        app.push_screen(picker, taken.append)
        await pilot.sees("a.png  not .txt")
        assert [name for name, _ in picker._entries] == [".", "sub", "list.txt", "a.png"]
        await pilot.press("down", "down", "down", "enter", sees="whole path to take it anyway")
        await pilot.press("up", "up", "up", "enter", until=lambda: taken == [folder.rstrip("/")])
