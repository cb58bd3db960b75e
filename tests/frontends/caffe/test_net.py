"""What of a prototxt becomes the net: phases, old forms, inputs, outputs, names, weights."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.frontends.load import find_source, inspect_source, load_source
from tests.frontends.caffe.nets import (
    caffemodel,
    chunk,
    floats,
    inputs,
    layer,
    load,
    run,
    source_of,
    write,
)

X = floats(1, 1, 3, 6, 6)
W, B = floats(2, 4, 3, 3, 3), floats(3, 4)
CONV = 'bottom: "data" top: "c" convolution_param { num_output: 4 kernel_size: 3 }'


def _codes(loaded) -> list[str]:
    return [finding.code for finding in loaded.findings]


def test_a_layer_in_place_keeps_the_name_of_the_blob_for_its_last_value(tmp_path: Path) -> None:
    net = inputs(data=X.shape) + f'layer {{ name: "conv" type: "Convolution" {CONV} }}'
    net += layer("ReLU", "c", "c", "", "relu") + layer("Power", "c", "c", "", "last")
    loaded = load(tmp_path, net, {"conv": [W, B]})
    assert [spec.name for spec in loaded.graph.outputs] == ["c"]
    assert set(loaded.graph.values) >= {"data", "c", "c/conv", "c/relu"}
    before = load(tmp_path, net, {"conv": [W, B]}, outputs=("conv", "relu", "c"))
    values = list(run(before, X).values())
    assert (values[0] < 0).any()
    assert np.array_equal(np.maximum(values[0], 0), values[1])
    assert np.array_equal(values[1], values[2])


def test_outputs_are_in_the_order_of_their_last_layers(tmp_path: Path) -> None:
    """As toolkit 2.3.2 gives them, which its example of a VGG-SSD counts on."""
    net = inputs(data=X.shape)
    for name in ("zeta", "alpha", "mid"):
        net += layer("AbsVal", "data", name, "", f"make_{name}")
    assert [spec.name for spec in load(tmp_path, net, {}).graph.outputs] == ["zeta", "alpha", "mid"]
    net += layer("ReLU", "zeta", "zeta", "", "again")
    assert [spec.name for spec in load(tmp_path, net, {}).graph.outputs] == ["alpha", "mid", "zeta"]


def test_dropout_in_place_and_layers_that_change_the_input(tmp_path: Path) -> None:
    net = inputs(data=X.shape) + layer("Power", "data", "data", "power_param { scale: 2 }", "twice")
    net += layer("ReLU", "data", "r", "", "relu") + layer("Dropout", "r", "r", "", "drop")
    net += layer("AbsVal", "r", "fc:weight", "", "end") + layer("Split", "r", "a b", "", "split")
    loaded = load(tmp_path, net, {})
    assert [spec.name for spec in loaded.graph.inputs] == ["data"]
    found = run(loaded, X)
    assert list(found) == ["fc:weight", "a", "b"]
    assert np.array_equal(found["a"], np.maximum(2 * X, 0))
    cut = load(tmp_path, net, {}, outputs=("data", "drop", "a"))
    assert np.array_equal(run(cut, X)["data/twice"], 2 * X)


V1 = """
name: "old"
input: "data"
input_dim: 1 input_dim: 3 input_dim: 6 input_dim: 6
layers { name: "conv" type: CONVOLUTION bottom: "data" top: "c" blobs_lr: 1 weight_decay: 0
  convolution_param { num_output: 4 kernel_size: 3 } }
