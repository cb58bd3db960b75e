"""MXNet's two files: versions, sizes, names, what is missing and what is refused."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from engine.base.errors import EngineError, SourceModelError, UnsupportedOperatorError
from engine.frontends.load import find_source, inspect_source, load_source
from engine.frontends.mxnet.files import read_params
from engine.frontends.source import LoadOptions
from engine.graph.ir.verify import verify
from tests.frontends.mxnet.networks import Network, array_bytes, params_bytes, run, source
from tests.fuzz.mutate import mutant

RANDOM = np.random.default_rng(2)
WEIGHT = RANDOM.standard_normal((3, 2, 1, 1)).astype(np.float32)
X = RANDOM.standard_normal((1, 2, 4, 5)).astype(np.float32)


def small(**data: object) -> tuple[Network, tuple[int, int]]:
    """A convolution and a ReLU."""
    net = Network()
    inputs = [net.variable("data", **data), net.variable("conv_weight")]
    conv = net.add("Convolution", "conv", inputs, kernel="(1, 1)", num_filter=3, no_bias=True)
    return net, net.add("Activation", "relu", [conv], act_type="relu")


def text(**data: object) -> str:
    net, head = small(**data)
    return net.text(head)


ARRAYS = {"arg:conv_weight": WEIGHT}
EXPECTED = np.maximum(np.einsum("fc,bchw->bfhw", WEIGHT[:, :, 0, 0], X), 0)


# ------------------------------------------------------------------------------ parameters
@pytest.mark.parametrize("form", ["legacy", "V1", "V2", "V3"])
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "uint8", "int32", "int8", "int64"]
)
def test_arrays_of_every_form_and_type(form: str, dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    params = read_params(params_bytes({"arg:a": array, "b": array[0]}, form), "x.params")
    assert params.versions == (form,)
    np.testing.assert_array_equal(params.arrays["a"], array, strict=True)
    np.testing.assert_array_equal(params.arrays["b"], array[0], strict=True)


def test_booleans_brain_floats_scalars_and_arrays_without_data() -> None:
    def raw(flag: int, data: bytes) -> bytes:
        return struct.pack("<Iiiq", 0xF993FAC9, 0, 1, 2) + struct.pack("<iii", 1, 0, flag) + data

    brain = np.array([1.5, -2], ml_dtypes.bfloat16)
    scalar = struct.pack("<Iii", 0xF993FACA, 0, 0) + struct.pack("<iiif", 1, 0, 0, 7.5)
    nothing = struct.pack("<I", 0)
    arrays = {"b": raw(7, b"\1\0"), "f": raw(12, brain.tobytes()), "s": scalar, "n": nothing}
    params = read_params(params_bytes(arrays), "x.params")
    assert params.arrays["b"].tolist() == [True, False]
    assert params.arrays["f"].tolist() == [1.5, -2]
    assert (params.arrays["s"].shape, float(params.arrays["s"])) == ((), 7.5)
    assert "n" not in params.arrays


def sparse_bytes() -> bytes:
    """A row_sparse array of shape 3 x 2 that stores one row."""
    parts = struct.pack("<Ii", 0xF993FAC9, 1) + struct.pack("<iqq", 2, 1, 2)
    parts += struct.pack("<iqq", 2, 3, 2) + struct.pack("<iii", 1, 0, 0)
    parts += struct.pack("<iiq", 6, 1, 1) + struct.pack("<ff", 1, 2) + struct.pack("<q", 1)
    return parts


def test_a_sparse_weight_is_refused_by_name_and_others_do_not_matter(tmp_path: Path) -> None:
    data = params_bytes({"arg:other": sparse_bytes(), "arg:conv_weight": WEIGHT})
    load_source(source(tmp_path, text(), data, input_size_list=(X.shape,)))
    data = params_bytes({"arg:conv_weight": sparse_bytes(), "arg:b": WEIGHT})
    with pytest.raises(SourceModelError, match="'conv_weight' is stored as row_sparse"):
        load_source(source(tmp_path, text(), data, input_size_list=(X.shape,)))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\0" * 24, "does not begin with 0x112"),
        (params_bytes(ARRAYS)[:60], "bytes are needed"),
        (params_bytes(ARRAYS)[:-3], "bytes are needed"),
        (struct.pack("<QQQ", 0x112, 0, 1 << 60), "says that it has"),
        (struct.pack("<QQQII", 0x112, 0, 1, 40, 1) + b"\0" * 99, "40 dimensions"),
        (params_bytes({"": WEIGHT})[:-16] + struct.pack("<Q", 0), "without names"),
        (params_bytes(ARRAYS)[:76] + b"\x63" + params_bytes(ARRAYS)[77:], "unknown number 99"),
    ],
)
def test_damaged_parameters(tmp_path: Path, data: bytes, words: str) -> None:
    given_source = source(tmp_path, text(), data, input_size_list=(X.shape,))
    for step in (load_source, inspect_source):
        with pytest.raises(SourceModelError, match=words):
            step(given_source)


def test_weights_of_half_precision_are_said_to_be_widened(tmp_path: Path) -> None:
    half = {"arg:conv_weight": WEIGHT.astype(np.float16)}
    loaded = load_source(source(tmp_path, text(), half, input_size_list=(X.shape,)))
    assert [finding.code for finding in loaded.findings] == ["weights-to-float32"]
    np.testing.assert_allclose(run(loaded, {"data": X})[0], EXPECTED, atol=1e-2)


# --------------------------------------------------------------------------------- symbols
@pytest.mark.parametrize("key", ["attrs", "attr", "param"])
@pytest.mark.parametrize("pairs", [True, False])
def test_symbols_of_every_age(tmp_path: Path, key: str, pairs: bool) -> None:
    content = json.loads(text())
    for node in content["nodes"]:
        if "attrs" in node:
            node[key] = node.pop("attrs")
        if pairs:
            node["inputs"] = [entry[:2] for entry in node["inputs"]]
    content["heads"] = [entry[:2] for entry in content["heads"]]
    del content["attrs"]
    given_source = source(tmp_path, json.dumps(content), ARRAYS, input_size_list=(X.shape,))
    loaded = load_source(given_source)
    np.testing.assert_allclose(run(loaded, {"data": X})[0], EXPECTED, rtol=1e-5, atol=1e-5)
    assert loaded.source.format == "MXNet symbol without a version, parameters V2"


def test_states_that_old_symbols_do_not_list(tmp_path: Path) -> None:
    net = Network()
    inputs = [net.variable(name) for name in ("data", "bn_gamma", "bn_beta")]
    head = net.add("BatchNorm", "bn", inputs, fix_gamma=False)
    gamma, beta, mean, variance = RANDOM.uniform(0.5, 1, (4, 2)).astype(np.float32)
    arrays = {
        "arg:bn_gamma": gamma,
        "arg:bn_beta": beta,
        "aux:bn_moving_mean": mean,
        "aux:bn_moving_var": variance,
    }
    loaded = load_source(source(tmp_path, net.text(head), arrays, input_size_list=(X.shape,)))
    g, b, m, v = (a[:, None, None] for a in (gamma, beta, mean, variance))
    expected = (X - m) / np.sqrt(v + 1e-3) * g + b
    np.testing.assert_allclose(run(loaded, {"data": X})[0], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "no list of nodes"),
        ('{"nodes": []}', "no list of nodes"),
        ('{"nodes": [{"op": 1}]}', "node 0 has no operator"),
        (
            '{"nodes": [{"op": "relu", "name": "a", "inputs": [[0, 0]]}]}',
            "reads output 0 of node 0",
        ),
        ('{"nodes": [{"op": "relu", "name": "a", "inputs": [["x"]]}]}', "no numbers of nodes"),
        ('{"nodes": [{"op": "null", "name": "a", "inputs": []}], "heads": [[4, 0]]}', "outputs"),
    ],
)
def test_damaged_symbols(tmp_path: Path, content: str, words: str) -> None:
    given_source = source(tmp_path, content, ARRAYS, input_size_list=(X.shape,))
    with pytest.raises(SourceModelError, match=words):
        load_source(given_source)


# ------------------------------------------------------------------------- inputs and cuts
@pytest.mark.parametrize("size", [(2, 4, 5), (1, 2, 4, 5)])
def test_sizes_with_and_without_batch(tmp_path: Path, size: tuple[int, ...]) -> None:
    loaded = load_source(source(tmp_path, text(), ARRAYS, input_size_list=(size,)))
    assert [spec.shape for spec in loaded.graph.inputs] == [X.shape]
    assert [spec.name for spec in loaded.graph.outputs] == ["relu_output"]
    np.testing.assert_allclose(run(loaded, {"data": X})[0], EXPECTED, rtol=1e-5, atol=1e-5)


def _sliced() -> str:
    """A network that begins with a cut into 15 channels, which tells no number of dimensions."""
    net = Network()
    cut, _ = net.add("SliceChannel", "cut", [net.variable("data")], num_outputs=15)
    joined = net.add("Concat", "join", [(cut, 3), (cut, 14), (cut, 0)], dim=1)
    pool = net.add("Pooling", "pool", [joined], kernel="(2, 2)", pool_type="max", stride="(2, 2)")
    return net.text(pool)


@pytest.mark.parametrize("size", [(15, 4, 6), (1, 15, 4, 6)])
def test_where_one_reading_of_a_size_fails_the_other_is_right(
    tmp_path: Path, size: tuple[int, ...]
) -> None:
    given_source = source(tmp_path, _sliced(), {}, input_size_list=(size,))
    loaded = load_source(given_source)
    assert [spec.shape for spec in loaded.graph.inputs] == [(1, 15, 4, 6)]
    x = RANDOM.standard_normal((1, 15, 4, 6)).astype(np.float32)
    wanted = x[:, [3, 14, 0]].reshape(1, 3, 2, 2, 3, 2).max(axis=(3, 5))
    np.testing.assert_array_equal(run(loaded, {"data": x})[0], wanted)
    said = [f.what for f in loaded.findings if f.code == "size-without-batch"]
    assert len(said) == (len(size) == 3)
    assert not said or "[15, 4, 6]" in said[0]
    assert not said or "[1, 15, 4, 6]" in said[0]
    summary = inspect_source(given_source)
    assert [tensor.shape for tensor in summary.inputs] == [(1, 15, 4, 6)]
    assert not any(finding.severity == "error" for finding in summary.findings)


def test_where_both_readings_fail_the_size_as_given_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOperatorError, match="cut"):
        load_source(source(tmp_path, _sliced(), {}, input_size_list=((14, 4, 6),)))


def test_a_size_is_asked_for_where_the_symbol_says_none(tmp_path: Path) -> None:
    with pytest.raises(SourceModelError, match=r"no size of the input 'data'[\s\S]*\[\[1, 3"):
        load_source(source(tmp_path, text(), ARRAYS))
    summary = inspect_source(source(tmp_path, text(), ARRAYS))
    assert [tensor.shape for tensor in summary.inputs] == [None]
    assert [finding.code for finding in summary.findings] == ["size-needed"]


def test_a_size_that_the_symbol_says_is_taken_and_its_batch_fixed(tmp_path: Path) -> None:
    given_source = source(tmp_path, text(__shape__="(0, 2, 4, 5)"), ARRAYS)
    loaded = load_source(given_source)
    assert [spec.shape for spec in loaded.graph.inputs] == [(1, 2, 4, 5)]
    assert [finding.code for finding in loaded.findings] == ["dynamic-batch-fixed"]
    summary = inspect_source(given_source)
    assert [tensor.shape for tensor in summary.outputs] == [(1, 3, 4, 5)]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (((2, 4, 5), (1,)), "has 2 entries; there are 1 inputs"),
        (((5,),), "has 1 dimensions; the model's input has 4"),
        (((0, 4, 5),), "whole number of at least 1"),
        (((1 << 23, 1 << 23, 1 << 23),), "no more than a memory holds"),
    ],
)
def test_sizes_that_do_not_fit(tmp_path: Path, sizes: Any, words: str) -> None:
    with pytest.raises(SourceModelError, match=words):
        load_source(source(tmp_path, text(), ARRAYS, input_size_list=sizes))


def test_another_number_of_channels_is_refused(tmp_path: Path) -> None:
    with pytest.raises((SourceModelError, UnsupportedOperatorError), match="conv"):
        load_source(source(tmp_path, text(), ARRAYS, input_size_list=((1, 5, 4, 5),)))


@pytest.mark.parametrize("name", ["conv", "conv_output"])
def test_cuts_by_the_name_of_a_layer_or_tensor(tmp_path: Path, name: str) -> None:
    options: dict[str, Any] = {"input_size_list": (X.shape,)}
    loaded = load_source(source(tmp_path, text(), ARRAYS, outputs=(name,), **options))
    assert [spec.name for spec in loaded.graph.outputs] == ["conv_output"]
    inner = {"inputs": (name,), "input_size_list": ((1, 3, 4, 5),)}
    loaded = load_source(source(tmp_path, text(), ARRAYS, **inner))
    assert [spec.name for spec in loaded.graph.inputs] == ["conv_output"]
    conv = np.einsum("fc,bchw->bfhw", WEIGHT[:, :, 0, 0], X)
    np.testing.assert_allclose(
        run(loaded, {"conv_output": conv})[0], EXPECTED, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"outputs": ("rely",)}, "no tensor 'rely', which outputs names"),
        ({"inputs": ("convv_output",)}, "Did you mean 'conv_output'"),
        ({"outputs": ("conv", "conv_output")}, "listed twice"),
        ({"outputs": ("conv_weight",)}, "is a parameter"),
        ({"outputs": ("conv_output7",)}, "no output 7"),
    ],
)
def test_wrong_names(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(SourceModelError) as caught:
        load_source(source(tmp_path, text(), ARRAYS, input_size_list=(X.shape,), **options))
    assert words in str(caught.value)


def test_an_advised_cut_names_the_outputs_that_are_read(tmp_path: Path) -> None:
    net = Network()
    cut, _ = net.add("SliceChannel", "cut", [net.variable("data")], num_outputs=2)
    joined = net.add("_contrib_box_nms", "nms", [(cut, 1), (cut, 0), (cut, 1)])
    given_source = source(tmp_path, net.text(joined), {}, input_size_list=(X.shape,))
    with pytest.raises(UnsupportedOperatorError) as caught:
        load_source(given_source)
    assert "outputs: ['cut_output1', 'cut_output']" in caught.value.remedy
    assert inspect_source(given_source).layers[1].inputs[1:] == ("cut_output", "cut_output1")
    options = {"input_size_list": (X.shape,), "outputs": ("cut_output1", "cut_output")}
    loaded = load_source(source(tmp_path, net.text(joined), {}, **options))
    for found, half in zip(run(loaded, {"data": X}), (X[:, 1:], X[:, :1]), strict=True):
        np.testing.assert_array_equal(found, half)


def test_an_input_can_become_a_constant(tmp_path: Path) -> None:
    net = Network()
    total = net.add("elemwise_add", "sum", [net.variable("a"), net.variable("b")])
    ones = np.ones((2, 3), np.float32)
    options = {"input_size_list": ((2, 3), None), "input_initial_val": (None, ones)}
    loaded = load_source(source(tmp_path, net.text(total), {}, **options))
    assert [spec.name for spec in loaded.graph.inputs] == ["a"]
    np.testing.assert_array_equal(run(loaded, {"a": ones})[0], 2 * ones)


def test_labels_are_no_inputs_and_missing_weights_neither(tmp_path: Path) -> None:
    net, relu = small()
    flat = net.add("Flatten", "flat", [relu])
    inputs = [flat, net.variable("softmax_label")]
    symbol = net.text(net.add("SoftmaxOutput", "softmax", inputs))
    loaded = load_source(source(tmp_path, symbol, ARRAYS, input_size_list=(X.shape,)))
    assert [spec.name for spec in loaded.graph.inputs] == ["data"]
    with pytest.raises(SourceModelError, match="'conv_weight', which node 'conv' reads, is not in"):
        load_source(source(tmp_path, symbol, {}, input_size_list=(X.shape,)))


def test_without_parameters(tmp_path: Path) -> None:
    with pytest.raises(SourceModelError, match="its parameters are missing"):
        load_source(source(tmp_path, text(), None, input_size_list=(X.shape,)))
    summary = inspect_source(source(tmp_path, text(), None))
    assert "no-weights" in {finding.code for finding in summary.findings}


def test_a_look_tells_what_will_be_refused(tmp_path: Path) -> None:
    net, relu = small()
    odd = net.add("_contrib_box_nms", "nms", [relu])
    symbol = net.text(net.add("Activation", "end", [odd], act_type="relu"))
    summary = inspect_source(source(tmp_path, symbol, ARRAYS, input_size_list=(X.shape,)))
    assert [(op, name) for op, name, _ in summary.refused] == [("_contrib_box_nms", "nms")]
    assert [layer.shape for layer in summary.layers] == [(1, 3, 4, 5), (1, 3, 4, 5), None, None]
    assert summary.operators == {"Activation": 2, "Convolution": 1, "_contrib_box_nms": 1}


@pytest.mark.parametrize("number", range(60))
def test_damaged_files_give_an_error_or_a_graph(tmp_path: Path, number: int) -> None:
    symbol, params = text(__shape__="(1,2,4,5)").encode(), params_bytes(ARRAYS)
    damaged = source(tmp_path, "", mutant(params, number) if number % 2 else params)
    damaged.model.write_bytes(symbol if number % 2 else mutant(symbol, number, text=True))
    for step in (inspect_source, lambda s: verify(load_source(s).graph)):
        with contextlib.suppress(EngineError):
            step(damaged)


# ------------------------------------------------------------------------------------- zoo
@pytest.mark.parametrize(
    ("name", "model", "size"),
    [
        ("det1", "det1", (3, 12, 12)),
        ("det1_121x163", "det1", (1, 3, 121, 163)),
        ("det2", "det2", (3, 24, 24)),
        ("det3", "det3", (1, 3, 48, 48)),
    ],
)
def test_trained_networks_equal_their_references(
    zoo: Path, name: str, model: str, size: tuple[int, ...]
) -> None:
    reference = np.load(zoo / "ref" / f"mxnet_mtcnn_{name}.npz", allow_pickle=False)
    symbol = zoo / "mxnet" / f"mtcnn_{model}-symbol.json"
    loaded = load_source(find_source(symbol, None, LoadOptions(input_size_list=(size,))))
    outputs = run(loaded, {"data": reference["in:data"]})
    for spec, value in zip(loaded.graph.outputs, outputs, strict=True):
        expected = reference[f"out:{spec.name}"]
        assert value.shape == expected.shape
        assert np.abs(value - expected).max() < 1e-5


def test_array_bytes_are_those_of_the_zoo(zoo: Path) -> None:
    """The writer of these tests makes the very bytes that MXNet wrote."""
    data = (zoo / "mxnet" / "mtcnn_det1-0001.params").read_bytes()
    params = read_params(data, "det1")
    first = next(iter(params.arrays.values()))
    assert data[24:].startswith(array_bytes(first, "legacy"))
