"""The search: finds the weak spot, keeps floors and budgets, stops when asked."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from engine.base.errors import JobCancelledError, QuantizationError, UsageError
from engine.base.events import CallbackReporter, Event, Partial
from engine.graph.execute import Session
from engine.hybrid import Evaluator, Layers, propose, search, subgraph_layers
from engine.hybrid.sensitivity import NoiseTerm
from engine.quantize import QuantizeSettings, calibrate, quantize
from engine.wire.codec import encode
from engine.wire.hybrid import SearchParams, SearchResult
from engine.wire.names import CURVE_KIND
from tests.hybrid.nets import built_chain, chain
from tests.quantize.models import Net


@pytest.fixture(scope="module")
def trials() -> Evaluator:
    graph, feeds = chain()
    return Evaluator(graph, calibrate(graph, feeds), QuantizeSettings(), feeds)


def run(
    trials: Evaluator, wish: SearchParams, reporter: CallbackReporter | None = None
) -> SearchResult:
    trials.reporter = reporter or CallbackReporter(lambda _: None)
    return search(trials, wish)


def test_the_pair_around_the_coarse_tensor_is_found(trials: Evaluator) -> None:
    events: list[Event] = []
    result = run(trials, SearchParams(budget=2), CallbackReporter(events.append))
    order = [layer.id for layer in Layers(trials.graph).all]
    assert set(result.best.promoted) == {order[2], order[3]}
    assert result.ended == "budget"
    (start,), (end,) = result.curve[0].outputs.values(), result.best.outputs.values()
    assert end - start > 15
    told = [
        event.data for event in events if isinstance(event, Partial) and event.kind == CURVE_KIND
    ]
    assert told == [encode(point) for point in result.curve]


def test_no_other_pair_is_better(trials: Evaluator) -> None:
    result = run(trials, SearchParams(budget=2))
    names = [layer.id for layer in Layers(trials.graph).all]
    noises = {
        pair: sum(trials.run(dict.fromkeys(pair, "float16")).noise.values())
        for pair in itertools.combinations(names, 2)
    }
    assert set(min(noises, key=lambda pair: noises[pair])) == set(result.best.promoted)


def test_a_floor_is_met_with_few_layers(trials: Evaluator) -> None:
    lifted = run(trials, SearchParams(floor_db=30.0))
    assert (lifted.reached, lifted.ended) == (True, "floor")
    lowered = run(trials, SearchParams(floor_db=30.0, demote=True))
    for result in (lifted, lowered):
        assert all(value is None or value >= 30.0 for value in result.best.outputs.values())
    assert len(lifted.best.promoted) <= len(lowered.best.promoted) + 1
    assert lowered.trials < 6  # bisection, not one by one


def test_a_floor_out_of_reach_gives_the_best(trials: Evaluator) -> None:
    result = run(trials, SearchParams(floor_db=300.0, budget=2))
    assert result.reached is False
    assert len(result.best.promoted) == 2


def test_the_users_score_decides() -> None:
    graph, feeds = chain()
    (name,) = (spec.name for spec in graph.outputs)
    trials = Evaluator(
        graph,
        calibrate(graph, feeds),
        QuantizeSettings(),
        feeds,
        score=lambda results: -sum(float(abs(one[name]).mean()) for one in results),
    )
    result = search(trials, SearchParams(budget=1))
    scores = [point.score for point in result.curve if point.score is not None]
    assert result.best.score == max(scores)


def test_it_ends_with_the_best_when_asked(trials: Evaluator) -> None:
    asked = iter([False, True, True, True, True, True, True, True])
    result = run(
        trials, SearchParams(budget=6), CallbackReporter(lambda _: None, finish=lambda: next(asked))
    )
    assert result.ended == "asked"
    assert 0 < len(result.best.promoted) < 6


def test_it_can_be_cancelled(trials: Evaluator) -> None:
    with pytest.raises(JobCancelledError):
        run(trials, SearchParams(budget=2), CallbackReporter(lambda _: None, lambda: True))


@pytest.mark.parametrize(
    "wish",
    [SearchParams(), SearchParams(demote=True, budget=2), SearchParams(floor_db={"nothing": 3.0})],
)
def test_a_wish_that_cannot_be_is_refused(trials: Evaluator, wish: SearchParams) -> None:
    with pytest.raises(UsageError):
        run(trials, wish)


def test_an_unknown_dtype_is_refused(trials: Evaluator) -> None:
    with pytest.raises(QuantizationError, match="floaty"):
        run(trials, SearchParams(budget=1, dtype="floaty"))


def test_time_is_kept(trials: Evaluator) -> None:
    assert run(trials, SearchParams(seconds=1e-6)).ended == "time"


def test_the_proposal_lifts_the_pair() -> None:
    layers, built, feeds = built_chain()
    found = propose(built, feeds[:1])
    order = [layer.id for layer in layers.all]
    assert set(found.layers) == {order[2], order[3]}
    assert {row.id for row in found.ranking} == set(found.layers)
    (before,), (after,) = found.before.values(), found.after.values()
    assert after - before > 15


@pytest.mark.parametrize(
    ("shares", "lifted"),
    [
        ((0.2, 0.2, 0.2, 0.2), 3),  # each takes a fifth or more; at most 3 of 30 layers
        ((0.11, 0.08), 1),  # the second takes 9 % of what is left
        ((0.09,), 0),
    ],
)
def test_a_proposal_goes_on_while_a_layer_takes_a_tenth_of_the_error(
    monkeypatch: pytest.MonkeyPatch, shares: tuple[float, ...], lifted: int
) -> None:
    net = Net(0)
    x = net.input(1, 2, 4, 4, name="image")
    for _ in range(30):
        x = net.op("Conv", x, net.constant(net.normal(2, 2, 1, 1)))
    graph = net.graph(x)
    feeds = [{"image": np.ones((1, 2, 4, 4), np.float32)}]
    names = [layer.id for layer in Layers(graph).all]
    rest = (1 - sum(shares)) / (len(names) - len(shares))
    noise = [*shares, *[rest] * (len(names) - len(shares))]
    terms = [
        NoiseTerm(name, weights=True, needs=frozenset({name}), noise=(share,))
        for name, share in zip(names, noise, strict=True)
    ]
    monkeypatch.setattr("engine.hybrid.proposal.noise_terms", lambda *_, **__: terms)
    proposal = propose(quantize(graph, calibrate(graph, feeds)), feeds)
    assert sorted(proposal.layers) == sorted(names[:lifted])


def test_layers_that_gain_only_together_are_told_with_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layers, built, feeds = built_chain()
    first, second, third, *_ = [layer.id for layer in layers.all if layer.can_promote]
    terms = [
        NoiseTerm(first, weights=False, needs=frozenset({first, second}), noise=(0.6,)),
        NoiseTerm(third, weights=True, needs=frozenset({third}), noise=(0.3,)),
        NoiseTerm(second, weights=True, needs=frozenset({second}), noise=(0.1,)),
    ]
    monkeypatch.setattr("engine.hybrid.proposal.noise_terms", lambda *_, **__: terms)
    assert propose(built, feeds).gains == (), "only where they are asked for"
    gains = {row.id: row for row in propose(built, feeds, gains=True).gains}
    assert gains[first].together == (second,)
    assert gains[second].together == (first,)
    assert gains[third].together == ()
    assert gains[first].share == gains[second].share == pytest.approx(0.7)
    assert gains[third].share == pytest.approx(0.3)


def test_a_subgraph_is_all_between_input_and_output() -> None:
    graph, _ = chain()
    layers = Layers(graph)
    order = [layer.id for layer in layers.all]
    assert subgraph_layers(layers, [[order[0], order[3]]]) == tuple(order[1:4])
    assert subgraph_layers(layers, [["image", order[1]]]) == tuple(order[:2])


@pytest.mark.parametrize(("floor", "reached"), [(-0.05, True), (1.0, False)])
def test_a_score_of_the_user_has_a_floor(floor: float, reached: bool) -> None:
    graph, feeds = chain()

    def score(results: Sequence[Mapping[str, np.ndarray]]) -> float:
        """How near the outputs are to those of float, 0 where they are the same."""
        pairs = zip(results, exact, strict=True)
        return -max(float(np.abs(a[n] - b[n]).max()) for a, b in pairs for n in b)

    session = Session(graph)
    exact = [session.run(feed) for feed in feeds]
    trials = Evaluator(graph, calibrate(graph, feeds), QuantizeSettings(), feeds, score=score)
    result = search(trials, SearchParams(budget=4), floor_score=floor)
    assert result.reached is reached
    assert (result.best.score >= floor) is reached
