"""Unsaved work survives another file, another run and F5; keys alone."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.widgets import Input

from rknntui.app import Workbench
from rknntui.session.kept import KEPT, Draft, Drafts
from rknntui.widgets.header_footer import TopBar
from rknntui.workspaces import keys_of
from tests.tui.conftest import Driver, driven, residual_model, settle, until, workbench

SIZE = (100, 30)

_OTHER = json.dumps({"version": 1, "path": "/models/54.onnx", "recipe": {"model": "/another"}})
"""A draft whose recipe is of another model than it says."""

pytestmark = pytest.mark.usefixtures("warm")


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    return residual_model(2, tmp_path / "first.onnx"), residual_model(3, tmp_path / "second.onnx")


@asynccontextmanager
async def _changed(model: Path) -> AsyncIterator[tuple[Workbench, Driver, dict[str, object]]]:
    """A workbench with two changes of a model's recipe, as screens make them, and that recipe."""
    async with workbench(model, size=SIZE, kept=True) as (app, pilot):
        await _opened(pilot, model)
        app.session.set_value("mean_values", [[127.0] * 4])
        app.session.set_values({"quantized_layers": {"/stage0/block0/add_out": "float16"}})
        await settle(pilot)
        yield app, pilot, dict(app.session.recipe)


async def _open(pilot: Driver, path: Path) -> None:
    """Press o and type a path."""
    app = pilot.app
    await pilot.press("o")
    app.screen.query_one(Input).value = str(path)
    await pilot.press("enter", until=lambda: app.session.path == str(path))
    await settle(pilot)


def _told(app: Workbench) -> list[str]:
    """The notices on the screen, not wrapped."""
    bar = app.screen.query_one(TopBar)
    return [notice.message for notice in app._notifications] + [text for text, _ in bar._notices]


async def _opened(pilot: Driver, path: Path) -> Workbench:
    app = pilot.app
    await until(pilot, lambda: app.session.path == str(path), f"{path.name} is open")
    await settle(pilot)
    return app


async def test_opening_another_model_keeps_the_unsaved_recipe(models: tuple[Path, Path]) -> None:
    first, second = models
    async with _changed(first) as (app, pilot, changed):
        await _open(pilot, second)
        assert app.session.recipe == {"model": str(second)}
        assert any("first.onnx are kept" in told for told in _told(app))
        await _open(pilot, first)
        assert app.session.recipe == changed
        assert app.session.dirty
        assert any("changes of 2 options are restored" in told for told in _told(app))
        await pilot.press("u")
        assert "quantized_layers" not in app.session.recipe
        await pilot.press("u")
        assert app.session.recipe == {"model": str(first)}
        await pilot.press("ctrl+r", "ctrl+r")
        assert app.session.recipe == changed


async def test_undo_goes_back_to_the_model_that_was_left(models: tuple[Path, Path]) -> None:
    first, second = models
    async with _changed(first) as (app, pilot, changed):
        await _open(pilot, second)
        await pilot.press("u")
        await _opened(pilot, first)
        assert app.session.recipe == changed


async def test_a_later_run_brings_the_unsaved_recipe_back(models: tuple[Path, Path]) -> None:
    first, second = models
    async with _changed(first) as (app, pilot, changed):
        await pilot.press("q")
    app = Workbench(str(second))  # which overwrites what the last run had open
    async with driven(app, SIZE) as pilot:
        await _opened(pilot, second)
        await pilot.press("q")
    async with workbench(first, size=SIZE, kept=True) as (app, pilot):
        await _opened(pilot, first)
        assert app.session.recipe == changed
        await pilot.press("u", "u")
        assert app.session.recipe == {"model": str(first)}


async def test_a_restart_shows_the_same_and_keeps_the_steps_of_undo(
    models: tuple[Path, Path],
) -> None:
    first, _ = models
    async with _changed(first) as (app, pilot, _):
        await pilot.press(keys_of("builds")[0], "q")
    async with workbench(size=SIZE, kept=True) as (app, pilot):
        await _opened(pilot, first)
        assert (app.current, app.session.dirty) == ("builds", True)
        await pilot.press("u")
        assert app.session.recipe == {"model": str(first), "mean_values": [[127.0] * 4]}


