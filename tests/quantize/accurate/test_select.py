"""One session for all candidates, and the decibels that they are compared by."""

from __future__ import annotations

import numpy as np
import pytest

from engine.graph.execute import Session
from engine.graph.metrics import sqnr
from engine.quantize import QuantizeSettings, calibrate
from engine.quantize.algorithms.accurate.select import CandidateEvaluator, can_evaluate, noise_level
from engine.quantize.algorithms.ranges import activation_table
from engine.quantize.interface import quantize_weights
from engine.quantize.planning.plan import plan
from engine.quantize.qdq.insert import insert_qdq
from tests.quantize.models import small_cnn


def test_a_trial_gives_what_the_integer_graph_gives() -> None:
    net, graph = small_cnn()
    decided = plan(graph)
    activations = activation_table(graph, decided, calibrate(graph, net.feeds(4)))
    weights = quantize_weights(graph, decided, activations, "channel")
    quantized, *_ = insert_qdq(graph, decided, activations, weights)
    trial = CandidateEvaluator(graph, decided)
    inputs = trial.inputs(activations, weights)
    integer, exact = Session(quantized), Session(graph)
    feeds = net.feeds(12)
    for name in trial.outputs:
        plain, tried, whole = (
            np.stack([run(feed)[name] for feed in feeds])
            for run in (exact.run, lambda feed: trial.run(feed, inputs), integer.run)
        )
        assert sqnr(whole, tried) > sqnr(plain, whole) + 3
        assert np.corrcoef((tried - plain).ravel(), (whole - plain).ravel())[0, 1] > 0.8


@pytest.mark.parametrize("dtype", ["w16a16i", "w8a16", "float16"])
def test_formats_of_more_bits_are_not_tried_in_one_session(dtype: str) -> None:
    _, graph = small_cnn()
    assert not can_evaluate(graph, plan(graph, QuantizeSettings(dtype=dtype).dtype))
    assert can_evaluate(graph, plan(graph))


def test_decibels_are_half_of_all_samples_and_half_of_each() -> None:
    exact = {"a": [np.array([1.0]), np.array([1.0]), np.array([0.0])]}
    found = {"a": [np.array([1.1]), np.array([1.001]), np.array([5.0])]}
    together = 10 * np.log10((0.1**2 + 0.001**2) / 2)
    assert noise_level(exact, found) == pytest.approx((together + (-20 - 60) / 2) / 2)
    assert noise_level({"a": [np.zeros(2)]}, {"a": [np.ones(2)]}) == -150
