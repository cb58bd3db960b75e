"""Number format: scales, zero points, weights, biases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.graph.ir import QuantParams
from engine.quantize.algorithms.ranges import absorbs
from engine.quantize.dtypes.scheme import (
    activation_params,
    bias_params,
    quantize_bias,
    weight_params,
)
from engine.quantize.planning.node_properties import Clamp

finite = st.floats(-1e6, 1e6, width=32)


def test_the_formula_of_an_asymmetric_range() -> None:
    params = activation_params(-1.0, 3.0)
    assert params.dtype == "int8"
    assert params.scale == (float(np.float32(4 / 255)),)
    assert params.zero_point == (round(-128 + 255 / 4),)
    assert (params.observed_minimum, params.observed_maximum) == (-1.0, 3.0)


@pytest.mark.parametrize(
    ("low", "high", "zero"), [(2.0, 6.0, -128), (-6.0, -2.0, 127), (0, 0, -128)]
)
def test_the_range_is_widened_to_contain_zero(low: float, high: float, zero: int) -> None:
    params = activation_params(low, high)
    assert params.zero_point == (zero,)
    assert params.dequantize(params.quantize(np.zeros(1, np.float32)))[0] == 0.0


@given(finite, finite)
def test_zero_is_exact_and_values_inside_lose_at_most_half_a_step(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    params = activation_params(low, high)
    values = np.linspace(min(low, 0), max(high, 0), 101).astype(np.float32)
    back = params.dequantize(params.quantize(values))
    # the rounded zero point shifts the range by up to half a step, so its ends saturate
    assert np.abs(back - values).max() <= 1.001 * params.scale[0]
    assert params.dequantize(params.quantize(np.zeros(1, np.float32)))[0] == 0.0


@given(finite, finite)
def test_a_range_from_zero_absorbs_relu(a: float, b: float) -> None:
    relu = Clamp("relu", 0.0, float("inf"))
    assert absorbs(activation_params(0.0, max(a, b, 0.0)), relu)
    signed = activation_params(-abs(b) - 1.0, abs(b))
    assert not absorbs(signed, relu)


def test_a_clip_inside_the_range_is_not_absorbed() -> None:
    params = activation_params(-1.0, 8.0)
    assert absorbs(params, Clamp("clip", -1.0, 8.0))
    assert not absorbs(params, Clamp("clip", -1.0, 6.0))


def test_weights_are_symmetric_per_channel() -> None:
    weight = np.array([[1.0, -2.0], [0.5, 0.25]], np.float32)
    params = weight_params(weight, 0, None, 1.0)
    np.testing.assert_allclose(params.scale, [2 / 127, 0.5 / 127], rtol=1e-6)
    assert params.zero_point == (0, 0)
    np.testing.assert_array_equal(params.quantize(weight), [[64, -127], [127, 64]])


def test_weights_per_tensor_have_one_scale() -> None:
    weight = np.array([[1.0, -2.0], [0.5, 0.25]], np.float32)
    params = weight_params(weight, None, None, 1.0)
    assert params.axis is None
    np.testing.assert_allclose(params.scale, [2 / 127], rtol=1e-6)


@given(st.integers(0, 2**32 - 1), st.floats(-12, 0), st.floats(-12, 3), st.booleans())
def test_every_bias_fits_the_accumulator(
    seed: int, weights: float, biases: float, per_channel: bool
) -> None:
    rng = np.random.default_rng(seed)
    weight = (rng.normal(size=(4, 3)) * 10**weights).astype(np.float32)
    weight[0] = 0
    bias = (rng.normal(size=4) * 10**biases).astype(np.float32)
    params = weight_params(weight, 0 if per_channel else None, bias, 1e-3)
    quant = bias_params(1e-3, params)
    integers = quantize_bias(bias, quant).astype(np.float64)
    assert np.abs(integers).max() <= 2**29 * 1.0001
    scale = np.asarray(quant.scale)
    assert (np.abs(integers * scale - bias) <= scale * 0.5001 + 1e-30).all()


def test_ties_round_to_even() -> None:
    params = QuantParams("int8", (1.0,), (0,))
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)
    np.testing.assert_array_equal(params.quantize(values), [0, 2, 2, 0, -2])
    bias = QuantParams("int32", (1.0,), (0,))
    np.testing.assert_array_equal(quantize_bias(values, bias), [0, 2, 2, 0, -2])
