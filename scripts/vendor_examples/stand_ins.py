"""Models that stand in for those that the vendor's examples download: same inputs and outputs.

Weights are random, from fixed seeds; networks are a few layers. Caffe and Darknet files are of the
whole published architecture, whose description is in the examples' folders.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Maker = Callable[[Path], None]
"""Writes a model to a path."""
Shapes = Mapping[str, Sequence[int | str]]

_FLOAT, _INT64 = TensorProto.FLOAT, TensorProto.INT64


def onnx_net(
    inputs: Shapes,
    outputs: Shapes,
    *,
    integers: Sequence[str] = (),
    act: str = "Relu",
    name: str = "stand_in",
) -> Maker:
    """An ONNX file: convolutions from the first picture to every map, and sums for the rest.

    Args:
        inputs: name -> shape; a text is an axis without a fixed size.
        outputs: name -> shape; one of four axes whose height divides the picture's is convolved.
        integers: inputs that are int64.
        act: the activation.
        name: of the graph.
    """
    graph_name = name

    def make(path: Path) -> None:
        rng = np.random.default_rng(0)
        nodes: list[onnx.NodeProto] = []
        weights: list[onnx.TensorProto] = []

        def constant(name: str, array: np.ndarray) -> str:
            weights.append(numpy_helper.from_array(array, name))
            return name

        def noise(name: str, *shape: int) -> str:
            fan = prod(shape[1:]) or 1
            return constant(name, (rng.standard_normal(shape) / fan**0.5).astype(np.float32))

        picture = next((n for n, s in inputs.items() if len(s) == 4 and s[1] == 3), None)
        parts = []
        for name in inputs:
            at = name
            if name in integers:
                nodes.append(helper.make_node("Cast", [at], [at := f"{name}_f"], to=_FLOAT))
            if name == picture:
                nodes.append(
                    helper.make_node(
                        "Conv",
                        [at, noise("stem_w", 8, 3, 3, 3), noise("stem_b", 8)],
                        ["stem"],
                        "stem",
                        kernel_shape=[3, 3],
                        strides=[2, 2],
                        pads=[1, 1, 1, 1],
                    )
                )
                nodes.append(helper.make_node(act, ["stem"], [at := "trunk"], "act"))
            axes = constant(f"{name}_axes", np.arange(len(inputs[name]), dtype=np.int64))
            nodes.append(helper.make_node("ReduceMean", [at, axes], [f"{name}_mean"], keepdims=0))
            parts.append(f"{name}_mean")
        total = parts[0]
        for number, part in enumerate(parts[1:]):
            nodes.append(helper.make_node("Add", [total, part], [total := f"sum{number}"]))
        for name, shape in outputs.items():
            sizes = [size if isinstance(size, int) else 1 for size in shape]
            height = inputs[picture][2] if picture else 0
            step = (
                int(height) // 2 // sizes[2]
                if len(sizes) == 4 and isinstance(height, int) and height % (2 * sizes[2]) == 0
                else 0
            )
            if step:
                nodes.append(
                    helper.make_node(
                        "Conv",
                        [
                            "trunk",
                            noise(f"{name}_w", sizes[1], 8, step, step),
                            noise(f"{name}_b", sizes[1]),
                        ],
                        [name],
                        f"head_{name}",
                        kernel_shape=[step, step],
                        strides=[step, step],
                    )
                )
                continue
            nodes.append(
                helper.make_node("Mul", [total, noise(f"{name}_w", *sizes)], [f"{name}_m"])
            )
            nodes.append(helper.make_node("Add", [f"{name}_m", noise(f"{name}_b", *sizes)], [name]))
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            nodes,
            graph_name,
            [info(n, _INT64 if n in integers else _FLOAT, list(s)) for n, s in inputs.items()],
            [info(n, _FLOAT, list(s)) for n, s in outputs.items()],
            weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)

    return make


def qdq_onnx(inputs: Shapes, outputs: Shapes) -> Maker:
    """The same, quantized by ONNX Runtime's tools, as the example of a quantized model is."""

    def make(path: Path) -> None:
        from onnxruntime.quantization import (  # noqa: TID251 - a tool of its own
            CalibrationDataReader,
            QuantFormat,
            quantize_static,
        )

        plain = path.with_suffix(".float.onnx")
        onnx_net(inputs, outputs)(plain)

        class Reader(CalibrationDataReader):  # type: ignore[misc]
            def __init__(self) -> None:
                rng = np.random.default_rng(1)
                self.left = [
                    {n: rng.random([int(d) for d in s], np.float32) for n, s in inputs.items()}
                    for _ in range(2)
                ]

            def get_next(self) -> Any:
                return self.left.pop() if self.left else None

        quantize_static(plain, path, Reader(), quant_format=QuantFormat.QOperator)
        plain.unlink()

    return make


