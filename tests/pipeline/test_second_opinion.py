"""The second opinion: our side of it, what it ran on, and what it means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from engine.api.typed import pipeline_of
from engine.base.errors import CompilerError, DatasetError
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.pipeline.compile_sources import HandedModel
from engine.pipeline.opinion_findings import judge, missed
from engine.pipeline.second_opinion import (
    OpinionSamples,
    is_written_as,
    numbers_of,
    reference_session,
    second_opinion,
)
from engine.recipe import Recipe
from engine.toolkit.compile.compiler import CompilerRun
from engine.wire.compile import OWN_SAMPLES, FirstApart, SecondOpinion
from rknntui.demo import demo_recipe

Change = Callable[[np.ndarray], np.ndarray]


class Simulator:
    """Stands where the vendor's simulator stands: the file, node by node, in float32."""

    def __init__(self, handed: HandedModel, change: Change = lambda array: array) -> None:
        self._handed = handed
        level = handed.pipeline.recipe.quantization.optimization_level
        file = numbers_of(Graph.from_bytes(handed.onnx), fused=level >= 3)
        self._session = reference_session(file)
        self._change = change
        self.seen: list[np.ndarray] = []

    def simulate(self, sample: Sequence[np.ndarray]) -> list[np.ndarray]:
        self.seen.append(sample[0])
        pixels = sample[0].astype(np.float32)
        feed = {self._session.inputs[0].name: (pixels - np.float32(127.5)) / np.float32(127.5)}
        return [self._change(array) for array in self._session.run(feed).values()]


def handed(by: Any = "ours", **values: object) -> HandedModel:
    recipe = Recipe.from_values({**demo_recipe(), "target_platform": "rk3588", **values})
    return HandedModel(pipeline_of(recipe, None, True, ()), by)


def opinion_on(
    model: HandedModel, change: Change = lambda array: array, samples: OpinionSamples | None = None
) -> SecondOpinion:
    run = cast(CompilerRun, Simulator(model, change))
    return second_opinion(run, model, samples or OpinionSamples())


@pytest.fixture(scope="module")
def demo() -> HandedModel:
    return handed()


def test_reference_arithmetic_is_that_of_the_onnx_standard(demo: HandedModel) -> None:
    """ONNX's own reference implementation in numpy: at most one value in 100 a step apart."""
    graph = demo.graph
    model = Graph.from_bytes(demo.onnx).to_proto()
    feed = {graph.inputs[0].name: demo.pipeline.feeds()[0][graph.inputs[0].name]}
    (ours,) = reference_session(graph).run(feed).values()
    (theirs,) = ReferenceEvaluator(model).run(None, feed)
    scale = demo.pipeline.quantized.table[graph.outputs[0].name].scale[0]
    away = np.abs(np.rint((ours - theirs) / scale))
    assert away.max() <= 1
    assert np.mean(away > 0) <= 0.1


def test_the_same_numbers_are_equal_and_nothing_is_said(demo: HandedModel) -> None:
    opinion = opinion_on(demo, samples=OpinionSamples(3))
    (row,) = opinion.outputs
    assert (row.samples, row.cosine, row.equal, row.max_steps) == (3, 1.0, 1.0, 0)
    assert opinion.samples_from == "calibration"
    assert opinion.seconds > 0
    assert opinion.file_cosine is None
    found = judge(opinion, demo)
    assert found.error is None
    assert [each.code for each in found.findings] == ["roundings-fused"]


def test_our_integer_kernels_are_not_what_it_is_compared_with() -> None:
    """The reference is: one step on the edge of an inner tensor is then no difference."""
    model = handed(optimization_level=2)
    graph = model.graph
    feeds = [model.pipeline.feeds()[at] for at in range(8)]
    fast, slow = Session(graph), reference_session(graph)
    name = graph.outputs[0].name
    differ = sum(not np.array_equal(fast.run(f)[name], slow.run(f)[name]) for f in feeds)
    opinion = opinion_on(model, samples=OpinionSamples(8))
    assert opinion.outputs[0].unequal == 0
    print(f"{differ} of {len(feeds)} samples differ between the two arithmetics")


