"""One layer has one figure, whoever says it, over the same samples."""

from __future__ import annotations

import math

import pytest

from engine.accuracy import analyse, noisiest
from engine.accuracy.evaluate import evaluate
from engine.accuracy.histograms import tensor_histograms
from engine.base.errors import UsageError
from engine.base.events import NullReporter
from engine.build import ErrorFigure, LayerError
from engine.report import gain_text, sqnr_rank, sqnr_text
from tests.accuracy.build import built
from tests.accuracy.build import feeds as inputs


def _same(one: ErrorFigure, other: ErrorFigure) -> bool:
    assert (one.samples, one.scope) == (other.samples, other.scope)
    assert one.cosine == pytest.approx(other.cosine, abs=1e-6)
    return _equal(one.sqnr_db, other.sqnr_db)


def _equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return one == pytest.approx(other, abs=1e-3)


def test_build_ranking_and_histograms_say_the_same_of_a_layer() -> None:
    _, quantized = built()
    feeds = inputs(3)
    _, layers = evaluate(quantized, feeds, NullReporter())
    ranking = {row.tensor: row for row in analyse(quantized, feeds).layers}
    assert len(layers) > 5
    for layer in layers:
        row = ranking[layer.tensor]
        seen = tensor_histograms(quantized, lambda: feeds, layer.tensor, 8)
        assert layer.samples == 3
        assert row.cumulative is not None
        assert row.isolated is not None
        assert _equal(layer.sqnr_db, row.sqnr)
        assert seen.cosine is not None
        assert _same(layer, ErrorFigure(seen.sqnr_db, seen.cosine, seen.samples))
        assert sum(seen.golden) == sum(seen.simulated) > 0
        assert seen.saturation == row.saturation
    with pytest.raises(UsageError, match="No layer"):
        tensor_histograms(quantized, lambda: feeds, "x", 8)


def test_the_noisiest_layers_come_first_and_equal_ones_never() -> None:
    _, quantized = built()
    report = analyse(quantized, inputs(1))
    found = noisiest(report, 100)
    own = [layer.isolated_sqnr for layer in found]
    assert None not in own
    assert own == sorted(own, key=sqnr_rank)
    assert noisiest(report, 2) == found[:2]
    assert "x" not in {layer.tensor for layer in found}, "an input has no noise"


def test_a_figure_is_written_in_one_way() -> None:
    assert [sqnr_text(value) for value in (30.126, None, math.inf)] == [
        "30.13 dB",
        "equal",
        "equal",
    ]
    assert (sqnr_text(-300.0, unit=False), sqnr_text(9.96, digits=1)) == ("-300.00", "10.0 dB")
    assert [gain_text(value) for value in (1.0, -0.25, None)] == ["+1.00 dB", "-0.25 dB", "all"]
    worst = LayerError(None, 1.0, 2, layer="a", op="Conv", tensor="a")
    assert sqnr_rank(worst.sqnr_db) == math.inf