def caffe_weights(prototxt: str) -> Maker:
    """A caffemodel of the prototxt beside it: every blob that its layers ask for."""

    def make(path: Path) -> None:
        from engine.base.events import NullReporter
        from engine.frontends import load
        from engine.frontends.caffe import weights as stored
        from engine.recipe import Recipe

        blobs: dict[str, list[np.ndarray]] = {}
        ask = stored.RandomBlobs.blob

        def recorded(self: Any, spec: Any, index: int, *rest: Any) -> np.ndarray:
            array = ask(self, spec, index, *rest)
            kept = blobs.setdefault(spec.name, [])
            while len(kept) <= index:
                kept.append(np.zeros(0, np.float32))
            kept[index] = array
            return array

        stored.RandomBlobs.blob = recorded  # type: ignore[method-assign,assignment]
        try:
            values = {"model": str(path.with_name(prototxt)), "random_weights": True}
            recipe = Recipe.from_values(values)
            load_source(recipe, load, NullReporter())
        finally:
            stored.RandomBlobs.blob = ask  # type: ignore[method-assign]
        path.write_bytes(b"".join(_field(100, _layer(n, b)) for n, b in blobs.items()))

    return make


def load_source(recipe: Any, load: Any, reporter: Any) -> None:
    """Load a recipe's model, whatever its framework."""
    from engine.pipeline.pipeline import Pipeline
    from engine.pipeline.source import RecipeSource
    from engine.pipeline.stages import STAGES

    pipeline = Pipeline(
        recipe, STAGES, reporter=reporter, cache=None, generation=2, source=RecipeSource(recipe)
    )
    assert pipeline.loaded is not None


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _layer(name: str, arrays: Sequence[np.ndarray]) -> bytes:
    """LayerParameter of caffe.proto: name 1, blobs 7 (shape 7 with dim 1, data 5)."""
    out = _field(1, name.encode())
    for array in arrays:
        shape = _field(7, _field(1, b"".join(map(_varint, array.shape))))
        out += _field(7, shape + _field(5, np.ascontiguousarray(array, "<f4").tobytes()))
    return out


def darknet_weights(count: int) -> Maker:
    """A .weights file of so many numbers, all positive, as variances must be."""

    def make(path: Path) -> None:
        rng = np.random.default_rng(0)
        with path.open("wb") as stream:
            stream.write(struct.pack("<iiiq", 0, 2, 0, 0))
            left = count
            while left:
                part = min(left, 1 << 22)
                stream.write((rng.random(part, np.float32) * 0.02 + 0.001).astype("<f4").tobytes())
                left -= part

    return make


