"""The samples of Recipe, by keys alone at 80x24."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rknntui.screens.recipe.workspace import Recipe
from rknntui.widgets.thumbnail import Thumbnail
from tests.tui.conftest import screen_text, until, write_recipe
from tests.tui.flow import choose_path, grey_keys, opened, pictures, typed

pytestmark = pytest.mark.usefixtures("warm")


async def test_an_empty_workspace_says_which_keys_fill_it(demo: Path) -> None:
    async with opened(demo / "digits_demo.onnx", Recipe) as (_, pilot, _):
        await pilot.press("v")
        await pilot.sees("e chooses a folder of images", "L writes a dataset.txt")


async def test_a_sample_as_the_network_sees_it_beside_what_mean_and_std_promise(
    demo: Path, tmp_path: Path, digits: Path
) -> None:
    async with opened(digits, Recipe) as (app, pilot, workspace):
        await pilot.press("v", sees="12 samples")
        await until(pilot, lambda: bool(workspace.query_one(Thumbnail).rows), "a picture")
        await pilot.sees("✓ -1..1")
        first = workspace.query_one(Thumbnail).rows
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: workspace.query_one(Thumbnail).rows != first, "the next one")
        assert "001.png → image 1x1x8x8" in screen_text(app)
        await pilot.press("y")
        assert app.clipboard == str(demo / "calibration" / "001.png")
        await pilot.press("Y")
        assert app.clipboard == (
            f"rknntui dataset check {tmp_path / 'dataset.txt'} --model {demo / 'digits_demo.onnx'}"
        )


async def test_a_picture_follows_a_change_of_the_theme(digits: Path) -> None:
    async with opened(digits, Recipe) as (app, pilot, workspace):
        await pilot.press("v")
        picture = workspace.query_one(Thumbnail)
        await pilot.sees("▀▀")
        rows = picture.rows
        app.theming.use("ansi")
        await until(pilot, lambda: "▀▀" not in screen_text(app), "the picture in characters")
        app.theming.use("dark")
        await pilot.sees("▀▀")
        assert picture.rows == rows


@pytest.mark.parametrize("colours", ["ansi", "none"])
async def test_a_terminal_without_colours_of_its_own_gets_characters(
    colours: str, monkeypatch: pytest.MonkeyPatch, digits: Path
) -> None:
    if colours == "none":
        monkeypatch.setenv("NO_COLOR", "1")
    async with opened(digits, Recipe) as (app, pilot, workspace):
        if colours == "ansi":
            app.theming.use("ansi")
        await pilot.press("v")
        picture = workspace.query_one(Thumbnail)
        await until(pilot, lambda: bool(picture.rows), "a picture")
        await pilot.pause()
        assert "▀" not in screen_text(app)
        assert "@@" in screen_text(app) or "##" in screen_text(app) or "%%" in screen_text(app)


async def test_problems_name_line_and_file_and_are_reached_by_a_key(
    demo: Path, tmp_path: Path
) -> None:
    recipe = write_recipe(tmp_path, demo, 3)
    np.save(tmp_path / "wrong.npy", np.zeros((2, 3), np.float32))
    with (tmp_path / "dataset.txt").open("a", encoding="utf-8") as stream:
        stream.write("gone.png\nwrong.npy\n")
    async with opened(recipe, Recipe) as (_, pilot, workspace):
        await pilot.press("v", sees="✗ 2 problems")
        await pilot.press("n")
        record = workspace.samples.table.record
        assert record.line == 4
        assert "gone.png" in record.problem
        await pilot.sees("gone.png does not exist.")
        await pilot.press("n")
        record = workspace.samples.table.record
        assert "wrong.npy" in record.name


async def test_a_remedy_that_can_be_applied_is_not_a_grey_key(digits: Path) -> None:
    digits.write_text(digits.read_text(encoding="utf-8").replace("127.5", "0.5"), encoding="utf-8")
    async with opened(digits, Recipe, size=(120, 40)) as (app, pilot, workspace):
        await pilot.press("v", until=lambda: not workspace.disabled_reason("apply_remedy"))
        await until(pilot, lambda: "Apply fix" not in grey_keys(app), "its key works")
        assert "Apply fix" in screen_text(app).splitlines()[-1]


@pytest.mark.long
async def test_the_table_sorts_filters_and_is_written_to_a_file(
    tmp_path: Path, digits: Path
) -> None:
    async with opened(digits, Recipe) as (app, pilot, workspace):
        await pilot.press("v", sees="12 samples")
        await pilot.press("slash")
        await pilot.press(*"00", until=lambda: workspace.samples.table.row_count == 10)
        assert "10 of 12" in screen_text(app)
        await pilot.press("enter", "s", "S")
        numbers = [record.number for record in workspace.samples.table.records]
        assert numbers == sorted(numbers, reverse=True)
        await pilot.press("E")
        await choose_path(pilot, tmp_path / "samples.csv")
        await until(pilot, (tmp_path / "samples.csv").is_file, "a file")
        lines = (tmp_path / "samples.csv").read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith("number,line,name,state")
        assert len(lines) == 11


async def test_a_folder_is_used_as_it_is_or_written_as_a_list(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = pictures(tmp_path / "photos", 4)
    async with opened(demo / "digits_demo.onnx", Recipe) as (app, pilot, _):
        await pilot.press("v", "e")
        await choose_path(pilot, folder, "ctrl+s")
        await pilot.sees("4 samples")
        assert app.session.recipe["dataset"] == str(folder)
        await pilot.press("L", "down", *typed(str(tmp_path / "list.txt")), "enter")
        await until(pilot, lambda: app.session.recipe["dataset"].endswith("list.txt"), "a list")
        assert len((tmp_path / "list.txt").read_text(encoding="utf-8").splitlines()) == 4
