"""Comparisons with a float model whose outputs are no numbers."""

from __future__ import annotations

import numpy as np
import pytest

from engine.base.errors import SimulationError
from engine.base.events import NullReporter
from engine.jobs.evaluate import evaluate
from rknntui.cli.commands.accuracy import _lines
from tests.quantize.models import Net


def _evaluated(value: float) -> tuple[float | None, float]:
    """SQNR and cosine of the logarithm of a value, against that of 1."""
    net = Net()
    graph = net.graph(net.op("Log", net.op("Abs", net.input(1, 2))))
    other = Net()
    simulated = other.graph(
        other.op("Log", other.op("Add", other.input(1, 2), other.constant(1.0)))
    )
    (output,), _ = evaluate(
        graph, simulated, [{"input0": np.full((1, 2), value, np.float32)}], NullReporter()
    )
    return output.sqnr_db, output.cosine


def test_an_infinite_output_has_the_worst_figures() -> None:
    sqnr, cosine = _evaluated(0.0)
    assert sqnr is not None
    assert sqnr <= -300
    assert cosine == 0.0


def test_an_output_that_is_not_a_number_is_named() -> None:
    with pytest.raises(SimulationError, match="not a number"):
        _evaluated(float("nan"))


def test_rows_of_nan_are_printed_and_not_called_equal() -> None:
    nothing = {"cosine": None, "euclidean": None}  # what JSON makes of NaN
    layer = {"name": "y", "op": "Log", "dtype": "float32", "sqnr": None, "own_sqnr": None}
    layer |= {"own_share": None, "saturation": None, "damage": None, "sources": ["y"]}
    text = "\n".join(_lines({"layers": [{**layer, "entire": nothing, "single": nothing}]}))
    assert text.count("nan") == 6
    assert "equal" not in text
