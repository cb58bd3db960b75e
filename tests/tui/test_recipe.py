"""Workspace Recipe, by keys alone at 80x24."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine import OPTIONS, option
from engine.facts import chips
from rknntui.screens.dialogs.lists import ChoiceDialog
from rknntui.screens.recipe.form import FormRows, OptionForm
from rknntui.screens.recipe.words import help_lines
from rknntui.screens.recipe.workspace import Recipe
from rknntui.widgets.line_list import TextRows
from rknntui.workspaces import keys_of
from tests.tui.conftest import screen_text, until, workbench
from tests.tui.flow import choose_path, opened, typed

pytestmark = pytest.mark.usefixtures("warm")


async def test_every_option_has_a_line_with_its_default_and_its_help(demo: Path) -> None:
    async with opened(demo / "digits_demo.onnx", Recipe) as (app, pilot, workspace):
        rows = workspace.query_one(FormRows)
        known = [o for o in OPTIONS if not o.frameworks or "onnx" in o.frameworks]
        listed = [row for row in rows.rows if not isinstance(row, str)]
        assert sorted(listed, key=known.index) == known
        assert [row.name for row in listed[:4]] == ["model", "dataset", "mean_values", "std_values"]
        seen: set[str] = set()
        for _ in known:
            option = rows.option
            seen.add(option.name)
            await pilot.press("down")
            assert rows.option is not None
            await pilot.pause()
            help_text = workspace.query_one("#option-help").text().replace("\n", " ")
            assert rows.option.help.split(".")[0] in help_text
            assert "rknntui extension" in help_text or not rows.option.extension
        assert seen == {o.name for o in known}
        assert "dataset_seed ext" in screen_text(app)


async def test_a_value_is_checked_as_it_is_typed_by_the_option_and_by_the_model(demo) -> None:
    async with opened(demo / "digits_demo.onnx", Recipe) as (app, pilot, workspace):
        workspace.focus_option("mean_values")
        await pilot.press("e", *typed("1,x"), sees="it must be numbers")
        await pilot.press("enter")
        assert workspace.query_one(OptionForm).editing, "a text that is no value is not taken"
        await pilot.press("backspace", "2", sees="which has 1 channels")
        await pilot.press("escape")
        assert "mean_values" not in app.session.recipe
        assert "mean_values" not in app.session.all_problems
        tab = app.screen.active_bindings["tab"]
        assert tab.node is not workspace.form, "Tab goes to the next pane, as everywhere"

        await pilot.press("e", *typed("127.5"), "enter")
        assert app.session.recipe["mean_values"] == [[127.5]]
        await pilot.sees("changed")
        await pilot.press("u")
        assert "mean_values" not in app.session.recipe


async def test_choices_turn_numbers_count_and_delete_gives_the_default(demo: Path) -> None:
    async with opened(demo / "digits_demo.onnx", Recipe) as (app, pilot, workspace):
        workspace.focus_option("resize_fit")
        await pilot.press("right")
        assert app.session.recipe["resize_fit"] == "crop"
        await pilot.press("left")
        assert "resize_fit" not in app.session.recipe
        workspace.focus_option("do_quantization")
        await pilot.press("space")
        assert app.session.recipe["do_quantization"] is False
        workspace.focus_option("optimization_level")
        await pilot.press("left", "left", "right", "right", "right")
        assert "optimization_level" not in app.session.recipe, "3 is the default and the largest"
        await pilot.press("left")
        assert app.session.recipe["optimization_level"] == 2
        await pilot.press("delete")
        assert "optimization_level" not in app.session.recipe


async def test_without_a_model_a_turn_says_which_key_opens_one() -> None:
    async with workbench(size=(120, 40)) as (app, pilot):
        await pilot.press(keys_of("recipe")[0], until=lambda: isinstance(app.workspace, Recipe))
        app.workspace.focus_option("resize_fit")
        await pilot.press("right", sees="no model is open (o opens one)")


async def test_enter_lists_every_value_with_a_line_on_each(demo: Path) -> None:
    async with opened(demo / "digits_demo.onnx", Recipe) as (app, pilot, workspace):
        workspace.focus_option("target_platform")
        await pilot.press("enter", until=lambda: isinstance(app.screen, ChoiceDialog))
        rows = app.screen.query_one(TextRows)
        assert [line[0][0].split()[0] for line in rows.lines] == [
            "none",
            *(c.name for c in chips()),
        ]
        await pilot.press(*"rk357")
        assert [line[0][0].split()[0] for line in rows.lines] == ["rk3576"]
        await pilot.sees("2 NPU cores: w8a8, w4a16")
        await pilot.press("enter")
        assert app.session.recipe["target_platform"] == "rk3576"
        workspace.focus_option("quantized_dtype")
        await pilot.press("enter", until=lambda: isinstance(app.screen, ChoiceDialog))
        rows = app.screen.query_one(TextRows)
        signs = {line[0][0].split()[0]: "✗ not on rk3576" in line[1][0] for line in rows.lines}
        assert list(signs) == list(option("quantized_dtype").choices)
        assert {dtype for dtype, refused in signs.items() if not refused} == {"w8a8", "w4a16"}
        await pilot.press("home", sees="rk3568 rk3576 rk3588.")
        await pilot.press("escape")
        assert "quantized_dtype" not in app.session.recipe
        workspace.focus_option("target_platform")
        await pilot.press("enter", until=lambda: isinstance(app.screen, ChoiceDialog))
        await pilot.press("home", "enter")
        assert "target_platform" not in app.session.recipe


@pytest.mark.parametrize("name", ["target_platform", "quantized_dtype"])
async def test_the_help_names_every_value(name: str) -> None:
    told = option(name)
    lines = help_lines(told, "", 0, 40, {})
    text = "".join("".join(part for line in lines for part, _ in line).split())
    assert all(choice in text for choice in told.choices)


async def test_the_help_tells_a_default_once() -> None:
    for one in OPTIONS:
        told = "\n".join("".join(t for t, _ in line) for line in help_lines(one, "", 0, 900, {}))
        assert len(re.findall(r"\b[Dd]efault: \S", told)) == 1, told


async def test_problems_are_counted_on_the_tab_and_reached_by_a_key(demo: Path) -> None:
    async with opened(demo / "digits_demo.onnx", Recipe) as (app, pilot, workspace):
        await until(pilot, lambda: "dataset" in app.session.all_problems, "a problem")
        await until(pilot, lambda: re.search(r"Rec\w* ?[–!✗]", screen_text(app)), "in the tab")
        await pilot.press("n")
        assert workspace.form.rows.option.name == "dataset"
        await pilot.sees("No calibration dataset is set")


async def test_a_changed_option_is_checked_again_before_it_has_a_problem(demo: Path) -> None:
    async with opened(demo / "digits_demo.onnx", Recipe) as (app, pilot, workspace):
        session = app.session
        await until(pilot, lambda: "dataset" in session.all_problems, "there is none")
        session.set_value("dataset", str(demo / "dataset.txt"))
        assert "dataset" not in session.all_problems, "that was of the one before"
        names = [row if isinstance(row, str) else row.name for row in workspace.form.rows.rows]
        line = workspace.form.rows.row_line(names.index("dataset"), 78)
        assert [text.strip() for text, _ in line][-1] == "checking"
        session.undo()
        assert "dataset" in session.all_problems, "what was checked holds"
        session.redo()
        await until(pilot, lambda: not session.checking, "an answer")
        assert "dataset" not in session.all_problems


async def test_saved_changed_compared_and_never_replaced_without_a_yes(digits: Path) -> None:
    async with opened(digits, Recipe) as (app, pilot, workspace):
        assert app.session.recipe["mean_values"] == [[127.5]]
        assert not app.session.dirty
        workspace.focus_option("std_values")
        await pilot.press("e", *"64", "enter", "V", sees=("- 127.5", "+ 64"))
        await pilot.press("escape")

        before = digits.read_bytes()
        await pilot.press("w")
        await choose_path(pilot, digits)
        await until(pilot, lambda: type(app.screen).__name__ == "ConfirmDialog", "a question")
        await pilot.press("n", rests=True)
        assert digits.read_bytes() == before
        await pilot.press("w")
        await choose_path(pilot, digits)
        await until(pilot, lambda: type(app.screen).__name__ == "ConfirmDialog", "a question")
        await pilot.press("y", until=lambda: not app.session.dirty)
        assert "64" in digits.read_text(encoding="utf-8")


async def test_copies_its_yaml_and_its_command_line(
    demo: Path, tmp_path: Path, digits: Path
) -> None:
    async with opened(digits, Recipe) as (app, pilot, _):
        await until(pilot, lambda: bool(app.session.yaml), "the checked recipe")
        await pilot.press("ctrl+y")
        assert "mean_values" in app.clipboard
        await pilot.press("Y")
        assert app.clipboard == f"rknntui build {tmp_path / 'demo.yaml'}"
        app.session.set_value("quantized_method", "layer")
        await pilot.press("Y")
        assert "--quantized-method layer" in app.clipboard
        assert f"--dataset {tmp_path / 'dataset.txt'}" in app.clipboard


async def test_a_search_finds_options_by_help_and_alias_and_esc_shows_all(demo: Path) -> None:
    async with opened(demo / "digits_demo.onnx", Recipe) as (_, pilot, workspace):
        rows = workspace.form.rows
        every = len(rows.rows)
        for words, name in (("subtracted", "mean_values"), ("rk3588s", "target_platform")):
            await pilot.press("slash", *typed(words), until=lambda: len(rows.rows) < every)
            found = [row.name for row in rows.rows if not isinstance(row, str)]
            assert name in found
            await pilot.press("enter")
            assert len(rows.rows) < every, "Enter keeps them"
            await pilot.press("escape")
            assert len(rows.rows) == every
        await pilot.press("slash", *"xyzzy", sees="No option has “xyzzy”")
        await pilot.press("escape")
        assert len(rows.rows) == every


async def test_one_choice_sets_mean_and_std_and_one_undo_takes_both_back(demo: Path) -> None:
    async with opened(demo / "digits_demo.onnx", Recipe) as (app, pilot, workspace):
        workspace.focus_option("std_values")
        await pilot.press("enter", until=lambda: isinstance(app.screen, ChoiceDialog))
        assert "ImageNet" not in screen_text(app), "the demo has one channel"
        await pilot.press(*typed("127.5"), "enter")
        assert app.session.recipe["mean_values"] == app.session.recipe["std_values"] == [[127.5]]
        await pilot.press("u")
        assert not {"mean_values", "std_values"} & app.session.recipe.keys()
        await pilot.press("enter", until=lambda: isinstance(app.screen, ChoiceDialog))
        await pilot.press(*"other", "enter", until=lambda: workspace.form.editing)
        await pilot.press("escape")


async def test_the_other_generations_options_are_left_out_once_a_chip_is_targeted(
    demo: Path,
) -> None:
    async with opened(demo / "digits_demo.onnx", Recipe, size=(120, 40)) as (app, pilot, workspace):
        names = lambda: [r.name for r in workspace.form.rows.rows if not isinstance(r, str)]  # noqa: E731
        assert {"channel_mean_value", "compress_weight"} <= set(names())
        app.session.set_value("target_platform", "rk3588")
        await until(pilot, lambda: "channel_mean_value" not in names(), "of generation 1")
        app.session.set_value("target_platform", "rk1808")
        await until(pilot, lambda: "channel_mean_value" in names(), "of generation 1")
        assert "compress_weight" not in names()
        workspace.focus_option("compress_weight")
        assert workspace.form.rows.option.name == "compress_weight", "a link shows it all the same"


async def test_detail_takes_the_place_of_the_form_and_esc_gives_it_back(demo: Path) -> None:
    async with opened(demo / "digits_demo.onnx", Recipe) as (_, pilot, workspace):
        workspace.focus_option("target_platform")
        await pilot.press("d", sees="rk2118  1 NPU core")
        assert not workspace.form.display or not workspace.form.region.area
        await pilot.press("escape", until=lambda: workspace.form.region.area)
