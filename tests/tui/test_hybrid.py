"""Workspace Hybrid: the plan as data, the live effect, and the whole flow by keys at 80x24."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine.wire.accuracy import RoundedOutput
from engine.wire.build_tables import SEARCH_POINTS
from engine.wire.codec import encode
from engine.wire.hybrid import (
    CurvePoint,
    Effect,
    EffectOutput,
    LayerRow,
    OutputFigure,
    RequestCheck,
    SearchParams,
)
from rknntui.app import Workbench
from rknntui.keys.commandline import job_command, job_flags
from rknntui.screens.layers.panes import (
    LiveEffect,
    by_layer,
    changes_of,
    parse_range,
    toggled,
    with_dtype,
    with_integers,
)
from rknntui.screens.layers.search import FIRST, _gained, checked_search
from rknntui.screens.layers.words import edit_values, facts, output_lines
from rknntui.screens.layers.workspace import Hybrid
from rknntui.session.job_view_model import JobView
from rknntui.session.messages import JobEnded
from rknntui.widgets.charts import CurveChart, Series
from rknntui.widgets.one_line import fit_facts
from tests.tui.conftest import residual_model, screen_text, until
from tests.tui.flow import grey_keys, press_text, read_form, shown, write_recipe

SIZE = (80, 24)


def row(layer: str, *choices: str) -> LayerRow:
    return LayerRow(
        tensor=f"{layer}_out",
        id=layer,
        node=layer,
        op="Conv",
        sources=(f"{layer}_of_the_model",),
        aliases=(layer, f"{layer}_out", f"{layer}_relu", f"{layer}_of_the_model"),
        dtype=choices[0],
        choices=choices,
        minimum=-1.0,
        maximum=2.0,
        observed_minimum=-1.0,
        observed_maximum=2.0,
        sqnr_db=30.0,
        samples=4,
        kind="weighted",
    )


A = row("a", "int8", "int16", "float16")
B = row("b", "int8", "int16")
FLOAT = row("f", "float32", "float16")


def test_a_toggle_lifts_what_can_be_lifted_and_takes_it_back() -> None:
    lifted = toggled({}, [A, B, FLOAT])
    assert lifted == {"a": "float16", "b": "int16"}, "what is float already is left alone"
    assert toggled({"a": "int16"}, [A, B]) == {"a": "int16", "b": "int16"}
    assert toggled({**lifted, "other": "float16"}, [A, B]) == {"other": "float16"}


def test_a_dtype_is_asked_for_only_where_the_layer_has_it_and_it_is_not_its_own() -> None:
    assert with_dtype({}, [A, B], "float16") == {"a": "float16"}
    assert with_dtype({"a": "float16", "b": "int16"}, [A, B], "int8") == {}


def test_changes_without_entries_leave_the_option_out() -> None:
    assert changes_of({}) == {"quantized_layers": None}
    assert changes_of({"a": "int16"}, {}) == {
        "quantized_layers": {"a": "int16"},
        "quantized_ranges": None,
    }


@pytest.mark.parametrize(
    ("text", "pair"), [("-1 2.5", [-1, 2.5]), ("0, 6", [0, 6]), ("  ", None), ("-3;1e2", [-3, 100])]
)
def test_a_range_is_read_as_it_is_typed(text: str, pair: list[float] | None) -> None:
    assert parse_range(text) == pair


@pytest.mark.parametrize("text", ["1", "2 1", "1 1", "a b", "1 2 3", "nan 1", "-inf 1"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="range"):
        parse_range(text)


def test_what_becomes_float_loses_its_range() -> None:
    asked = {"a": [0.0, 1.0], "b": [0.0, 2.0], "c": [0.0, 3.0]}
    assert with_integers({"a": "float16", "b": "int16"}, asked) == {
        "b": [0.0, 2.0],
        "c": [0.0, 3.0],
    }


def test_a_step_of_a_search_names_the_layer() -> None:
    outputs = {"o": 20.0}
    point = CurvePoint(1, "250", "Conv_25", "int16", {}, ("Conv_25",), outputs, outputs, 0.5, None)
    record = SEARCH_POINTS.record(point)
    assert (record["layer"], record["tensor"], record["promoted"]) == ("Conv_25", "250", 1)
    assert SEARCH_POINTS.record(replace(point, layer="", tensor=""))["layer"] == "baseline"


def test_a_recipe_may_name_a_layer_by_any_of_its_names() -> None:
    rows = [A, replace(B, aliases=(*B.aliases, "a_out"))]  # a tensor counts before other names
    for name in A.aliases:
        assert by_layer({name: "int16"}, rows) == {"a": "int16"}, name
    assert by_layer({"nobody": "int16", "b_relu": "int8"}, rows) == {"nobody": "int16", "b": "int8"}


def test_the_command_of_a_job_is_what_would_be_typed() -> None:
    recipe = {"model": "m.onnx", "do_quantization": False}
    begin = ["m.onnx", "--no-quantize"]

    def of(method: str, **params: object) -> list[str]:
        return job_command(method, {"recipe": recipe, **params})

    assert of("build") == ["rknntui", "build", *begin]
    assert of("guide") == ["rknntui", "accuracy", "--guide", *begin]
    assert of("evaluate", labels="l.txt") == ["rknntui", "evaluate", *begin, "--labels", "l.txt"]
    axes = {"quantized_algorithm": ["normal", "mmse"], "bias_correction": [True]}
    assert of("sweep", axes=axes)[-4:] == [
        "--axis", "quantized_algorithm=normal,mmse", "--axis", "bias_correction=yes",
    ]  # fmt: skip
    edits = {"layers": {"a": "int16"}, "ranges": {"b": [0, 6]}}
    assert of("hybrid.effect", **edits)[1:3] == ["hybrid", "effect"]
    assert of("hybrid.effect", **edits)[-4:] == ["--promote", "a=int16", "--range", "b=0,6"]
    assert job_command("build", {}) == []


def test_a_search_needs_numbers_and_something_to_stop_at() -> None:
    texts = {"floor_db": "25", "budget": "", "dtype": "", "demote": "y", "seconds": "1.5"}
    wish = read_form(FIRST, texts)
    assert wish == SearchParams(floor_db=25.0, demote=True, seconds=1.5)
    words = ["--floor", "25", "--demote", "--seconds", "1.5"]
    assert job_flags("layers.search", encode(wish)) == words
    for wrong in ({"budget": "two"}, {"budget": "0"}, {"demote": "perhaps"}, {"seconds": "-1"}):
        with pytest.raises(ValueError, match=r"\.$"):
            read_form(FIRST, {**texts, **wrong})
    with pytest.raises(ValueError, match="a floor or a budget"):
        checked_search(read_form(FIRST, {**texts, "floor_db": ""}))


def test_a_record_says_what_became_of_what_was_asked() -> None:
    def built(row: LayerRow, asked: str, before: str = "", got: str = "") -> str:
        return edit_values(
            row,
            marked=False,
            layers={"a": asked} if asked else {},
            ranges={},
            built={"a": before} if before else {},
            got={"a": got} if got else {},
            not_applied={},
        )["built"]

    lifted = replace(A, dtype="float16")
    assert built(A, "") == "  int8"
    assert built(lifted, "float16", "float16") == "✓ float16"
    assert built(A, "float16", "float16") == "✗ int8", "asked for, built, and not applied"
    assert built(A, "float16") == "· int8", "not built yet"
    assert built(A, "float16", got="float16") == "~ float16"
    assert built(A, "float16", got="int8") == "✗ int8"


def test_outputs_show_before_after_and_gain() -> None:
    outputs = [OutputFigure(f"out{n}", 20.0 + n) for n in range(6)]
    effect = {
        "out0": EffectOutput("out0", 22.5, 20.0),
        "out1": EffectOutput("out1", None, 21.0),
    }
    lines = ["".join(text for text, _ in line) for line in output_lines(outputs, effect, 76)]
    assert len(lines) == 4
    assert "20.00 dB → 22.50 dB  +2.50" in lines[0]
    assert "→ equal  +inf" in lines[1]
    assert lines[3].endswith("and 2 more outputs")


def test_a_curve_grows_from_the_left_and_keeps_its_last_steps_in_view() -> None:
    chart = CurveChart()
    chart.show([Series("boxes", (10.0, 11.0, 14.0))], 1)
    text = ["".join(t for t, _ in line) for line in chart._draw(40, 8)]
    assert text[0].strip() == "boxes"
    assert text[1].count("█") == 5, "only the highest bar reaches the top"
    assert text[-1].index("▲") == 1 + 6, "the mark stands under the second step"
    chart.show([Series("boxes", tuple(range(100)))], 99)
    text = ["".join(t for t, _ in line) for line in chart._draw(40, 8)]
    assert text[-1].endswith("▲")
    assert max(map(len, text)) <= 40


@pytest.mark.parametrize("state", ["", "simulated over 32 samples in 238 ms"])
def test_the_line_on_top_is_never_cut(state: str) -> None:
    edits = SimpleNamespace(
        layers={"a": "int16"}, rows=[1] * 112, ranges={"a": (0, 1)}, marked={"b"}
    )
    effect = SimpleNamespace(not_applied={"a": "why not"}, state=state)
    told = facts(edits, effect, "32 of 100 calibration samples", "1 of 100 calibration samples")
    for width, kept in ((78, 3), (118, 4), (198, 6)):
        line = fit_facts(told, width)
        assert not line.endswith("…")
        assert "1 of 112 layers changed" in line
        assert "✗ 1 not applied" in line
        assert len(line.split(" · ")) >= kept, "no fact goes that has room"


def test_a_step_without_noise_reaches_the_top_of_the_curve() -> None:
    chart = CurveChart()
    chart.show([Series("boxes", (20.0, 30.0, math.inf))])
    text = ["".join(t for t, _ in line) for line in chart._draw(40, 8)]
    columns = ["".join(line[1 + 6 * step] for line in text[1:7]) for step in range(3)]
    assert columns == ["     ▅", " ▄████", "██████"]
    assert (_gained(20.0, 32.0), _gained(20.0, math.inf)) == ("+12.00, ", "all, ")
    assert _gained(math.inf, 20.0) == "", "nothing is measured from no noise"


async def test_the_newest_edit_wins_and_drops_the_effect_that_runs() -> None:
    """A slow effect stands in for that of a large model."""
    dropped, asked, rounding = [], [], []

    class Bridge:
        async def submit(self, method, params, title, *, quiet):
            asked.append(params.layers)
            rounding.append(params.rounding)
            return JobView(f"job{len(asked)}", method, title, 0.0, quiet=quiet)

        def discard(self, job):
            dropped.append(job)

    loop = asyncio.get_running_loop()
    tasks = []

    def timer(seconds, call):
        return SimpleNamespace(stop=loop.call_later(0.01, call).cancel)

    workspace = SimpleNamespace(
        bridge=Bridge(),
        set_timer=timer,
        workbench=SimpleNamespace(do=lambda work: tasks.append(loop.create_task(work))),
    )
    effect = LiveEffect(workspace, lambda: None)
    base = {"model": "m.onnx"}
    effect.edited({**base, "quantized_layers": {"a": "float16"}}, base)
    effect.edited({**base, "quantized_layers": {"a": "int16"}}, base)
    await asyncio.sleep(0.05)
    assert asked == [{"a": "int16"}], "two edits in a row are one effect"
    effect.edited({**base, "quantized_layers": {"b": "int16"}}, base)
    await asyncio.sleep(0.05)
    assert dropped == ["job1"]
    effect.ended(JobEnded("job1", "hybrid.effect", "cancelled"))
    assert effect.state.startswith("▶")
    honoured = (RequestCheck("b", "dtype", "int16", "int8", ok=False, why="why not"),)
    answer = Effect((EffectOutput("o", 2.0, 1.0),), honoured, 0.25, 1, "one", "simulated")
    effect.ended(JobEnded("job2", "hybrid.effect", "done", answer))
    assert effect.state == "simulated over 1 sample in 250 ms"
    assert effect.outputs["o"].sqnr_db == 2.0
    assert (effect.got, effect.not_applied) == ({"b": "int8"}, {"b": "why not"})
    await asyncio.sleep(0.05)
    assert rounding == [False, False, True], "what takes longer comes behind"
    moved = [RoundedOutput("o", value, 1.0, None, 0.1, 0.5) for value in (23.0, 29.0)]
    both = replace(answer, outputs=(EffectOutput("o", 2.0, 1.0, moved[1], moved[0]),))
    effect.ended(JobEnded("job3", "hybrid.effect", "done", both))
    (line,) = output_lines((OutputFigure("o", 1.0),), effect.outputs, 80)
    assert "other roundings 23.0 → 29.0 dB" in "".join(text for text, _ in line)
    effect.edited(base, base)
    assert effect.state == ""
    effect.edited({**base, "quantized_layers": {"b": "int16"}}, base)
    assert effect.state == "simulated over 1 sample in 250 ms", (
        "an effect that is known is shown at once"
    )
    await asyncio.sleep(0.05)
    assert len(asked) == 3


async def in_hybrid(pilot) -> Hybrid:
    app = shown(pilot)
    await until(pilot, lambda: app.session.model is not None, "a model is open")
    await pilot.press("4", "b")
    await until(pilot, lambda: app.session.summary is not None, "a build")
    await pilot.press("6")
    await until(pilot, lambda: isinstance(app.workspace, Hybrid), "Hybrid")
    assert isinstance(app.workspace, Hybrid)
    await until(pilot, lambda: app.workspace.table.total > 0, "its layers")
    return app.workspace


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("warm")
async def test_keys_that_work_are_not_grey_once_the_layers_are_there(
    demo: Path, tmp_path: Path
) -> None:
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await in_hybrid(pilot)
        assert not workspace.disabled_reason("lift")
        await until(pilot, lambda: not grey_keys(app), "no key is grey")


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("warm")
async def test_a_toggle_shows_its_effect_and_is_taken_back_and_searched_for(
    demo: Path, tmp_path: Path
) -> None:
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await in_hybrid(pilot)
        worst = workspace.table.record
        assert worst["sqnr"] == min(r.sqnr_db for r in workspace.edits.rows if r.sqnr_db)
        await pilot.press("space")
        assert app.session.recipe["quantized_layers"] == {worst["id"]: "float16"}
        await until(pilot, lambda: "simulated over" in screen_text(app), "its effect")
        seen = workspace.effect.outputs["logits"]
        assert seen.sqnr_db > seen.before_db
        assert "~ float16" in screen_text(app)
        await pilot.press("u")
        assert "quantized_layers" not in app.session.recipe
        await pilot.press("ctrl+r")
        assert app.session.recipe["quantized_layers"] == {worst["id"]: "float16"}
        assert "simulated over" in screen_text(app)
        await pilot.press("Y")
        assert app.clipboard.startswith("rknntui hybrid table ")
        assert f"--quantized-layers {worst['id']}=float16" in app.clipboard.replace("'", "")


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("warm")
async def test_a_search_is_paused_and_ended_with_its_best(tmp_path: Path) -> None:
    # so many layers that the search lasts longer than the keys take on a busy machine
    model = residual_model(60, tmp_path / "long.onnx", weight_scale=0.05)
    sample = np.random.default_rng(0).random((1, 4, 8, 8), dtype=np.float32)
    np.save(tmp_path / "sample.npy", sample)
    (tmp_path / "dataset.txt").write_text("sample.npy\n", encoding="utf-8")
    recipe = tmp_path / "long.yaml"
    recipe.write_text(
        f"version: 1\nsource: {{model: {model}}}\ndataset: {{dataset: dataset.txt}}\n",
        encoding="utf-8",
    )
    app = Workbench(str(recipe), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await in_hybrid(pilot)
        await pilot.press("f", "down")
        await press_text(pilot, "999")
        await pilot.press("enter")
        await until(pilot, lambda: workspace.search is not None, "a search")
        await pilot.press("P")
        await until(pilot, lambda: workspace.search.paused, "its pause")
        assert "paused" in screen_text(app)
        await pilot.press("K")
        await until(pilot, lambda: not workspace.search.running, "its end")
        assert workspace.search.state == "done"
        await until(pilot, lambda: "stopped by you" in screen_text(app), "why it ended")


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("warm")
async def test_proposed_searched_applied_and_verified_in_the_build(
    demo: Path, tmp_path: Path
) -> None:
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await in_hybrid(pilot)
        await pilot.press("p", "enter")
        await until(pilot, lambda: app.session.recipe.get("quantized_layers"), "a proposal")
        await pilot.press("R")
        assert "quantized_layers" not in app.session.recipe

        await pilot.press("f", "down")
        await press_text(pilot, "2")
        await pilot.press("enter")
        await until(pilot, lambda: "budget used" in screen_text(app), "a search")
        assert "▲" in screen_text(app)
        await pilot.press("Y")
        assert app.clipboard.startswith("rknntui hybrid search ")
        await pilot.press("G", "a")
        asked = app.session.recipe["quantized_layers"]
        assert len(asked) >= 2
        await pilot.press("b")
        await until(pilot, lambda: app.session.built == app.session.recipe, "the build of it")
        await pilot.press("6")
        await until(pilot, lambda: workspace.edits.built == asked, "its layers")
        built = {r["id"]: r["built"] for r in workspace.table.records}
        assert {built[layer] for layer in asked} == {"✓ float16"}


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("warm")
async def test_marked_layers_are_changed_together_and_a_range_is_honoured(
    demo: Path, tmp_path: Path
) -> None:
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        workspace = await in_hybrid(pilot)
        await pilot.press("slash")
        await press_text(pilot, "stage1")
        await pilot.press("enter", "M")
        marked = set(workspace.edits.marked)
        assert len(marked) == len(workspace.table.records) > 2
        await pilot.press("enter")
        await until(pilot, lambda: type(app.screen).__name__ == "ChoiceDialog", "the dtypes")
        choices = app.screen._choices
        await pilot.press(*["down"] * choices.index("int16"), "enter")
        await until(pilot, lambda: app.session.recipe.get("quantized_layers"), "the change")
        assert set(app.session.recipe["quantized_layers"]) == marked
        assert set(app.session.recipe["quantized_layers"].values()) == {"int16"}
        await pilot.press("u", "slash", "escape")
        await until(pilot, lambda: not workspace.table.filter_text, "all layers")
        workspace.table.select_record("op", "Gemm")
        layer = workspace.table.record["id"]
        await pilot.press("e")
        await until(pilot, lambda: type(app.screen).__name__ == "PromptDialog", "the range")
        await pilot.press("end", "ctrl+u")
        await press_text(pilot, "-2 2")
        await pilot.press("enter")
        assert app.session.recipe["quantized_ranges"] == {layer: [-2.0, 2.0]}
        await until(pilot, lambda: "simulated over" in screen_text(app), "its effect")
        seen = workspace.effect.outputs["logits"]
        assert seen.sqnr_db < seen.before_db, "it cuts the logits off"
