"""Workspace Layers: promotion as data, its live effect, and the whole flow by keys at 80x24."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine.wire.accuracy import RoundedOutput
from engine.wire.build_tables import SEARCH_POINTS
from engine.wire.codec import encode
from engine.wire.flags import words_of
from engine.wire.formats import ADDED_BYTES, ADDED_MS
from engine.wire.hybrid import (
    CurvePoint,
    Effect,
    EffectOutput,
    LayerRow,
    OutputFigure,
    Ranked,
    RequestCheck,
    SearchParams,
    Table,
)
from engine.wire.layer_tables import most_worth
from engine.wire.layers import by_layer as by_id
from engine.wire.layers import layers_of
from rknntui.app import Workbench
from rknntui.keys.commandline import job_command
from rknntui.screens.layers.edits import LiveEffect
from rknntui.screens.layers.search import FIRST, _gained, checked_search
from rknntui.screens.layers.words import (
    edit_values,
    facts,
    output_lines,
    promoted_text,
    time_text,
)
from rknntui.screens.layers.workspace import Layers
from rknntui.session.job_view_model import JobView
from rknntui.session.messages import JobEnded
from rknntui.widgets.charts import CurveChart, Series
from rknntui.widgets.one_line import fit_facts
from tests.tui.conftest import Driver, residual_model, screen_text, until, workbench
from tests.tui.flow import grey_keys, read_form, typed, visited

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


def test_a_step_of_a_search_names_the_layer() -> None:
    outputs = {"o": 20.0}
    point = CurvePoint(1, "250", "Conv_25", "int16", {}, ("Conv_25",), outputs, outputs, 0.5, None)
    record = SEARCH_POINTS.record(point)
    assert (record["layer"], record["tensor"], record["promoted"]) == ("Conv_25", "250", 1)
    assert SEARCH_POINTS.record(replace(point, layer="", tensor=""))["layer"] == "baseline"


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
    assert of("board.run", device="local") == ["rknntui", "run", *begin, "--device", "local"]
    weights = {"model": "m.prototxt", "weights": "m.caffemodel", "do_quantization": False}
    assert job_command("load", {"recipe": weights}) == [
        "rknntui", "inspect", "--load", "m.prototxt", "--weights", "m.caffemodel",
    ]  # fmt: skip


def test_a_search_needs_numbers_and_something_to_stop_at() -> None:
    texts = {"floor_db": "25", "budget": "", "dtype": "", "demote": "y", "seconds": "1.5"}
    wish = read_form(FIRST, texts)
    assert wish == SearchParams(floor_db=25.0, demote=True, seconds=1.5)
    words = ["--floor", "25", "--demote", "--seconds", "1.5"]
    assert words_of(SearchParams, encode(wish)) == words
    for wrong in ({"budget": "two"}, {"budget": "0"}, {"demote": "perhaps"}, {"seconds": "-1"}):
        with pytest.raises(ValueError, match=r"\.$"):
            read_form(FIRST, {**texts, **wrong})
    with pytest.raises(ValueError, match="a floor or a budget"):
        checked_search(read_form(FIRST, {**texts, "floor_db": ""}))


def test_a_record_says_what_became_of_what_was_asked() -> None:
    def built(row: LayerRow, asked: str, before: str = "", got: str = "") -> str:
        edits = SimpleNamespace(
            layers={"a": asked} if asked else {}, ranges={}, built={"a": before} if before else {}
        )
        effect = SimpleNamespace(got={"a": got} if got else {}, not_applied={})
        (figures,) = layers_of("choice", [row])
        return edit_values(edits, effect)(figures)["built"]

    lifted = replace(A, dtype="float16")
    assert built(A, "") == "  int8"
    assert built(lifted, "float16", "float16") == "✓ float16"
    assert built(A, "float16", "float16") == "✗ int8", "asked for, built, and not applied"
    assert built(A, "float16") == "· int8", "not built yet"
    assert built(A, "float16", got="float16") == "~ float16"
    assert built(A, "float16", got="int8") == "✗ int8"


def test_layers_are_ordered_by_gain_for_their_time_once_gains_are_known() -> None:
    rows = layers_of("choice", [replace(A, sqnr_db=25.0), B, FLOAT])
    assert [row.id for row in most_worth(rows)[0]] == ["a", "b", "f"]
    assert most_worth(rows)[1] == "by SQNR, worst first"

    def gain(row: LayerRow, gain_db: float, ms: float) -> Ranked:
        return Ranked(
            tensor=row.tensor, id=row.id, op="Conv", sources=(), gain_db=gain_db, share=0.1,
            promote_ms=ms,
        )  # fmt: skip

    known = layers_of("proposed", [gain(A, 2.0, 2.0), gain(B, 1.0, 0.1)])
    layers, words = most_worth(by_id(rows, known))
    assert [row.id for row in layers] == ["b", "a", "f"], "b gains less, for far less time"
    assert words == "by gain per ms"


def test_what_is_promoted_is_counted_with_what_goes_along() -> None:
    assert promoted_text(2, 2) == "2 layers promoted"
    assert promoted_text(6, 2) == "6 layers promoted, 4 of them to move values"


def test_outputs_show_before_after_and_gain() -> None:
    outputs = [OutputFigure(f"out{n}", 20.0 + n) for n in range(6)]
    figures = (EffectOutput("out0", 22.5, 20.0), EffectOutput("out1", None, 20.5))
    effect = Effect(figures, (), 0.1, 32, "", "simulated")
    lines = ["".join(text for text, _ in line) for line in output_lines(outputs, effect, 76)]
    assert len(lines) == 4
    assert "20.00 dB → 22.50 dB  +2.50 sim." in lines[0]
    assert "out1       21.00 dB · over 32 samples 20.50 dB → equal  +inf" in lines[1], "as the tab"
    assert "out3       23.00 dB sim." in lines[3]
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
    edits = SimpleNamespace(layers={"a": "int16"}, ranges={"a": (0, 1)})
    effect = SimpleNamespace(
        not_applied={"a": "why not"},
        state=state,
        now=Effect((), (), 1.0, 32, "", "simulated", 4.6, 4.5),
    )
    table = Table((), (), "32 of 100 calibration samples", chip="rk3588", time_ms=4.5)
    layers = SimpleNamespace(table=table, marked={"b"}, rows=[1] * 112)
    told = facts(edits, effect, SimpleNamespace(layers=layers, stale=True))
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
    effect = LiveEffect(workspace)
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
    assert effect.state == "simulated over 1 sample in 0.25 s"
    assert effect.now.outputs[0].sqnr_db == 2.0
    assert (effect.got, effect.not_applied) == ({"b": "int8"}, {"b": "why not"})
    await asyncio.sleep(0.05)
    assert rounding == [False, False, True], "what takes longer comes behind"
    moved = [RoundedOutput("o", value, 1.0, None, 0.1, 0.5) for value in (23.0, 29.0)]
    both = replace(answer, outputs=(EffectOutput("o", 2.0, 1.0, moved[1], moved[0]),))
    effect.ended(JobEnded("job3", "hybrid.effect", "done", both))
    (line,) = output_lines((OutputFigure("o", 1.0),), effect.now, 80)
    assert "other roundings 23.0 → 29.0 dB" in "".join(text for text, _ in line)
    effect.edited(base, base)
    assert effect.state == ""
    effect.edited({**base, "quantized_layers": {"b": "int16"}}, base)
    assert effect.state == "simulated over 1 sample in 0.25 s", (
        "an effect that is known is shown at once"
    )
    await asyncio.sleep(0.05)
    assert len(asked) == 3


@asynccontextmanager
async def layers_of_build(
    recipe: Path, *, gains: bool = False
) -> AsyncIterator[tuple[Workbench, Driver, Layers]]:
    """The workbench with a build of a recipe, in Layers; with the gains of its layers."""
    async with workbench(recipe) as (app, pilot):
        await until(pilot, lambda: app.session.model is not None, "a model is open")
        await pilot.press("b", until=lambda: app.session.layers.table is not None)
        workspace = await visited(pilot, Layers)
        await until(pilot, lambda: workspace.table.total > 0, "its layers")
        if gains:
            await pilot.sees("by gain")
            assert workspace.table.records[0]["gain_db"] > 0
        yield app, pilot, workspace


@pytest.mark.usefixtures("warm")
async def test_keys_that_work_are_not_grey_once_the_layers_are_there(digits: Path) -> None:
    async with layers_of_build(digits) as (app, pilot, workspace):
        assert not workspace.disabled_reason("lift")
        await until(pilot, lambda: not grey_keys(app), "no key is grey")


@pytest.mark.usefixtures("warm")
async def test_a_toggle_shows_its_effect_and_is_taken_back(digits: Path) -> None:
    async with layers_of_build(digits, gains=True) as (app, pilot, workspace):
        best = workspace.table.record
        assert workspace.table.cursor == 0
        await pilot.press("space")
        group = (best["id"], *workspace.table.figures.proposed.together)
        promoted = dict.fromkeys(group, "float16")
        assert app.session.recipe["quantized_layers"] == promoted
        await pilot.sees("simulated over")
        seen = workspace.effect.now.outputs[0]
        assert seen.sqnr_db > seen.before_db
        assert workspace.table.record["built"] == "~ float16"
        await pilot.press("u")
        assert "quantized_layers" not in app.session.recipe
        await pilot.press("ctrl+r")
        assert app.session.recipe["quantized_layers"] == promoted
        assert "simulated over" in screen_text(app)
        await pilot.press("Y")
        assert app.clipboard.startswith("rknntui hybrid table ")
        assert f"{best['id']}=float16" in app.clipboard.replace("'", "")


@pytest.mark.long
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
    async with layers_of_build(recipe) as (app, pilot, workspace):
        await pilot.press("f", "down", *"999", "enter", until=lambda: workspace.search is not None)
        await pilot.press("P", until=lambda: workspace.search.paused)
        assert "paused" in screen_text(app)
        await pilot.press("K", until=lambda: not workspace.search.running)
        assert workspace.search.state == "done"
        await pilot.sees("stopped by you")


@pytest.mark.long
@pytest.mark.usefixtures("warm")
async def test_proposed_searched_applied_and_verified_in_the_build(digits: Path) -> None:
    async with layers_of_build(digits, gains=True) as (app, pilot, workspace):
        await pilot.press("p", "enter", until=lambda: app.session.recipe.get("quantized_layers"))
        await pilot.sees(" promoted")
        await pilot.press("R")
        assert "quantized_layers" not in app.session.recipe
        await pilot.press("f", "down", *"2")
        await pilot.press("enter", sees=("budget used", "simulated over 12 samples", "▲"))
        await pilot.press("Y")
        assert app.clipboard.startswith("rknntui hybrid search ")
        await pilot.press("G", "a")
        asked = app.session.recipe["quantized_layers"]
        assert len(asked) == 2, "a budget counts what is promoted"
        await pilot.press("b", until=lambda: app.session.built == app.session.recipe)
        await pilot.press("3", until=lambda: workspace.edits.built == asked)
        built = {r["id"]: r["built"] for r in workspace.table.records}
        assert {built[layer] for layer in asked} == {"✓ float16"}

        app.session.set_value("target_platform", "rk3588")
        await pilot.press("b")
        known = lambda: app.session.layers.table  # noqa: E731 - None until it is read again
        await until(pilot, lambda: known() and known().chip == "rk3588", "its times")
        await pilot.press("p", sees=str(round(known().time_ms * 1.05, 3)))


@pytest.mark.long
@pytest.mark.usefixtures("warm")
async def test_marked_layers_are_changed_together_and_a_range_is_honoured(digits: Path) -> None:
    async with layers_of_build(digits, gains=True) as (app, pilot, workspace):
        await pilot.press("slash", *"stage1", "enter", "asterisk")
        marked = set(app.session.layers.marked)
        assert len(marked) == len(workspace.table.records) > 2
        await pilot.press("enter", until=lambda: type(app.screen).__name__ == "RequestDialog")
        await pilot.press(*"int16", "enter")
        await until(pilot, lambda: app.session.recipe.get("quantized_layers"), "the change")
        assert set(app.session.recipe["quantized_layers"]) == marked
        assert set(app.session.recipe["quantized_layers"].values()) == {"int16"}
        assert not app.session.layers.marked
        assert "of 14 · with “stage1” · Esc shows all" in screen_text(app)
        await pilot.press("u", "z", "escape")  # of a pane that is zoomed, Esc is the zoom's
        assert workspace.table.filter_text
        await pilot.press("escape", until=lambda: not workspace.table.filter_text)
        workspace.table.select_record("op", "Gemm")
        layer = workspace.table.record["id"]
        await pilot.press("e", "down", *typed("2 -2"), "enter", sees="minimum of a range is below")
        await pilot.press(*["backspace"] * 4, *typed("-2 2"), "enter")
        await until(pilot, lambda: "quantized_ranges" in app.session.recipe, "the range")
        assert app.session.recipe["quantized_ranges"] == {layer: [-2.0, 2.0]}
        await pilot.sees("simulated over")
        seen = workspace.effect.now.outputs[0]
        assert seen.sqnr_db < seen.before_db, "it cuts the logits off"


def test_a_budget_of_time_is_asked_for() -> None:
    asked = read_form(SearchParams(dtype="float16"), {"budget_ms": "4.5"})
    assert asked.budget_ms == 4.5
    assert words_of(SearchParams, encode(asked)) == ["--budget-ms", "4.5", "--dtype", "float16"]
    for wrong in ("4 ms", "0"):
        with pytest.raises(ValueError, match=r"budget \(ms\): a number above 0"):
            read_form(SearchParams(), {"budget_ms": wrong})


def test_costs_as_texts() -> None:
    assert [ADDED_MS.text(value) for value in (0.1234, -0.05, 1e-9)] == ["+0.1234", "-0.0500", "0"]
    assert [ADDED_BYTES.text(value) for value in (2048, -1, 0)] == ["+2.00 KiB", "-1 B", "0"]
    assert time_text(4.5, 4.6, "rk3588") == "est. 4.500 → 4.600 ms (+2.2 %) on rk3588"
    assert time_text(None, 4.6, "rk3588") == "est. 4.600 ms on rk3588"
    assert time_text(4.5, None, "rk3588") == time_text(4.5, 4.6, "") == ""