def tensorflow_graph(
    name: str,
    shape: Sequence[int],
    outputs: Mapping[str, Sequence[int]],
    *,
    fake_quant: bool = False,
) -> Maker:
    """A frozen graph: a placeholder of that name, one convolution, and every output by its name."""

    def make(path: Path) -> None:
        import tensorflow as tf

        v1 = tf.compat.v1
        rng = np.random.default_rng(0)
        with v1.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, shape, name=name)
            kernel = tf.constant(rng.standard_normal((3, 3, shape[3], 8)).astype(np.float32) / 5)
            if fake_quant:
                x = tf.quantization.fake_quant_with_min_max_vars(x, -1.0, 1.0)
                kernel = tf.quantization.fake_quant_with_min_max_vars(kernel, -1.0, 1.0)
            y = tf.nn.relu6(tf.nn.conv2d(x, kernel, 2, "SAME"))
            if fake_quant:
                y = tf.quantization.fake_quant_with_min_max_vars(y, 0.0, 6.0)
            mean = tf.reduce_mean(y, [1, 2])
            for output, sizes in outputs.items():
                if len(sizes) == 4 and sizes[1] > 1 and sizes[2] > 1:
                    weights = tf.constant(
                        rng.standard_normal((1, 1, 8, sizes[3])).astype(np.float32)
                    )
                    maps = tf.nn.conv2d(y, weights, 1, "SAME")
                    scope, _, op = output.rpartition("/")
                    del scope, op
                    v1.image.resize_bilinear(maps, sizes[1:3], align_corners=True, name=output)
                    continue
                weights = tf.constant(rng.standard_normal((8, prod(sizes[1:]))).astype(np.float32))
                tf.reshape(tf.matmul(mean, weights), [sizes[0], *sizes[1:]], name=output)
            path.write_bytes(graph.as_graph_def().SerializeToString())

    return make


def tflite_net(size: int, classes: int, *, quantized: bool = False) -> Maker:
    """A classifier as TensorFlow's converter writes it, with uint8 ends where it is quantized."""

    def make(path: Path) -> None:
        import tensorflow as tf

        rng = np.random.default_rng(0)
        kernel = tf.constant(rng.standard_normal((3, 3, 3, 8)).astype(np.float32) / 5)
        weights = tf.constant(rng.standard_normal((8, classes)).astype(np.float32))

        @tf.function(input_signature=[tf.TensorSpec((1, size, size, 3), tf.float32)])
        def net(x: Any) -> Any:
            y = tf.nn.relu6(tf.nn.conv2d(x, kernel, 2, "SAME"))
            return tf.nn.softmax(tf.matmul(tf.reduce_mean(y, [1, 2]), weights))

        converter = tf.lite.TFLiteConverter.from_concrete_functions([net.get_concrete_function()])
        if quantized:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: (
                [rng.random((1, size, size, 3), np.float32) * 2 - 1] for _ in range(4)
            )
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.uint8
        path.write_bytes(converter.convert())

    return make


def torch_net(shape: Sequence[int], classes: int, *, quantized: bool = False) -> Maker:
    """TorchScript of a classifier; quantized as torch.ao does it after training."""

    def make(path: Path) -> None:
        import torch
        from torch import nn

        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(shape[1], 8, 3, 2, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, classes),
        ).eval()
        example = torch.rand(*shape)
        if quantized:
            from torch.ao import quantization as ao

            torch.backends.quantized.engine = "qnnpack"
            both = nn.Sequential(ao.QuantStub(), *net, ao.DeQuantStub()).eval()
            both.qconfig = ao.get_default_qconfig("qnnpack")
            ao.fuse_modules(both, [["1", "2"]], inplace=True)
            ao.prepare(both, inplace=True)
            both(example)
            net = ao.convert(both, inplace=False)
        torch.jit.trace(net, example).save(str(path))

    return make