@pytest.mark.long
async def test_a_recipe_file_has_its_own_draft(models: tuple[Path, Path], tmp_path: Path) -> None:
    _, second = models
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "version: 1\nsource: {model: first.onnx}\n"
        "preprocess: {std_values: [[128, 128, 128, 128]]}\n"
    )
    async with workbench(recipe, size=SIZE, kept=True) as (app, pilot):
        await _opened(pilot, recipe)
        in_file = dict(app.session.recipe)
        # of the source options, so that the graph that is shown depends on it too
        app.session.set_value("outputs", ["/stage0/block0/add_out"])
        await settle(pilot)
        await _open(pilot, second)
        assert "outputs" not in app.session.recipe
        await _open(pilot, recipe)
        assert app.session.recipe == {**in_file, "outputs": ["/stage0/block0/add_out"]}
        assert app.session.history.saved == in_file
        assert app.session.recipe_path == str(recipe)
        shown = app.session.model
        assert [output.name for output in shown.outputs] == ["/stage0/block0/add_out"]
        # opening the very file that is open reads it again; that is a step of undo too
        await _open(pilot, recipe)
        assert app.session.recipe == in_file
        await pilot.press("u")
        assert app.session.recipe == {**in_file, "outputs": ["/stage0/block0/add_out"]}


@pytest.mark.long
async def test_what_was_saved_leaves_no_draft(models: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = models
    async with _changed(first) as (app, pilot, _):
        await _open(pilot, second)
        await _open(pilot, first)
        app.session.recipe_saved(str(tmp_path / "saved.yaml"))
        await _open(pilot, second)
        await _open(pilot, first)
        assert app.session.recipe == {"model": str(first)}


async def test_a_draft_with_an_option_that_does_not_fit_can_still_be_opened(
    models: tuple[Path, Path],
) -> None:
    first, second = models
    async with workbench(first, size=SIZE, kept=True) as (app, pilot):
        await _opened(pilot, first)
        app.session.set_value("input_size_list", [[1, 2, 3, 4, 5, 6]])
        await settle(pilot)
        await _open(pilot, second)
        app.open_path(str(first))
        await until(pilot, lambda: app.session.path == str(first), "it is open all the same")
        assert app.session.recipe["input_size_list"] == [[1, 2, 3, 4, 5, 6]]


async def test_drafts_on_disk_are_private_few_and_checked(tmp_path: Path) -> None:
    folder = tmp_path / "drafts"
    drafts = Drafts(folder)
    for number in range(KEPT + 5):
        path = f"/models/{number}.onnx"
        drafts.keep(Draft(path, {"model": path, "dataset_count": number}, {"model": path}))
    files = list(folder.iterdir())
    assert len(files) == KEPT
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    path = f"/models/{KEPT + 4}.onnx"
    found = Drafts(folder).of(path)
    assert found.recipe["dataset_count"] == KEPT + 4
    for file in files:
        file.write_text(_OTHER)
    assert Drafts(folder).of(path) is None


async def test_two_workbenches_on_one_recipe_notice_each_other(tmp_path: Path) -> None:
    folder, path = tmp_path / "drafts", str(tmp_path / "net.onnx")

    def changed(option: str) -> Draft:
        return Draft(path, {"model": path, option: 3}, {"model": path})

    first, second = Drafts(folder), Drafts(folder)
    assert first.claim(path) == ""
    assert f"process {os.getpid()} on " in second.claim(path)
    assert second.claim(path) == "", "it is told once"
    first.keep(changed("batch_size"))
    second.keep(changed("dataset_count"))
    assert second.claim(None) == "", "another file is open"
    third = Drafts(folder)
    assert third.of(path).recipe == changed("batch_size").recipe
    first.forget(path)
    assert first.claim(None) == ""
    last = Drafts(folder)
    assert last.claim(path) == "", "the first has left it"
    assert last.of(path).recipe == changed("dataset_count").recipe, "the other's draft is kept"
    holder, both = Drafts(folder), Drafts(folder)
    holder.claim("/another")
    assert both.claim(path)
    assert both.claim("/another"), "of each file, also where the same process has both"
    (folder / "not a folder").write_text("x")
    assert Drafts(folder / "not a folder").claim(path) == "", "nobody can be told"
