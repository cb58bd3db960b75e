"""Advice for a model from its graph on, on chips of both generations.

yolov5s was published with SiLU and with ReLU: the one gain that can be checked.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import UsageError
from engine.cost.estimate import CostSettings, advice
from engine.facts import chips
from engine.frontends.load import find_source, load_source
from engine.graph.ir import Graph
from tests.graph.models import model


def silu_net() -> Graph:
    """A convolution of 3 channels to 40, SiLU, one of 5x5, and a Transpose at the output."""
    weights = {
        "w0": np.zeros((40, 3, 3, 3), np.float32),
        "w1": np.zeros((40, 40, 5, 5), np.float32),
    }
    nodes = (
        "[first] c0 = Conv <pads=[1, 1, 1, 1]> (x, w0); [gate] s0 = Sigmoid (c0); "
        "[swish] m0 = Mul (c0, s0); [wide] c1 = Conv <pads=[2, 2, 2, 2]> (m0, w1); "
        "[last] y = Transpose <perm=[0, 2, 3, 1]> (c1)"
    )
    return model(nodes, {"x": (1, 3, 160, 160)}, ["y"], weights)


@pytest.mark.parametrize("chip", [each.name for each in chips()])
def test_every_chip_has_advice(chip: str) -> None:
    settings = CostSettings(dtype="float16" if chip == "rk2118" else "int8")
    whole, told = advice(silu_net(), chip, settings)
    assert told
    for each in told:
        assert each.layers
        if each.gain_ms is not None:
            assert 0 < each.gain_ms <= whole.time_ms.value
    (relu,) = [each for each in told if "ReLU" in each.title]
    assert relu.gain_ms


def test_the_kernel_of_5x5_is_told_by_its_layer() -> None:
    _, told = advice(silu_net(), "rk3566", CostSettings())
    (kernel,) = [each for each in told if "3x3" in each.title]
    assert kernel.layers == ("wide",)


def test_an_unknown_chip_is_refused() -> None:
    with pytest.raises(UsageError, match="rk9999"):
        advice(silu_net(), "rk9999", CostSettings())


def joined_rows(*, convolved: bool) -> Graph:
    """A detector's head: rows of two maps, 3,600 and 500, joined; a convolution may follow."""
    nodes = ""
    weights = {"w9": np.zeros((32, 4100, 1), np.float32)} if convolved else {}
    for at, (channels, count) in enumerate(((6, 3600), (4, 500))):
        weights[f"w{at}"] = np.zeros((channels, 16, 3, 3), np.float32)
        weights[f"s{at}"] = np.array([1, count, 2])
        nodes += (
            f"c{at} = Conv <pads=[1, 1, 1, 1]> (x{at}, w{at}); "
            f"t{at} = Transpose <perm=[0, 2, 3, 1]> (c{at}); r{at} = Reshape (t{at}, s{at}); "
        )
    nodes += "[join] joined = Concat <axis=1> (r0, r1); "
    nodes += "y = Conv (joined, w9)" if convolved else "y = Sigmoid (joined)"
    inputs = {"x0": (1, 16, 30, 40), "x1": (1, 16, 10, 25)}
    return model(nodes, inputs, ["y"], weights)


def test_a_join_of_many_rows_is_told_to_be_left_to_the_program() -> None:
    whole, told = advice(joined_rows(convolved=False), "rk3588", CostSettings())
    (join,) = [each for each in told if "Concat" in each.title]
    assert join.title.startswith("End the model before")
    assert "4,100 x 4,100" in join.why
    assert join.layers[0] == "join"
    # tried: the model that ends there, with the rest on the CPU, is so much faster
    assert 0.5 * whole.time_ms.value < join.gain_ms < whole.time_ms.value
    _, others = advice(joined_rows(convolved=False), "rk3576", CostSettings())
    assert not [each for each in others if "Concat" in each.title]  # joined without a matrix


def test_a_join_that_a_convolution_reads_is_not_told_to_end_the_model() -> None:
    _, told = advice(joined_rows(convolved=True), "rk3588", CostSettings())
    (join,) = [each for each in told if "Concat" in each.title]
    assert join.title == "Give each part of these Concat layers a multiple of 16 channels"
    assert join.layers == ("join",)
    assert join.gain_ms


def test_average_pools_of_rk3566_are_told_to_be_convolutions() -> None:
    nodes = (
        "c = Conv <pads=[1, 1, 1, 1]> (x, w); [pool] y = AveragePool <kernel_shape=[3, 3], "
        "strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1> (c)"
    )
    weights = {"w": np.zeros((64, 3, 3, 3), np.float32)}
    read = model(nodes, {"x": (1, 3, 160, 160)}, ["y"], weights)
    told = {
        chip: [each for each in advice(read, chip, CostSettings())[1] if "average" in each.title]
        for chip in ("rk3566", "rk3588")
    }
    (one,) = told["rk3566"]
    assert one.layers == ("pool",)
    assert one.gain_ms > 0.8 * 64 * 80 * 80 * 9 * 5 / 0.9e6  # 5 cycles an element at 0.9 GHz
    assert not told["rk3588"]


CHIPS = ("rk1808", "rv1109", "rv1126", "rk3562", "rk3566", "rk3588")


def test_the_gain_of_relu(zoo: Path) -> None:
    rates = zoo.parent / "facts" / "published_rates.csv"
    if not rates.is_file():
        pytest.skip(f"there are no published rates at {rates}")
    with rates.open(encoding="utf-8", newline="") as file:
        ms = {
            (row["model"], row["chip"]): 1000 / float(row["fps"])
            for row in csv.DictReader(file)
            if row["model"] in ("yolov5s", "yolov5s_relu")
        }
    graph = load_source(find_source(zoo / "shapes" / "published" / "yolov5s.onnx")).graph
    for chip in CHIPS:
        published = ms["yolov5s", chip] - ms["yolov5s_relu", chip]
        _, told = advice(graph, chip, CostSettings())
        (one,) = [each for each in told if "ReLU" in each.title]
        assert one.gain_ms == pytest.approx(published, rel=0.35), chip