def test_a_large_difference_fails_and_names_where_it_begins(demo: HandedModel) -> None:
    opinion = opinion_on(demo, lambda array: array[..., ::-1].copy())
    assert opinion.outputs[0].cosine < 0.99
    apart = FirstApart(tensor="conv7", op="Clip", equal=0.5, max_steps=200, checked=9)
    error = judge(replace(opinion, first=apart), demo).error
    assert isinstance(error, CompilerError)
    assert error.exit_code == 16
    assert "logits" in error.what
    assert "conv7 (Clip), where 50 % of the values differ, by 200 steps" in error.cause
    assert "--accept-difference" in error.remedy
    assert not any(each.code.startswith("second-opinion") for each in judge(opinion, demo).findings)


def test_a_cosine_says_nothing_of_outputs_of_a_few_steps_or_of_noise(demo: HandedModel) -> None:
    opinion = opinion_on(demo, lambda array: array[..., ::-1].copy())
    (row,) = opinion.outputs
    assert row.cosine < 0.99
    for nothing in ({"max_steps": 2}, {"our_sqnr_db": 3.0}):
        judged = judge(replace(opinion, outputs=(replace(row, **nothing),)), demo)
        assert judged.error is None
        assert "second-opinion-gap" in {each.code for each in judged.findings}


def test_a_gap_is_a_warning_unless_it_is_explained(demo: HandedModel) -> None:
    def near(array: np.ndarray) -> np.ndarray:
        scale = demo.pipeline.quantized.table["logits"].scale[0]
        return array + np.float32(3 * scale) * (np.arange(array.size).reshape(array.shape) % 4 == 0)

    opinion = opinion_on(demo, near)
    (row,) = opinion.outputs
    assert 0.99 < row.cosine < 0.9999
    assert row.max_steps == 3
    assert missed(opinion, demo) == [row]
    found = judge(opinion, demo)
    assert found.error is None
    (gap,) = (each for each in found.findings if each.code.startswith("second-opinion"))
    assert (gap.code, gap.severity) == ("second-opinion-gap", "warning")
    assert "No cause is known" in gap.cause
    for apart, words in (
        (FirstApart(tensor="t", op="Conv", equal=0.9999, max_steps=1, checked=9), "edge"),
        (FirstApart(tensor="t", op="HardSigmoid", equal=0.6, max_steps=1, checked=9), "HardSig"),
    ):
        findings = judge(replace(opinion, first=apart), demo).findings
        (gap,) = (each for each in findings if each.code.startswith("second-opinion"))
        assert (gap.code, gap.severity) == ("second-opinion-explained", "info")
        assert words in gap.cause
    wrong = FirstApart(tensor="t", op="Conv", equal=0.6, max_steps=9, checked=9)
    codes = {each.code for each in judge(replace(opinion, first=wrong), demo).findings}
    assert "second-opinion-gap" in codes


def test_outputs_of_another_size_fail(demo: HandedModel) -> None:
    opinion = opinion_on(demo, lambda array: np.repeat(array, 4, axis=1))
    assert "logits as 1x40" in opinion.mismatch
    error = judge(opinion, demo).error
    assert error is not None
    assert "1x40" in error.what


def test_a_file_that_is_not_the_build_fails() -> None:
    """Both simulators run the file; so it is held to the build, too."""
    model = handed()
    proto = Graph.from_bytes(model.onnx).to_proto()
    weight = max(proto.graph.initializer, key=lambda each: len(each.raw_data))
    weight.raw_data = bytes(reversed(weight.raw_data))
    model.__dict__["onnx"] = proto.SerializeToString()  # as a cached property keeps it
    opinion = opinion_on(model)
    assert opinion.outputs[0].cosine == 1.0
    assert opinion.file_cosine is not None
    assert opinion.file_cosine < 0.99
    error = judge(opinion, model).error
    assert error is not None
    assert "fault of this program" in error.cause


