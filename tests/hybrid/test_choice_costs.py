"""Hybrid quantization within a budget of time, and what each choice costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.base.events import NullReporter
from engine.hybrid import Evaluator, Layers, propose, search
from engine.hybrid.noise_model import ChoiceCost
from engine.quantize import Quantized, QuantizeSettings, calibrate, quantize
from engine.services.hybrid import effect, table
from engine.services.hybrid import propose as propose_job
from engine.wire.hybrid import SearchParams
from tests.hybrid.nets import chain


class Prices:
    """A layer in float16 adds a millisecond; the ``dear`` one adds a hundred.

    Moves between lifted layers are free.
    """

    chip = "rk3588"

    def __init__(self, dear: str, free: frozenset[str] = frozenset()) -> None:
        self.dear, self.free = dear, free

    def of(self, choices: Mapping[str, str]) -> ChoiceCost:
        extra = sum(100 if name == self.dear else 1 for name in choices if name not in self.free)
        return ChoiceCost(10.0 + extra, 1000 + 10 * len(choices))


class Nothing:
    """No estimate."""

    chip = "rk3588"

    def of(self, choices: Mapping[str, str]) -> None:
        return None


@pytest.fixture(scope="module")
def built() -> tuple[Quantized, Evaluator]:
    graph, feeds = chain()
    seen = calibrate(graph, feeds)
    return quantize(graph, seen), Evaluator(graph, seen, QuantizeSettings(), feeds)


def test_a_proposal_keeps_to_the_time(built: tuple[Quantized, Evaluator]) -> None:
    quantized, trials = built
    feeds = trials.feeds[:1]
    usual = propose(quantized, feeds, budget=2, costs=Prices(""))
    best = usual.ranking[0].id
    assert usual.chip == "rk3588"
    assert usual.time_before_ms == 10.0
    assert usual.time_after_ms == 10.0 + len(usual.layers)
    for row in usual.ranking:
        assert row.gain_per_ms == pytest.approx(row.gain_db / row.promote_ms)
    cheap = propose(quantized, feeds, budget=2, costs=Prices(best), budget_ms=20.0)
    assert best not in cheap.layers
    assert cheap.time_after_ms <= 20.0
    none = propose(quantized, feeds, budget=2, costs=Prices(best), budget_ms=10.5)
    assert none.layers == {}
    plain = propose(quantized, feeds, budget=2)
    assert plain.layers == usual.layers
    assert (plain.chip, plain.time_after_ms, plain.ranking[0].promote_ms) == ("", None, None)


def test_a_search_keeps_to_the_time(built: tuple[Quantized, Evaluator]) -> None:
    _, trials = built
    trials.reporter = NullReporter()
    usual = search(trials, SearchParams(budget=2), Prices(""))
    assert [point.time_ms for point in usual.curve] == [
        10.0 + len(point.layers) for point in usual.curve
    ]
    dear = usual.curve[1].layer
    found = search(trials, SearchParams(budget_ms=12.5), Prices(dear))
    assert dear not in found.best.promoted
    assert found.best.time_ms <= 12.5
    assert found.ended in ("budget", "nothing more")
    nothing = search(trials, SearchParams(budget_ms=10.5), Prices(dear))
    assert (nothing.best.promoted, nothing.ended) == ((), "budget")
    names = [layer.id for layer in Layers(trials.graph).all]
    lowered = search(
        trials, SearchParams(floor_db=20.0, demote=True, budget_ms=10.0 + len(names)), Prices("")
    )
    assert lowered.best.time_ms <= 10.0 + len(names)


def test_a_budget_of_time_needs_an_estimate(built: tuple[Quantized, Evaluator]) -> None:
    quantized, trials = built
    with pytest.raises(UsageError, match="needs an estimate"):
        propose(quantized, trials.feeds[:1], budget_ms=5.0)
    with pytest.raises(UsageError, match="needs an estimate"):
        search(trials, SearchParams(budget_ms=5.0), Nothing())
    found = search(trials, SearchParams(budget=1), Nothing())  # without a budget it goes on
    assert found.best.time_ms is None


def test_the_table_of_a_build_has_the_times_of_its_chip(demo: Path) -> None:
    recipe = {
        "model": str(demo / "digits_demo.onnx"),
        "dataset": str(demo / "dataset.txt"),
        "mean_values": [[127.5]],
        "std_values": [[127.5]],
        "dataset_count": 8,
    }
    plain = table({"recipe": recipe})
    assert plain["chip"] == ""
    assert all(row["time_ms"] is None for row in plain["rows"])
    timed = {**recipe, "target_platform": "rk3588"}
    found = table({"recipe": timed})
    assert found["chip"] == "rk3588"
    assert found["time_ms"] > 0
    known = [row for row in found["rows"] if row["time_ms"] is not None]
    assert len(known) >= 6
    assert {row["target"] for row in known} <= {"NPU", "CPU"}
    # in float16 the weights take twice the bytes
    layer = next(row for row in known if row["layer"] == "/stage1/stage1.1/pointwise/Conv")
    assert layer["promote_bytes"] > 0
    tried = effect({"recipe": timed, "layers": {layer["layer"]: "float16"}}, NullReporter())
    assert tried["time_before_ms"] == found["time_ms"]
    assert tried["time_ms"] > 0
    tight = {"recipe": timed, "budget": 2, "budget_ms": found["time_ms"] / 2}
    assert propose_job(tight, NullReporter())["layers"] == {}
    with pytest.raises(UsageError, match="needs an estimate"):
        propose_job({"recipe": recipe, "budget_ms": 5.0}, NullReporter())
