"""The switches: what they compute is what it should be, and the sum predicts real builds."""

from __future__ import annotations

import numpy as np
import pytest

from engine.graph.execute import Session
from engine.graph.metrics import sqnr
from engine.graph.passes import optimise
from engine.hybrid import Evaluator, Layers, noise_terms
from engine.hybrid.noise_model import NoiseModel
from engine.hybrid.sensitivity import QuantizerToggles
from engine.quantize import QuantizeSettings, calibrate, quantize
from tests.hybrid.nets import built_chain, chain, head_feeds, head_graph


def test_all_off_is_the_float_graph_and_all_on_the_quantized_one() -> None:
    layers, built, feeds = built_chain()
    toggles = QuantizerToggles(layers, built)
    (name,) = toggles.outputs
    golden, simulated = Session(layers.graph), Session(built.graph)
    for feed in feeds[:2]:
        expected = golden.run(feed)[name]
        np.testing.assert_allclose(toggles.run(feed)[name], expected, rtol=1e-4, atol=1e-4)
        found = toggles.run(feed, toggles.toggles)[name]
        step = built.table[name].scale[0]
        # the kernels between them are float: a tie may fall to the other side, and move on
        assert np.abs(found - simulated.run(feed)[name]).max() <= 2 * step


def test_one_switch_is_one_rounding_against_numpy() -> None:
    layers, built, feeds = built_chain()
    toggles = QuantizerToggles(layers, built)
    (name,) = toggles.outputs
    (own,) = [s for s in toggles.toggles if s.tensor == name and not s.weights]
    expected = Session(layers.graph).run(feeds[0])[name]
    rounded = built.table[name].dequantize(built.table[name].quantize(expected))
    found = toggles.run(feeds[0], [own])[name]
    # half a step where float kernels differ in the last bit and a value lies on a tie
    assert np.abs(found - rounded).max() <= built.table[name].scale[0]
    assert np.mean(np.abs(found - rounded) > 1e-4) < 0.01


def test_what_a_rounding_needs_is_its_writer_and_its_readers() -> None:
    layers, built, feeds = built_chain()
    terms = {(t.tensor, t.weights): t.needs for t in noise_terms(layers, built, feeds)}
    order = [layer.id for layer in layers.all]
    assert terms["image", False] == {order[0]}
    tensors = [layer.tensor for layer in layers.all]
    assert terms[tensors[2], False] == {order[2], order[3]}
    assert terms[tensors[2], True] == {order[2]}
    assert terms[tensors[-1], False] == {order[-1]}


@pytest.mark.parametrize("lifted", [(), (2,), (2, 3), (1, 2, 3), (5,)])
def test_the_sum_of_what_is_left_predicts_a_build(lifted: tuple[int, ...]) -> None:
    graph, feeds = chain()
    trials = Evaluator(graph, calibrate(graph, feeds), QuantizeSettings(), feeds)
    layers = Layers(graph)
    model = NoiseModel(noise_terms(layers, trials.build({}, {}), feeds), trials.outputs)
    names = [layers.all[i].id for i in lifted]
    (real,) = trials.run(dict.fromkeys(names, "float16")).noise.values()
    (predicted,) = model.noise(names).values()
    assert abs(10 * np.log10(predicted / real)) < 1.0


def test_moves_between_lifted_layers_are_lifted_with_them() -> None:
    graph = optimise(head_graph()).graph
    layers = Layers(graph)
    kinds = {layer.id: layer.kind for layer in layers.all}
    scores = next(layer.id for layer in layers.all if layer.op == "Sigmoid")
    concat = next(layer.id for layer in layers.all if layer.op == "Concat")
    assert kinds[concat] == "move"
    assert list(layers.with_data_movement({scores: "float16"})) == [scores, concat]
    first = layers.all[0].id
    assert list(layers.with_data_movement({first: "float16"})) == [first]


def test_a_trial_is_the_build() -> None:
    graph, feeds = head_graph(), head_feeds()
    seen = calibrate(graph, feeds)
    trials = Evaluator(graph, seen, QuantizeSettings(), feeds)
    (name,) = trials.outputs
    built = quantize(graph, seen, QuantizeSettings(layers={name: "float16"}))
    golden, session = Session(graph), Session(built.graph)
    pairs = [(golden.run(feed)[name], session.run(feed)[name]) for feed in feeds]
    expected = sqnr(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
    assert trials.run({name: "float16"}).sqnr[name] == pytest.approx(expected, abs=1e-3)
