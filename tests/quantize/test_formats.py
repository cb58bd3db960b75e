"""Quantized dtypes: number formats, the chips that have them, and what the QDQ graph stores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import options
from engine.base.errors import QuantizationError
from engine.facts import chips
from engine.quantize import Observations, QuantizeSettings, calibrate, quantize, to_float16
from engine.quantize.dtypes.formats import (
    LAYER_DTYPES,
    SCHEMES,
    Format,
    check_dtype,
    check_layer_dtype,
    resolve_dtype,
)
from engine.quantize.dtypes.scheme import activation_params, weight_params
from tests.quantize.models import Net, quantize_net, seen_cnn, small_cnn

FORMATS = {scheme.activation for scheme in SCHEMES.values()} | {
    scheme.weight for scheme in SCHEMES.values()
}
INTEGERS = sorted((form for form in FORMATS if not form.is_float), key=repr)
finite = st.floats(-1e6, 1e6, width=32)


@pytest.mark.parametrize("form", INTEGERS, ids=lambda f: f"{f.kind}-{f.dtype}-{f.low}")
@given(a=finite, b=finite)
@settings(max_examples=25)
def test_every_format_holds_its_range(form: Format, a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    params = weight_params(np.array([low, high], np.float32), None, None, 1.0, form)
    values = np.linspace(min(low, 0.0), max(high, 0.0), 101).astype(np.float32)
    stored = params.quantize(values)
    assert stored.min() >= form.low
    assert stored.max() <= form.high
    # the rounded zero point moves the range by up to half a step
    assert np.abs(params.dequantize(stored) - values).max() <= 1.01 * params.scale[0]
    assert params.dequantize(params.quantize(np.zeros(1, np.float32)))[0] == 0.0


@given(finite, finite)
@settings(max_examples=40)
def test_dynamic_fixed_point_has_the_finest_power_of_two(a: float, b: float) -> None:
    for bits, scheme in ((8, "dynamic_fixed_point-8"), (16, "w16a16i_dfp")):
        params = activation_params(min(a, b), max(a, b), form=SCHEMES[scheme].activation)
        scale, largest = params.scale[0], max(abs(a), abs(b))
        assert np.log2(scale) == round(np.log2(scale))
        assert params.zero_point == (0,)
        top = 2 ** (bits - 1) - 1
        assert params.limits == (-top, top)
        if largest > 1e-10:
            assert largest <= top * scale  # nothing saturates
            assert largest > top * scale / 2  # and half the step would
        with np.errstate(over="ignore"):
            far = params.quantize(np.array([-1e30, 1e30], np.float32))
        np.testing.assert_array_equal(far, [-top, top])


@pytest.mark.parametrize(
    ("dtype", "having"),
    [
        ("asymmetric_quantized-u8", {"rk1808", "rk3399pro", "rv1109", "rv1126"}),
        ("dynamic_fixed_point-16", {"rk1808", "rk3399pro", "rv1109", "rv1126"}),
        ("w8a16", {"rk3562"}),
        ("w4a16", {"rk3576"}),
        ("w16a16i", {"rv1103", "rv1106"}),
        ("w16a16i_dfp", {"rv1103", "rv1106"}),
        ("asymmetric_quantized-8", {"rk3566", "rk3568"}),
    ],
)
def test_a_chip_takes_its_own_dtypes_only(dtype: str, having: set[str]) -> None:
    for chip in chips():
        if chip.name in having:
            assert check_dtype(dtype, chip.name) == ()
        elif resolve_dtype(dtype, chip.name) == dtype:
            with pytest.raises(QuantizationError, match=chip.name) as caught:
                check_dtype(dtype, chip.name)
            assert all(name in caught.value.cause for name in having)
    assert check_dtype(dtype) == ()


def test_the_older_name_means_w8a8_on_newer_chips() -> None:
    assert resolve_dtype("asymmetric_quantized-8", "rk3588") == "w8a8"
    assert resolve_dtype("asymmetric_quantized-8", "rk3566") == "asymmetric_quantized-8"
    assert resolve_dtype("asymmetric_quantized-8") == "asymmetric_quantized-8"
    assert check_dtype("asymmetric_quantized-8", "rk3588s") == ()
    with pytest.raises(QuantizationError):
        check_dtype("asymmetric_quantized-8", "rk2118")


@pytest.mark.parametrize("dtype", ["w4a8", "asymmetric_quantized-16"])
def test_a_dtype_of_no_chip_simulates_with_a_warning(dtype: str) -> None:
    net, graph = small_cnn()
    done = quantize_net(graph, net.feeds(1), dtype=dtype)
    assert [finding.code for finding in done.findings] == ["no-chip-has-dtype"]
    for chip in chips():
        with pytest.raises(QuantizationError, match="does not have"):
            check_dtype(dtype, chip.name)


def test_dtypes_of_single_layers_by_chip() -> None:
    assert check_layer_dtype("float16", "rk3588") == ()
    assert check_layer_dtype("float32", "rv1126") == ()
    for dtype, target in (("float32", "rk3588"), ("int16", "rk3588"), ("float16", "rv1106")):
        with pytest.raises(QuantizationError, match=target):
            check_layer_dtype(dtype, target)
    assert [f.code for f in check_layer_dtype("int16")] == ["no-chip-has-dtype"]


def test_unknown_names() -> None:
    for call in (lambda: check_dtype("w8a8", "rk3589"), lambda: check_layer_dtype("float61")):
        with pytest.raises(QuantizationError) as caught:
            call()
        assert "rk3588" in caught.value.remedy or "float16" in caught.value.remedy


@pytest.mark.parametrize("dtype", sorted(SCHEMES))
def test_the_graph_stores_what_the_dtype_says(dtype: str) -> None:
    net, graph = small_cnn()
    done = quantize_net(graph, net.feeds(2), dtype=dtype)
    onnx.checker.check_model(done.graph.to_proto(), full_check=True)
    scheme = SCHEMES[dtype]
    assert done.table["Relu_2_0"].dtype == scheme.activation.dtype
    assert done.table["Relu_2_0"].narrow == (scheme.activation.kind == "dynamic_fixed_point")
    weight = done.table["constant0"]
    assert weight.dtype == scheme.weight.dtype
    per_channel = scheme.per_channel and not scheme.weight.is_float
    assert weight.axis == (0 if per_channel else None)
    stored = {tensor.dtype.name.lower() for tensor in done.graph.model.graph.initializers.values()}
    assert scheme.weight.dtype in stored
    assert ("int32" in stored) == (scheme.bias == "int32")


def test_weights_that_half_precision_cannot_hold_are_named() -> None:
    net = Net()
    out = net.op("Conv", net.input(1, 2, 4, 4), net.normal(3, 2, 1, 1, scale=1e6))
    done = to_float16(net.graph(out))
    assert [f.code for f in done.findings] == ["float16-overflow"]
    assert "Conv_1" in done.findings[0].what


def test_activations_that_half_precision_cannot_hold_are_named() -> None:
    net = Net()
    x = net.input(1, 8)
    big = net.op("Gemm", x, net.normal(8, 4, scale=1e4))
    graph = net.graph(net.op("Sigmoid", big))
    seen = calibrate(graph, net.feeds(3, scale=20.0))
    done = quantize(graph, seen, QuantizeSettings(layers={big: "float16"}))
    assert [f.where for f in done.findings if f.code == "float16-overflow"] == ["Gemm_1"]
    assert quantize(graph, seen).findings == ()


def test_float16_needs_no_calibration() -> None:
    _, graph = small_cnn()
    done = to_float16(graph)
    assert {params.dtype for params in done.table.values()} == {"float16"}
    assert done.graph.outputs == graph.outputs
    with pytest.raises(QuantizationError, match="not watched"):
        quantize(
            graph,
            Observations(0, {}),
            QuantizeSettings(dtype="float16", layers={"Conv_5_0": "int8"}),
        )


def test_an_algorithm_without_ranges_to_choose_is_told() -> None:
    graph, seen = seen_cnn(1)
    done = quantize(graph, seen, QuantizeSettings(dtype="w8a16", algorithm="mmse"))
    assert [finding.code for finding in done.findings] == ["algorithm-without-effect"]
    assert quantize(graph, seen, QuantizeSettings(dtype="w8a16")).findings == ()


def test_options_and_chips_name_the_same_dtypes() -> None:
    assert set(SCHEMES) == {*options.DTYPES, "float16"}
    assert set(LAYER_DTYPES) == set(options.LAYER_DTYPES)
    assert {dtype for chip in chips() for dtype in chip.dtypes} <= set(SCHEMES)


@pytest.mark.parametrize("dtype", sorted(LAYER_DTYPES))
def test_every_layer_dtype_has_a_scheme_and_chips_as_listed(dtype: str) -> None:
    layer = LAYER_DTYPES[dtype]
    listed = [chip.name for chip in chips() if layer.listed in chip.dtypes]
    assert bool(listed) == bool(layer.listed)
    assert layer.scheme.activation.bits == layer.scheme.weight.bits


def test_the_documentation_has_the_same_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "dtypes.md").read_text(encoding="utf-8")
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and cells[0].startswith("`"):
            rows[cells[0].strip("`")] = cells[1:]
    assert set(rows) == set(SCHEMES)
    for name, (generation, weight, activation, bias, kernels, exact, having) in rows.items():
        scheme = SCHEMES[name]
        assert int(generation) == scheme.generation
        assert weight.startswith(scheme.weight.dtype)
        assert activation.startswith(scheme.activation.dtype)
        assert ("per channel" in weight) == (scheme.per_channel and not scheme.weight.is_float)
        assert (bias, kernels == "integer") == (scheme.bias, scheme.integer)
        difference, share = exact.split(", ")
        assert int(difference) == scheme.difference
        assert float(share) == pytest.approx(scheme.share, rel=0.06)
        assert having.split() == [c.name for c in chips() if name in c.dtypes] or having == "none"
        assert (having == "none") == (not any(name in c.dtypes for c in chips()))


def test_a_chip_of_float16_only_names_the_option_that_there_is() -> None:
    with pytest.raises(QuantizationError, match="rk2118 does not have") as caught:
        check_dtype("w8a8", "rk2118")
    assert "do_quantization" in caught.value.remedy  # float16 is no value of quantized_dtype