@pytest.mark.parametrize(("ends", "sessions"), [(0, 2), (1, 1), (2, 1)])
def test_a_file_that_is_the_graph_as_it_stands_is_run_once(
    ends: int, sessions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mean is written as a convolution; without it the file is the build's own graph.

    An output that is read inside as well has a DequantizeLinear more in the file.
    """
    model = before_the_mean(ends) if ends else handed()
    run = cast(CompilerRun, Simulator(model))
    made: list[Graph] = []

    def counted(graph: Graph) -> Session:
        made.append(graph)
        return reference_session(graph)

    monkeypatch.setattr("engine.pipeline.second_opinion.reference_session", counted)
    opinion = second_opinion(run, model, OpinionSamples())
    assert len(made) == sessions
    assert [row.unequal for row in opinion.outputs] == [0] * (ends or 1)
    assert opinion.file_cosine is None


def test_a_second_dequantizer_of_another_tensor_is_another_model() -> None:
    model = before_the_mean(2)
    file = Graph.from_bytes(model.onnx)
    assert is_written_as(model.graph, file)
    (again,) = (each for each in file.nodes if (each.name or "").endswith("/inside"))
    others = [
        each
        for each in file.nodes
        if each.op_type == "DequantizeLinear" and each.inputs[0] is not again.inputs[0]
    ]
    for at, value in enumerate(others[-1].inputs):
        again.replace_input_with(at, value)
    assert not is_written_as(model.graph, file)


def before_the_mean(ends: int) -> HandedModel:
    """The demo up to its mean, with so many outputs; all but the first are read inside."""
    nodes = list(handed().pipeline.loaded.graph.graph.nodes)
    mean = next(at for at, node in enumerate(nodes) if node.op_type == "GlobalAveragePool")
    (*_, inner, last) = (
        value.name or ""
        for node in nodes[:mean]
        if node.op_type in ("Relu", "Clip")
        for value in node.outputs
    )
    return handed(outputs=[last, inner][:ends])


def test_a_folder_of_the_user_s_is_prepared_as_calibration_is(
    demo: HandedModel, tmp_path: Path
) -> None:
    dataset = demo.pipeline.dataset
    source = dataset.entries[3][0]
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / source.name).write_bytes(source.read_bytes())
    simulator = Simulator(demo)
    samples = OpinionSamples(100, folder)
    opinion = second_opinion(cast(CompilerRun, simulator), demo, samples)
    assert (opinion.samples_from, opinion.outputs[0].samples) == ("given", 1)
    wanted = list(demo.raw_samples(4))[3][0]
    np.testing.assert_array_equal(simulator.seen[0], wanted)
    with pytest.raises(DatasetError, match="missing"):
        opinion_on(demo, samples=OpinionSamples(1, tmp_path / "missing"))


def test_without_a_dataset_a_seeded_sample_is_used_and_said() -> None:
    model = handed("nobody", do_quantization=False, dataset=None)
    first, again = Simulator(model), Simulator(model)
    opinion = second_opinion(cast(CompilerRun, first), model, OpinionSamples())
    second_opinion(cast(CompilerRun, again), model, OpinionSamples())
    np.testing.assert_array_equal(first.seen[0], again.seen[0])
    assert np.array_equal(first.seen[0], np.rint(first.seen[0]))
    assert first.seen[0].min() >= 0
    assert 200 < first.seen[0].max() <= 255  # it has a mean: pixels
    assert opinion.samples_from == "seeded"
    assert "second-opinion-seeded" in {each.code for each in judge(opinion, model).findings}
    assert OpinionSamples().digest(model)[2] == "seeded"


def test_weights_that_the_toolkit_quantizes_are_held_to_float() -> None:
    model = handed("nobody", do_quantization=False, quantize_weight=True)
    opinion = opinion_on(model, lambda array: array + 0.1 * array.std() * np.sin(np.arange(10)))
    assert opinion.outputs[0].cosine < 0.999
    assert missed(opinion, model) == []
    assert judge(opinion, model).error is None


def test_what_the_vendor_quantized_is_held_to_float() -> None:
    model = handed("vendor")

    class Noise(Simulator):
        def __init__(self, noise: float) -> None:
            super().__init__(handed("nobody", do_quantization=False))
            self._noise = noise

        def simulate(self, sample: Sequence[np.ndarray]) -> list[np.ndarray]:
            random = np.random.default_rng(0)
            outputs = super().simulate(sample)
            return [a + self._noise * a.std() * random.normal(size=a.shape) for a in outputs]

    def judged(noise: float) -> Any:
        simulator = cast(CompilerRun, Noise(noise))
        return judge(second_opinion(simulator, model, OpinionSamples(4)), model)

    assert judged(0.05).error is None
    assert not [e for e in judged(0.05).findings if e.code.startswith("second")]
    assert [e.code for e in judged(0.5).findings] == ["second-opinion-far"]
    assert judged(3.0).error is not None


def test_samples_are_a_number_or_files_of_the_user() -> None:
    assert OpinionSamples.of(3) == OpinionSamples(3)
    assert OpinionSamples.of("/mine") == OpinionSamples(OWN_SAMPLES, Path("/mine"))