layers { name: "relu" type: RELU bottom: "c" top: "c" }
layers { name: "prob" type: SOFTMAX bottom: "c" top: "prob" }
"""


@pytest.mark.parametrize("how", [{"legacy": True}, {}, {"double": True}])
def test_v1_layers_with_blobs_of_every_form(tmp_path: Path, how: dict) -> None:
    bias = B.reshape(1, 1, 1, 4) if how.get("legacy") else B
    found = run(load(tmp_path, V1, caffemodel({"conv": [W, bias], "relu": []}, v1=True, **how)), X)
    new = inputs(data=X.shape) + f'layer {{ name: "conv" type: "Convolution" {CONV} }}'
    new += layer("ReLU", "c", "c", "", "relu") + layer("Softmax", "c", "prob", "", "prob")
    wanted = run(load(tmp_path, new, {"conv": [W, B]}), X)
    assert np.array_equal(found["prob"], wanted["prob"])


def test_the_oldest_layers_are_refused_with_the_way_out(tmp_path: Path) -> None:
    net = '\nlayers { layer { name: "c" type: "conv" num_output: 4 } bottom: "data" top: "c" }'
    with pytest.raises(UnsupportedOperatorError, match="upgrade_net_proto_text"):
        load(tmp_path, 'input: "data" input_dim: [1, 3, 6, 6] ' + net, {})


@pytest.mark.parametrize(
    "declared",
    [
        "input: 'data' input_dim: 1 input_dim: 3 input_dim: 6 input_dim: 6",
        "input: 'data' input_shape { dim: 1 dim: 3 dim: 6 dim: 6 }",
        "input: 'data' input_shape: < dim: [1, 3, 0x6, 06] >",
        "layer { name: 'd' type: 'Input' top: 'data' input_param { shape: { dim: [1,3,6,6] } } }",
    ],
)
def test_inputs_in_every_form(tmp_path: Path, declared: str) -> None:
    loaded = load(tmp_path, declared + layer("ReLU", "data"), {})
    (spec,) = loaded.graph.inputs
    assert (spec.name, spec.shape, spec.dtype) == ("data", (1, 3, 6, 6), "float32")


TRAINING = """
layer { name: "train" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  transform_param { crop_size: 9 mirror: true } data_param { source: "x" batch_size: 64 } }
layer { name: "test" type: "Data" top: "data" top: "label" include { phase: TEST }
  transform_param { crop_size: 6 mean_value: 104 } data_param { source: "x" batch_size: 50 } }
layer { name: "parts" type: "Slice" bottom: "label" top: "l1" top: "l2" }
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc"
  param { lr_mult: 1 decay_mult: 1 } inner_product_param { num_output: 2 } }
