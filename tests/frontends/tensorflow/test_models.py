"""Whole models as people freeze them: recurrent, branching, trained with quantization in mind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.events import NullReporter
from engine.frontends.load import find_source
from engine.frontends.loaded import Loaded
from engine.frontends.source import LoadOptions
from engine.frontends.tensorflow import load
from engine.graph.execute.session import Session
from tests.frontends.tensorflow import wire

pytestmark = [pytest.mark.long, pytest.mark.tensorflow, pytest.mark.usefixtures("installed")]

RNG = np.random.default_rng(5)
Freeze = Callable[..., Path]


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32) * 0.4


@pytest.fixture
def freeze(tf: Any, tmp_path: Path) -> Freeze:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    def frozen(function: Any, *shape: int, lower: bool = True) -> Path:
        spec = tf.TensorSpec(shape, tf.float32, name="x")
        concrete = tf.function(function).get_concrete_function(spec)
        graph = convert_variables_to_constants_v2(concrete, lower_control_flow=lower).graph
        path = tmp_path / "model.pb"
        path.write_bytes(graph.as_graph_def().SerializeToString())
        return path

    return frozen


def compare(path: Path, function: Any, *shape: int, tolerance: float = 1e-5) -> Loaded:
    x = RNG.normal(size=shape).astype(np.float32)
    loaded = load(find_source(path), NullReporter())
    assert "numbers-compared" in {f.code for f in loaded.findings}
    (found,) = Session(loaded.graph).run({loaded.graph.inputs[0].name: x}).values()
    np.testing.assert_allclose(found, np.asarray(function(x)), atol=tolerance)
    return loaded


@pytest.mark.parametrize("lower", [True, False], ids=["lowered", "functions"])
@pytest.mark.parametrize("kind", ["bidirectional", "simple", "convolutional"])
def test_recurrent_layers(tf: Any, freeze: Freeze, kind: str, lower: bool) -> None:
    keras = tf.keras
    make = keras.layers
    layers, shape = {
        "bidirectional": (
            [make.Bidirectional(make.LSTM(5, return_sequences=True)), make.GRU(4), make.Dense(3)],
            (1, 12, 6),
        ),
        "simple": ([make.SimpleRNN(5), make.Dense(3)], (1, 12, 6)),
        "convolutional": ([make.ConvLSTM2D(4, 3, padding="same")], (1, 4, 8, 8, 3)),
    }[kind]
    model = keras.Sequential([keras.Input(shape[1:]), *layers])
    path = freeze(lambda x: model(x, training=False), *shape, lower=lower)
    compare(path, lambda x: model(x, training=False), *shape)


@pytest.mark.parametrize("lower", [True, False], ids=["lowered", "functions"])
def test_loops_in_loops(tf: Any, freeze: Freeze, lower: bool) -> None:
    def nested(x: Any) -> Any:
        y, i = tf.zeros_like(x), tf.constant(0)
        while i < 4:
            j = tf.constant(0)
            while j < i:
                y, j = y + x * tf.cast(j, tf.float32), j + 1
            if i % 2 == 0:
                y = y * 0.5
            i += 1
        return y

    path = freeze(nested, 2, 3, lower=lower)
    loaded = compare(path, tf.function(nested), 2, 3)
    assert "control-flow-resolved" in {f.code for f in loaded.findings}


def test_a_branch_that_data_take_needs_its_functions(tf: Any, freeze: Freeze) -> None:
    def branch(x: Any) -> Any:
        return x * 2.0 if tf.reduce_sum(x) > 0 else x - 1.0

    compare(freeze(branch, 2, 3, lower=False), tf.function(branch), 2, 3)
    with pytest.raises(SourceModelError, match="The data decide") as caught:
        load(find_source(freeze(branch, 2, 3, lower=True)), NullReporter())
    assert "lower_control_flow=False" in caught.value.remedy


@pytest.mark.parametrize("name", ["MobileNetV2", "MobileNetV3Small", "EfficientNetB0"])
def test_networks_of_keras(tf: Any, freeze: Freeze, name: str) -> None:
    tf.keras.utils.set_random_seed(1)
    model = getattr(tf.keras.applications, name)(input_shape=(64, 64, 3), weights=None)
    path = freeze(lambda x: model(x, training=False), 1, 64, 64, 3)
    compare(path, lambda x: model(x, training=False), 1, 64, 64, 3)


def test_grouped_convolutions_that_keras_wraps_and_its_argmax(tf: Any, freeze: Freeze) -> None:
    keras, make = tf.keras, tf.keras.layers
    picture = keras.Input((8, 8, 4))
    x = make.Conv2D(8, 3, padding="same", groups=2)(picture)
    x = make.Conv2D(8, 7, padding="same", groups=8, activation="gelu")(x)
    model = keras.Model(picture, x)
    compare(freeze(lambda y: model(y, training=False), 1, 8, 8, 4), model, 1, 8, 8, 4)
    classes = keras.Model(picture, keras.ops.argmax(x, axis=-1))
    compare(freeze(lambda y: classes(y, training=False), 1, 8, 8, 4), classes, 1, 8, 8, 4)


def test_attention(tf: Any, freeze: Freeze) -> None:
    keras, make = tf.keras, tf.keras.layers
    inner = keras.Input((10, 16))
    x = make.MultiHeadAttention(2, 8)(inner, inner)
    x = make.LayerNormalization()(x + inner)
    x = make.Dense(32, activation="gelu")(x)
    x = make.Conv1D(8, 3, padding="causal", dilation_rate=2)(x)
    model = keras.Model(inner, make.GlobalAveragePooling1D()(x))
    path = freeze(lambda x: model(x, training=False), 1, 10, 16)
    compare(path, lambda x: model(x, training=False), 1, 10, 16)


@pytest.fixture
def graph_of_1(tf: Any, tmp_path: Path) -> Callable[[Callable[[Any], None]], Path]:
    """Writes a graph as TensorFlow 1 builds it, with its loops lowered from the start."""
    v1 = tf.compat.v1

    def written(build: Callable[[Any], None]) -> Path:
        v1.disable_control_flow_v2()
        try:
            with v1.Graph().as_default() as graph:
                build(v1)
        finally:
            v1.enable_control_flow_v2()
        path = tmp_path / "model.pb"
        path.write_bytes(graph.as_graph_def().SerializeToString())
        return path

    return written


def test_a_loop_of_tensorflow_1(tf: Any, graph_of_1: Any) -> None:
    matrix = weights(9, 5)

    def build(v1: Any) -> None:
        x = v1.placeholder(tf.float32, (None, 9, 4), name="x")
        steps = tf.transpose(x, [1, 0, 2])
        count, batch = tf.shape(steps)[0], tf.shape(steps)[1]
        read = v1.TensorArray(tf.float32, count).unstack(steps)
        write = v1.TensorArray(tf.float32, count)

        def body(step: Any, state: Any, out: Any) -> Any:
            state = tf.tanh(tf.matmul(tf.concat([read.read(step), state], 1), matrix))
            return step + 1, state, out.write(step, state)

        start = [tf.constant(0), tf.zeros([batch, 5]), write]
        _, _, out = v1.while_loop(lambda step, *_: step < count, body, start)
        tf.transpose(out.stack(), [1, 0, 2], name="out")

    def expected(x: np.ndarray) -> np.ndarray:
        state, found = np.zeros((1, 5), np.float32), []
        for step in range(9):
            state = np.tanh(np.concatenate([x[:, step], state], 1) @ matrix)
            found.append(state)
        return np.stack(found, 1)

    compare(graph_of_1(build), expected, 1, 9, 4)


def test_a_training_flag_is_predefined(tf: Any, graph_of_1: Any, tmp_path: Path) -> None:
    def build(v1: Any) -> None:
        x = v1.placeholder(tf.float32, (None, 6), name="x")
        train = v1.placeholder(tf.bool, (), name="phase/train")
        tf.identity(v1.cond(train, lambda: x * 3.0, lambda: tf.nn.relu(x)), name="out")

    path = graph_of_1(build)
    with pytest.raises(SourceModelError, match="The data decide") as caught:
        load(find_source(path), NullReporter())
    assert "predef_file" in caught.value.remedy
    x = RNG.normal(size=(1, 6)).astype(np.float32)
    for flag, wanted in ((True, x * 3), (False, np.maximum(x, 0))):
        predef = tmp_path / "prd.npz"
        np.savez(predef, **{"phase#train": np.array(flag)})  # type: ignore[arg-type]
        model = find_source(path, options=LoadOptions(predef_file=predef))
        loaded = load(model, NullReporter())
        np.testing.assert_allclose(Session(loaded.graph).run({"x:0": x})["out:0"], wanted)


@pytest.mark.parametrize("keep", [1.0, 0.5])
def test_dropout_that_is_off_is_nothing_and_one_that_is_on_is_refused(
    tf: Any, graph_of_1: Any, keep: float
) -> None:
    def build(v1: Any) -> None:
        x = v1.placeholder(tf.float32, (1, 64), name="x")
        rate = v1.placeholder_with_default(keep, (), name="keep")
        kept = tf.floor(rate + v1.random_uniform(tf.shape(x)))
        tf.identity(x / rate * kept, name="out")

    path = graph_of_1(build)
    if keep == 1.0:
        compare(path, lambda x: x, 1, 64)
        return
    with pytest.raises(SourceModelError, match="does not compute what TensorFlow computes"):
        load(find_source(path), NullReporter())


def test_fake_quantization_keeps_its_parameters(tf: Any, graph_of_1: Any) -> None:
    def build(v1: Any) -> None:
        quantize = v1.quantization
        x = v1.placeholder(tf.float32, (1, 16, 16, 3), name="x")
        y = quantize.fake_quant_with_min_max_args(x, -2, 2)
        for channels in (3, 8):
            kernel = quantize.fake_quant_with_min_max_vars_per_channel(
                weights(3, 3, channels, 8), [-0.9] * 8, [1.1] * 8, narrow_range=True
            )
            y = tf.nn.relu6(tf.nn.conv2d(y, kernel, 1, "SAME"))
            y = quantize.fake_quant_with_min_max_vars(y, 0.0, 6.0)
        tf.identity(y, name="out")

    loaded = load(find_source(graph_of_1(build)), NullReporter())
    assert "fake-quant-kept" in {f.code for f in loaded.findings}
    kinds = [node.op_type for node in loaded.graph.nodes]
    assert kinds.count("QuantizeLinear") >= 3
    assert kinds.count("DequantizeLinear") >= 5


def test_a_graph_that_is_not_frozen_is_refused(graph_of_1: Any, tf: Any) -> None:
    def build(v1: Any) -> None:
        x = v1.placeholder(tf.float32, (1, 4), name="x")
        w = v1.get_variable("w", (4, 2), use_resource=False)
        tf.matmul(x, w, name="out")

    with pytest.raises(UnsupportedOperatorError, match="the graph is not frozen"):
        load(find_source(graph_of_1(build)), NullReporter())


def test_an_old_batch_normalisation(tmp_path: Path) -> None:
    values = {"m": [0.1, 0.2], "v": [1.5, 0.5], "b": [1.0, -1.0], "g": [2.0, 3.0]}
    m, v, b, g = (np.array(values[name], np.float32) for name in "mvbg")
    graph = wire.graph(
        wire.placeholder("x", [1, 3, 3, 2]),
        *(wire.constant(name, array) for name, array in zip("mvbg", (m, v, b, g), strict=True)),
        wire.node(
            "y",
            "BatchNormWithGlobalNormalization",
            ["x", *"mvbg"],
            T=wire.kind("float32"),
            variance_epsilon=wire.real(0.01),
            scale_after_normalization=wire.number(5, 1),
        ),
        producer=8,
    )
    path = tmp_path / "old.pb"
    path.write_bytes(graph)
    compare(path, lambda t: (t - m) / np.sqrt(v + 0.01) * g + b, 1, 3, 3, 2)
