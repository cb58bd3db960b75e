"""Task (d): a broken model, dataset and recipe each give one clear error where the user is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknntui.screens.dialogs.dialogs import ErrorDialog
from rknntui.screens.recipe.workspace import Recipe
from tests.tui.conftest import until, unwrapped, workbench, write_recipe
from tests.tui.flow import opened

SIZE = (80, 24)
pytestmark = pytest.mark.usefixtures("warm")

RECIPES = {
    "no version": (
        "model: digits.onnx\nmean_values: [[127.5]]\n",
        ("line 1: The line 'version: 1' is missing", "line 2: mean_values belongs under"),
    ),
    "no model": (
        "version: 1\npreprocess: {mean_values: [[127.5]]}\n",
        ("is a recipe that names no model", "Write `source: {model: FILE}` in it"),
    ),
    "a slip": (
        "version: 1\nsource: {model: digits.onnx}\npreproces: {mean_values: [[127.5]]}\n",
        ("line 3: There is no section preproces", "Did you mean 'preprocess'?"),
    ),
    "no YAML": ("version: 1\nsource: {model: digits.onnx\n", ("line 3: It is not valid YAML",)),
    "a tab": (
        "version: 1\nsource:\n\tmodel: digits.onnx\n",
        ("line 3: It is not valid YAML: a tab cannot indent a line; use spaces",),
    ),
    "none at all": ("lr: 0.1\nepochs: 3\n", ("If it is meant as a recipe", "`version: 1`")),
}


@pytest.mark.parametrize("case", RECIPES)
async def test_a_broken_recipe_says_the_line_and_what_is_missing(
    case: str, tmp_path: Path, demo: Path
) -> None:
    text, parts = RECIPES[case]
    (tmp_path / "broken.yaml").write_text(text, encoding="utf-8")
    async with workbench(demo / "digits_demo.onnx") as (app, pilot):
        await until(pilot, lambda: app.session.model is not None, "a model is open")
        app.open_path(str(tmp_path / "broken.yaml"))
        await until(pilot, lambda: isinstance(app.screen, ErrorDialog), "one error")
        await pilot.sees(*parts)
        assert "go to" not in unwrapped(app), "the open recipe cannot mend another file"
        await pilot.press("escape", until=lambda: len(app.screen_stack) == 1)
        assert app.session.recipe["model"] == str(demo / "digits_demo.onnx"), "nothing is lost"


async def test_a_broken_model_says_what_it_is_and_what_to_do(tmp_path: Path, demo: Path) -> None:
    cut = tmp_path / "cut.onnx"
    cut.write_bytes((demo / "digits_demo.onnx").read_bytes()[:400])
    async with workbench(cut) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, ErrorDialog), "one error")
        await pilot.sees(
            "damaged ONNX model of 400 bytes", "Likely cause", "Fix", "export it again"
        )
        await pilot.press("escape", until=lambda: len(app.screen_stack) == 1)
        assert app.current == "overview"
        await pilot.press("o", sees="Open a model")


async def test_a_broken_dataset_is_a_problem_of_its_option_and_n_leads_to_the_line(
    tmp_path: Path, demo: Path
) -> None:
    recipe = write_recipe(tmp_path, demo, 3)
    with (tmp_path / "dataset.txt").open("a", encoding="utf-8") as stream:
        stream.write("gone.png\n")
    async with opened(recipe, Recipe) as (app, pilot, workspace):
        await until(pilot, lambda: "dataset" in app.session.all_problems, "it is told")
        assert app.session.all_problems["dataset"].startswith("A sample cannot be read; line 4: ")
        await pilot.press("n", sees="line 4: ")
        await pilot.press("n")
        assert workspace.view == "Data"
        assert workspace.samples.table.record.line == 4
        await pilot.sees("dataset line 4")
        await pilot.press("N")
        assert workspace.view == "Options"


async def test_a_dataset_that_is_gone_leads_to_the_choice_of_another(
    tmp_path: Path, demo: Path
) -> None:
    recipe = write_recipe(tmp_path, demo, 3)
    (tmp_path / "dataset.txt").unlink()
    async with opened(recipe, Recipe) as (app, pilot, _):
        await until(pilot, lambda: "dataset" in app.session.all_problems, "it is told")
        await pilot.press("n", sees="does not exist")
        await pilot.press("enter", sees="Choose a dataset.txt or a folder")