layer { name: "drop" type: "Dropout" bottom: "fc" top: "fc" include { phase: TRAIN } }
layer { name: "acc" type: "Accuracy" bottom: "fc" bottom: "l1" top: "acc" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "l1" top: "loss" }
layer { name: "other" type: "EuclideanLoss" bottom: "fc" bottom: "l2" top: "l2loss" }
"""


def test_a_net_for_training_becomes_the_one_for_deploying(tmp_path: Path) -> None:
    w, b = floats(1, 2, 108), floats(2, 2)
    loaded = load(tmp_path, TRAINING, {"fc": [w, b]})
    assert [(spec.name, spec.shape) for spec in loaded.graph.inputs] == [("data", (1, 3, 6, 6))]
    assert [spec.name for spec in loaded.graph.outputs] == ["prob"]
    expected = {"phase-chosen", "loss-made-softmax", "training-layers-left-out"}
    assert expected | {"data-layer-made-input"} == set(_codes(loaded))
    scores = np.exp(X.reshape(1, -1) @ w.T + b)
    assert np.abs(run(loaded, X)["prob"] - scores / scores.sum()).max() < 1e-5


def test_stages_and_levels(tmp_path: Path) -> None:
    net = inputs(data=X.shape)
    for name, rule in {
        "deploy": 'include { stage: "deploy" }',
        "val": 'include { stage: "val" }',
        "not": 'exclude { stage: "deploy" }',
        "level": "include { min_level: 1 }",
        "low": "include { max_level: 0 }",
    }.items():
        net += layer("ReLU", "data", name, rule, name)
    loaded = load(tmp_path, net, {})
    assert [spec.name for spec in loaded.graph.outputs] == ["deploy", "low"]


def test_several_inputs_in_the_order_asked_for(tmp_path: Path) -> None:
    net = inputs(a=(1, 2), b=(1, 3)) + layer("Concat", "a b", "y", "", "cat")
    assert [spec.name for spec in load(tmp_path, net, {}).graph.inputs] == ["a", "b"]
    for names in (("b", "a"), ("in_b", "in_a")):
        loaded = load(tmp_path, net, {}, input_name=names, input_size_list=((5,), (1, 4)))
        assert [(s.name, s.shape) for s in loaded.graph.inputs] == [("b", (1, 5)), ("a", (1, 4))]
        assert loaded.graph.outputs[0].shape == (1, 9)
    with pytest.raises(SourceModelError, match="Did you mean 'in_a'"):
        load(tmp_path, net, {}, input_name=("in_aa", "in_b"))
    with pytest.raises(SourceModelError, match="each input once"):
        load(tmp_path, net, {}, input_name=("a",))


CHAIN = (
    inputs(data=X.shape)
    + f'layer {{ name: "conv" type: "Convolution" {CONV} }}'
    + layer("ReLU", "c", "r", "", "relu")
    + layer("DetectionOutput", "r", "boxes", "", "detect")
    + layer("Softmax", "boxes", "z", "", "end")
)


def test_outputs_cut_before_a_layer_that_is_refused(tmp_path: Path) -> None:
    blobs = {"conv": [W, B]}
    with pytest.raises(UnsupportedOperatorError, match=r"outputs=\['r'\]"):
        load(tmp_path, CHAIN, blobs)
    assert run(load(tmp_path, CHAIN, blobs, outputs=("r",)), X)["r"].shape == (1, 4, 4, 4)
    by_layer = load(tmp_path, CHAIN, blobs, outputs=("relu", "c"))
    assert [spec.name for spec in by_layer.graph.outputs] == ["r", "c"]
    with pytest.raises(SourceModelError, match="Did you mean 'relu'"):
        load(tmp_path, CHAIN, blobs, outputs=("rellu",))
    with pytest.raises(SourceModelError, match="listed twice"):
        load(tmp_path, CHAIN, blobs, outputs=("r", "relu"))


def test_one_cut_keeps_all_that_can_be_converted(tmp_path: Path) -> None:
    detector = (
        inputs(data=X.shape, info=(1, 3))
        + layer("AbsVal", "data", "loc", "", "loc")
        + layer("PriorBoxClustered", "loc data", "priors", "", "priors")
        + layer("Softmax", "data", "conf", "", "conf")
        + layer("DetectionOutput", "loc conf priors info", "boxes", "", "detect")
        + layer("ReLU", "data", "mask", "", "mask")
    )
    wanted = r"outputs=\['loc', 'conf', 'mask'\]"
    with pytest.raises(UnsupportedOperatorError, match=wanted):
        load(tmp_path, detector, {})
    found = inspect_source(source_of(tmp_path, detector, {})).findings
    assert [re.search(wanted, note.remedy) is None for note in found] == [False, False]
    assert len(load(tmp_path, detector, {}, outputs=("loc", "conf", "mask")).graph.outputs) == 3
    with pytest.raises(UnsupportedOperatorError, match="No part of the net before it"):
        load(tmp_path, inputs(data=X.shape) + layer("PSROIPooling", "data"), {})


def test_data_that_python_code_reads_is_an_input(tmp_path: Path) -> None:
    net = layer("Python", "", "data label", 'python_param { module: "voc_layers" }', "read")
    net += layer("AbsVal", "data", "score") + layer("SoftmaxWithLoss", "score label", "l", "", "l")
    with pytest.raises(SourceModelError, match="does not have the size of input 'data'"):
        load(tmp_path, net, {})
    loaded = load(tmp_path, net, {}, input_size_list=((1, 3, 5, 5),))
    assert [spec.name for spec in loaded.graph.inputs] == ["data"]
    assert "data-layer-made-input" in _codes(loaded)


def test_inputs_cut_behind(tmp_path: Path) -> None:
    loaded = load(tmp_path, CHAIN, {"conv": [W, B]}, inputs=("c",), outputs=("r",))
    assert [(s.name, s.shape) for s in loaded.graph.inputs] == [("c", (1, 4, 4, 4))]
    assert "unused-weights" in _codes(loaded)
    options = {"inputs": ("boxes",), "outputs": ("z",), "input_size_list": ((1, 7),)}
    loaded = load(tmp_path, CHAIN, {"conv": [W, B]}, **options)
    assert [(s.name, s.shape) for s in loaded.graph.outputs] == [("z", (1, 7))]
    with pytest.raises(SourceModelError, match="leaves out"):
        load(tmp_path, CHAIN, {"conv": [W, B]}, inputs=("r",), outputs=("c",))


def test_sizes_of_inputs(tmp_path: Path) -> None:
    net = inputs(data=X.shape) + layer("ReLU", "data")
    assert load(tmp_path, net, {}, input_size_list=((3, 8, 9),)).graph.outputs[0].shape == (
        *(1, 3, 8, 9),
    )
    assert "dynamic-batch-fixed" in _codes(load(tmp_path, net.replace("dim: 1", "dim: -1"), {}))
    for sizes, words in {
        ((1, 3),): "2 dimensions",
        ((1, 3, 0, 4),): "at least 1",
        (X.shape, X.shape): "2 entries",
    }.items():
        with pytest.raises(SourceModelError, match=words):
            load(tmp_path, net, {}, input_size_list=sizes)
    without = "input: 'data'" + layer("ReLU", "data")
    with pytest.raises(SourceModelError, match="does not have the size"):
        load(tmp_path, without, {})
    assert load(tmp_path, without, {}, input_size_list=((1, 5),)).graph.outputs[0].shape == (1, 5)


def test_weights_that_do_not_fit_the_net(tmp_path: Path) -> None:
    net = inputs(data=X.shape) + f'layer {{ name: "conv" type: "Convolution" {CONV} }}'
    cases = {
        "has no layer of this name": {"other": [W]},
        "Did you mean 'conv1'": {"conv1": [W, B]},
        "none with the number 1": {"conv": [W]},
        "3 blobs for it, and it takes 2": {"conv": [W, B, B]},
        "takes blob 0 with the shape 4x3x3x3": {"conv": [W[:3], B]},
    }
    for words, blobs in cases.items():
        with pytest.raises(SourceModelError, match=words):
            load(tmp_path, net, blobs)
    assert _codes(load(tmp_path, net, {"conv": [W, B], "old": [B]})) == ["unused-weights"]


def test_weights_that_a_filler_decides(tmp_path: Path) -> None:
    params = (
        "convolution_param { num_output: 3 group: 3 kernel_size: 4 stride: 2 pad: 1 "
        "bias_term: false weight_filler { type: 'bilinear' } }"
    )
    net = inputs(data=X.shape) + layer("Deconvolution", "data", "y", params)
    loaded = load(tmp_path, net, {"other": [B]})
    assert _codes(loaded) == ["unused-weights", "filled-weights"]
    # doubling by bilinear weights keeps a constant picture, apart from its rim
    found = run(loaded, np.ones(X.shape, np.float32))["y"]
    assert np.abs(found[:, :, 1:-1, 1:-1] - 1).max() < 1e-6


def test_random_weights_are_those_of_the_seed_and_shared_by_name(tmp_path: Path) -> None:
    net = inputs(x=(1, 8))
    for name in ("a", "b"):
        params = "param { name: 'w' } param { name: 'b' } inner_product_param { num_output: 4 }"
        net += layer("InnerProduct", "x", name, params, name)
    net += layer("InnerProduct", "x", "c", "inner_product_param { num_output: 4 }", "c")
    loaded = load(tmp_path, net)
    assert _codes(loaded) == ["random-weights"]
    found = run(loaded, floats(1, 1, 8))
    assert np.array_equal(found["a"], found["b"])
    assert not np.array_equal(found["a"], found["c"])


def test_no_weights_is_an_error_where_nobody_asked_for_random_ones(tmp_path: Path) -> None:
    net = inputs(data=X.shape) + layer("ReLU", "data", "r", "", "relu")
    assert load_source(find_source(write(tmp_path, net))).graph.outputs[0].name == "r"
    path = write(tmp_path, net + layer("PReLU", "r"))
    with pytest.raises(SourceModelError, match="no caffemodel was given"):
        load_source(find_source(path))


def test_half_floats_of_a_fork_are_refused(tmp_path: Path) -> None:
    half = chunk(7, chunk(1, b"\x04")) + chunk(12, bytes(8))
    data = chunk(100, chunk(1, b"it") + chunk(7, half))
    with pytest.raises(SourceModelError, match="another kind of numbers"):
        load(tmp_path, inputs(data=X.shape) + layer("Bias", "data"), data)


def test_parameters_of_forks_are_kept_and_told(tmp_path: Path) -> None:
    net = inputs(data=X.shape) + layer(
        "ReLU", "data", "y", "relu_param { fancy: 3 } new_param { x { y: 'z' } }"
    )
    source = source_of(tmp_path, net, {})
    (finding,) = load_source(source).findings
    assert finding.code == "unknown-parameter"
    assert "relu_param.fancy" in finding.what
    (last,) = inspect_source(source).layers
    assert last.attributes == (("relu_param.fancy", "3"), ("new_param.x.y", "z"))


def test_a_look_names_what_a_load_will_refuse(tmp_path: Path) -> None:
    net = CHAIN + layer("Pooling", "c", "p", "pooling_param { pool: STOCHASTIC }", "pool")
    summary = inspect_source(source_of(tmp_path, net, {"conv": [W, B]}))
    refused = {name: (op, why) for op, name, why in summary.refused}
    assert set(refused) == {"detect", "pool"}
    assert "suppresses" in refused["detect"][1]
    assert "draws at random" in refused["pool"][1]
    assert {finding.severity for finding in summary.findings} == {"error"}
    assert {layer.name: layer.shape for layer in summary.layers}["relu"] == (1, 4, 4, 4)


def test_a_look_misses_weights(tmp_path: Path) -> None:
    summary = inspect_source(source_of(tmp_path, CHAIN, {}))
    codes = {finding.code for finding in summary.findings}
    assert codes == {"layer-refused", "weights-missing"}
    (tmp_path / "other").mkdir()
    summary = inspect_source(source_of(tmp_path / "other", CHAIN, {"conv": [W[:3], B]}))
    assert "has 3x3x3x3" in summary.refused[0][2]
    (tmp_path / "random").mkdir()
    assert not inspect_source(source_of(tmp_path / "random", CHAIN.split("\nlayer", 2)[0])).refused


BROKEN = {
    "nothing before it makes": inputs(a=(1, 2)) + layer("ReLU", "b"),
    "is made before it": inputs(a=(1, 2)) + layer("ReLU", "a") + layer("AbsVal", "a"),
    "no layers for the phase TEST": "layer { name: 'a' type: 'ReLU' include { phase: TRAIN } }",
    "has no outputs": inputs(a=(1, 2)) + layer("ReLU", "a") + layer("Silence", "y", "", "", "s"),
    "has no inputs": 'layer { name: "i" type: "ContinuationIndicator" top: "i" '
    "continuation_indicator_param { time_step: 2 batch_size: 1 } }",
    "either include or exclude": inputs(a=(1, 2))
    + layer("ReLU", "a", "y", "include { phase: TEST } exclude { phase: TRAIN }"),
    "bias_term is given 2 times": inputs(a=(1, 2))
    + layer("Scale", "a", "y", "scale_param { bias_term: true bias_term: false }"),
    "32 bits": inputs(a=(1, 99999999999)) + layer("ReLU", "a"),
    "no more than a memory holds": inputs(a=(60000, 60000)) + layer("ReLU", "a"),
}


@pytest.mark.parametrize("words", BROKEN)
def test_nets_that_are_none(tmp_path: Path, words: str) -> None:
    with pytest.raises(SourceModelError, match=words):
        load(tmp_path, BROKEN[words], {})