def mxnet_net(size: int, classes: int, *, maps: bool) -> tuple[Maker, Maker]:
    """Symbol and params of a net from ``data``: class scores, or maps of the picture's size."""
    kernel = (8, 3, 3, 3)
    names = ["data", "conv_weight", "conv_bias", "head_weight", "head_bias"]

    def node(op: str, name: str, inputs: Sequence[int], **attributes: str) -> dict[str, Any]:
        row: dict[str, Any] = {"op": op, "name": name, "inputs": [[i, 0, 0] for i in inputs]}
        return row | ({"attrs": attributes} if attributes else {})

    def symbol(path: Path) -> None:
        nodes = [node("null", name, []) for name in names]
        conv = {"kernel": "(3, 3)", "pad": "(1, 1)", "num_filter": "8"}
        nodes.append(node("Convolution", "conv", [0, 1, 2], **conv))
        nodes.append(node("Activation", "relu", [5], act_type="relu"))
        if maps:
            head = {"kernel": "(1, 1)", "num_filter": str(classes)}
            nodes.append(node("Convolution", "head", [6, 3, 4], **head))
        else:
            pool = {"global_pool": "True", "kernel": "(1, 1)", "pool_type": "avg"}
            nodes.append(node("Pooling", "pool", [6], **pool))
            nodes.append(node("FullyConnected", "head", [7, 3, 4], num_hidden=str(classes)))
        last = len(nodes) - 1
        text = {
            "nodes": nodes,
            "arg_nodes": list(range(5)),
            "heads": [[last, 0, 0]],
            "attrs": {"mxnet_version": ["int", 10500]},
        }
        path.write_text(json.dumps(text))

    def params(path: Path) -> None:
        from tests.frontends.mxnet.networks import params_bytes

        rng = np.random.default_rng(0)
        head = (classes, 8, 1, 1) if maps else (classes, 8)
        shapes = dict(zip(names[1:], (kernel, (8,), head, (classes,)), strict=True))
        arrays = {
            f"arg:{name}": (rng.standard_normal(shape) / 5).astype(np.float32)
            for name, shape in shapes.items()
        }
        path.write_bytes(params_bytes(arrays))

    del size
    return symbol, params


def keras_net(path: Path) -> None:
    """A Keras file of a classifier of 299 by 299 pictures."""
    import tensorflow as tf

    tf.keras.Sequential(
        [
            tf.keras.layers.Input((299, 299, 3)),
            tf.keras.layers.Conv2D(8, 3, 2),
            tf.keras.layers.GlobalAveragePooling2D(),
            tf.keras.layers.Dense(1000),
        ]
    ).save(path)


def copied(other: str) -> Maker:
    """A copy of a file of the same repository, named from the model's folder."""

    def make(path: Path) -> None:
        path.write_bytes((path.parent / other).read_bytes())

    return make


def pose_net(path: Path) -> None:
    """Heads with the tensors that the example of YOLOv8 pose names for mixed precision."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def conv(at: str, to: str, filters: int, channels: int, step: int) -> str:
        array = rng.standard_normal((filters, channels, step, step)).astype(np.float32) / step
        weights.append(numpy_helper.from_array(array, f"{to}_w"))
        nodes.append(
            helper.make_node(
                "Conv", [at, f"{to}_w"], [to], strides=[step, step], kernel_shape=[step] * 2
            )
        )
        return to

    parts = []
    outputs = {}
    for number, size in enumerate((80, 40, 20)):
        trunk = conv("images", f"trunk{number}", 8, 3, 640 // size)
        outputs[conv(trunk, f"o{number}", 65, 8, 1)] = [1, 65, size, size]
        base = f"/model.22/cv4.{number}"
        inner = conv(trunk, f"{base}/cv4.{number}.0/conv/Conv_output_0", 8, 8, 1)
        # YOLOv8's own names say cv4.NUMBER.0 below cv4.NUMBER
        act = f"{base}/cv4.{number}.0/act"
        nodes.append(helper.make_node("Sigmoid", [inner], [f"{act}/Sigmoid_output_0"]))
        nodes.append(
            helper.make_node("Mul", [inner, f"{act}/Sigmoid_output_0"], [f"{act}/Mul_output_0"])
        )
        points = conv(f"{act}/Mul_output_0", f"{base}/Conv_output_0", 51, 8, 1)
        shape = f"shape{number}"
        weights.append(numpy_helper.from_array(np.int64([1, 51, size * size]), shape))
        nodes.append(helper.make_node("Reshape", [points, shape], [f"{base}/Reshape_output_0"]))
        parts.append(f"{base}/Reshape_output_0")
    whole = "/model.22/Concat_6_output_0"
    nodes.append(helper.make_node("Concat", parts, [whole], axis=2))
    weights.append(numpy_helper.from_array(np.int64([1, 17, 3, 8400]), "points"))
    nodes.append(helper.make_node("Reshape", [whole, "points"], ["kpt"]))
    outputs["kpt"] = [1, 17, 3, 8400]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "pose",
        [info("images", _FLOAT, [1, 3, 640, 640])],
        [info(name, _FLOAT, shape) for name, shape in outputs.items()],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
