"""Stages as values: how a pipeline resolves, keys, keeps and tells them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base.cache import StageCache
from engine.base.errors import UsageError
from engine.base.events import CallbackReporter, Event, StageFinished, StageStarted
from engine.base.findings import Finding
from engine.options import OPTIONS
from engine.pipeline.build import build
from engine.pipeline.pipeline import Codec, Pipeline, Stage, reported_stages
from engine.pipeline.stages import STAGES
from engine.recipe import Recipe
from rknntui.demo import demo_recipe

TEXT: Codec[str] = Codec(
    lambda text: {"t": text.encode()}, lambda _p, _k, files: files["t"].decode()
)


class Toy:
    """Three stages; what ran stands in ``ran``."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.stages = (
            self.stage("a", lambda _: "a"),
            self.stage("b", lambda p: p.result("a") + "b", "a", quantized_only=True),
            self.stage("c", lambda p: p.result("a") + "c", "b"),
        )

    def stage(
        self, name: str, make: Callable[[Pipeline], str], *inputs: str, **more: Any
    ) -> Stage[str]:
        def run(pipeline: Pipeline, _key: str) -> str:
            found = make(pipeline)
            self.ran.append(name)
            return found

        title = name.upper()
        return Stage(name=name, title=title, run=run, inputs=inputs, codec=TEXT, **more)


QUANTIZED, FLOAT = Recipe(), Recipe.from_values({"do_quantization": False})


def told(stages: Any, name: str, recipe: Recipe = QUANTIZED, **given: Any) -> list[Any]:
    """What a pipeline tells while it resolves one stage."""
    events: list[Event] = []
    pipeline = Pipeline(recipe, stages, reporter=CallbackReporter(events.append), **given)
    pipeline.result(name)
    return [
        (e.stage, e.index, e.count) if isinstance(e, StageStarted) else (e.stage, e.cached)
        for e in events
        if isinstance(e, StageStarted | StageFinished)
    ]


def test_inputs_run_first_and_once() -> None:
    toy = Toy()
    pipeline = Pipeline(QUANTIZED, toy.stages)
    assert (pipeline.result("c"), pipeline.result("c"), toy.ran) == ("ac", "ac", ["a", "b", "c"])


def test_a_stage_that_a_build_leaves_out_passes_its_inputs_on() -> None:
    toy = Toy()
    pipeline = Pipeline(FLOAT, toy.stages)
    assert (pipeline.result("c"), toy.ran) == ("ac", ["a", "c"])
    with pytest.raises(UsageError, match="'b'"):
        pipeline.result("b")
    assert pipeline.key("c") != Pipeline(QUANTIZED, toy.stages).key("c")
    assert pipeline.key("a") == Pipeline(QUANTIZED, toy.stages).key("a")


def test_stages_are_numbered_up_to_the_last_and_with_the_caller_s_own(tmp_path: Path) -> None:
    stages, cache = Toy().stages, StageCache(tmp_path)
    assert told(stages, "b", last="b", then=("own",), cache=cache) == [
        ("a", 0, 3), ("a", False), ("b", 1, 3), ("b", False),
    ]  # fmt: skip
    assert told(stages, "c", cache=cache) == [
        ("a", 0, 3), ("a", True), ("b", 1, 3), ("b", True), ("c", 2, 3), ("c", False),
    ]  # fmt: skip
    assert told(stages, "c", FLOAT)[-2] == ("c", 1, 2)
    assert told(stages, "a", last="") == [("a", 0, 0), ("a", False)]


def test_only_what_depends_on_a_stage_runs_again(tmp_path: Path) -> None:
    toy, cache = Toy(), StageCache(tmp_path)
    Pipeline(QUANTIZED, toy.stages, cache=cache).result("c")
    toy.ran.clear()
    a, b, c = toy.stages
    for changed in (replace(b, version=2), replace(b, facts=lambda _: {"x": 1})):
        Pipeline(QUANTIZED, (a, changed, c), cache=cache).result("c")
        assert toy.ran == ["b", "c"]
        toy.ran.clear()
    Pipeline(QUANTIZED, (a, b, replace(c, is_valid=lambda _, __: False)), cache=cache).result("c")
    assert toy.ran == ["c"]
    Pipeline(QUANTIZED, (a, b, replace(c, is_cached=lambda _: False)), cache=cache).result("c")
    assert toy.ran == ["c", "c"]
    assert Pipeline(QUANTIZED, toy.stages, cache=cache).has("c")
    assert not Pipeline(QUANTIZED, toy.stages, cache=cache, refresh=True).has("c")


def test_a_result_that_is_given_is_neither_told_nor_kept(tmp_path: Path) -> None:
    toy, cache = Toy(), StageCache(tmp_path)
    a, *others = toy.stages
    given = replace(a, run=lambda _, __: "given ", codec=None, key="k")
    assert told((given, *others), "c", cache=cache)[0] == ("b", 0, 2)
    pipeline = Pipeline(QUANTIZED, (given, *others))
    assert (pipeline.key("a"), pipeline.has("a"), pipeline.result("c")) == ("k", True, "given c")
    assert not list(tmp_path.glob("a-*"))


def test_stages_out_of_order_or_of_one_name_are_a_mistake() -> None:
    a, b, c = Toy().stages
    for stages in ((b, a), (a, a), (a, c)):
        with pytest.raises(ValueError, match="Stage"):
            Pipeline(QUANTIZED, stages)


def test_every_option_belongs_to_a_stage_that_is_told() -> None:
    assert {option.stage for option in OPTIONS} <= set(reported_stages(STAGES))
    assert all(stage.title for stage in STAGES if stage.codec is not None)


def test_a_build_takes_a_further_stage_without_a_change_to_the_others(tmp_path: Path) -> None:
    recipe = Recipe.from_values({**demo_recipe(), "dataset_count": 4})
    layers: Stage[str] = Stage(
        name="census",
        title="Census",
        run=lambda pipeline, _: str(len(pipeline.quantized.table)),
        inputs=("quantize",),
        codec=TEXT,
        quantized_only=True,
        findings=lambda pipeline: [
            Finding("estimated", "info", "model", f"{pipeline.get(layers)} tensors.")
        ],
    )
    cache = StageCache(tmp_path)
    plain = build(Pipeline(recipe, STAGES, cache=cache))
    pipeline = Pipeline(recipe, (*STAGES, layers), cache=cache)
    assert int(pipeline.get(layers)) == len(plain.pipeline.quantized.table)
    assert [(t.stage, t.cached) for t in pipeline.times][-2:] == [
        ("quantize", True),
        ("census", False),
    ]
    codes = {finding.code for finding in pipeline.findings}
    assert codes == {finding.code for finding in plain.summary.findings} | {"estimated"}
    assert Pipeline(recipe, (*STAGES, layers), cache=cache).has("census")
    assert pipeline.key("container") == plain.pipeline.key("container")
