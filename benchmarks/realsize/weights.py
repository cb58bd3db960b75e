"""Gives a model without weights random ones, so that its activations look like a network's.

The published graphs of the zoo hold no weights: every large initializer is a ``ConstantOfShape``
node. Plain random weights make the activations of eighty layers vanish or overflow, and a quantizer
then has nothing to do, or nothing it can do. So the graph is run node by node on one real sample,
and every layer's weights are mixed of places of its input, as training leaves them, and scaled by
what they give: each output channel gets a standard deviation drawn around 1 and a mean drawn around
0, as behind a trained batch normalization. The same seed and sample give the same weights.

Usage: python -m benchmarks.realsize.weights SOURCE TARGET (the sample is noise; the benchmark
itself takes a photograph).
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from engine.graph.execute.runtime import ort

SEED = 20
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_PATCHES = 256
_LEARNT = 0.7
_TYPES = {np.dtype("float32"): 1, np.dtype("int64"): 7, np.dtype("int32"): 6, np.dtype("bool"): 9}


class _Nodes:
    """Runs one node at a time."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._opsets = model.opset_import
        self._ir = model.ir_version
        self._options = ort.SessionOptions()
        self._options.log_severity_level = 4
        self._options.intra_op_num_threads = 1
        self._options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL

    def run(self, node: onnx.NodeProto, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        feeds = {name: values[name] for name in node.input if name}
        inputs = [
            helper.make_tensor_value_info(name, _TYPES[array.dtype], array.shape)
            for name, array in feeds.items()
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "one", inputs, outputs)
        model = helper.make_model(graph, opset_imports=self._opsets, ir_version=self._ir)
        session = ort.InferenceSession(
            model.SerializeToString(), self._options, providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in outputs]
        return dict(zip(names, session.run(names, feeds), strict=True))


class _Filler:
    """Draws the weights of a graph while running it."""

    def __init__(self, model: onnx.ModelProto, sample: dict[str, np.ndarray], seed: int) -> None:
        self.graph = model.graph
        self.random = np.random.default_rng(seed)
        self.nodes = _Nodes(model)
        self.values: dict[str, np.ndarray] = dict(sample)
        self.stored: dict[str, np.ndarray] = {
            t.name: numpy_helper.to_array(t) for t in self.graph.initializer
        }
        self.drawn: set[str] = set()
        self.uses = Counter(name for node in self.graph.node for name in node.input)
        self.uses.update(output.name for output in self.graph.output)

    def _open(self, name: str) -> bool:
        """Whether a tensor is a float constant that nothing has drawn yet."""
        array = self.stored.get(name)
        return array is not None and array.dtype == np.float32 and name not in self.drawn

    def _put(self, name: str, array: np.ndarray) -> None:
        self.stored[name] = np.ascontiguousarray(array, np.float32)
        self.drawn.add(name)

    def _normal(self, shape: tuple[int, ...], mean: float, spread: float) -> np.ndarray:
        return (mean + spread * self.random.standard_normal(shape)).astype(np.float32)

    def _gains(self, count: int) -> np.ndarray:
        """Standard deviations of channels: most near 1, some a few times wider."""
        return np.exp(self._normal((count,), 0.0, 0.4))

    def run(self) -> None:
        for node in self.graph.node:
            if node.op_type in _WEIGHTED and len(node.input) > 1 and self._open(node.input[1]):
                self._layer(node)
            elif node.op_type in ("BatchNormalization", "LayerNormalization"):
                self._normalization(node)
            elif node.op_type == "Gather" and self._open(node.input[0]):
                self._put(node.input[0], self._normal(self.stored[node.input[0]].shape, 0, 1))
            elif node.op_type in ("Add", "Mul"):
                self._scalars(node)
            self._step(node)

    def _step(self, node: onnx.NodeProto) -> None:
        results = self.nodes.run(node, self.values | self.stored)
        self.values |= results
        for name in set(node.input):
            self.uses[name] -= list(node.input).count(name)
            if not self.uses[name] and name not in self.stored:
                self.values.pop(name, None)

    def _scalars(self, node: onnx.NodeProto) -> None:
        """A vector that is added or multiplied: a bias, or the gain of a normalization."""
        for name in node.input:
            array = self.stored.get(name)
            if array is None or array.size <= 1 or not self._open(name):
                continue
            if array.ndim > 3:  # the mask of an attention: nothing is masked
                self._put(name, np.zeros_like(array))
            elif node.op_type == "Add":
                self._put(name, self._normal(array.shape, 0, 0.2))
            else:
                self._put(name, self._gains(array.size).reshape(array.shape))

    def _layer(self, node: onnx.NodeProto) -> None:
        weight = node.input[1]
        shape = self.stored[weight].shape
        axis = self._channels(node)
        self._put(weight, self._draw(node, shape))
        bias = node.input[2] if len(node.input) > 2 and node.input[2] else None
        if bias is not None:
            self._put(bias, np.zeros(self.stored[bias].shape))
        (result,) = self.nodes.run(node, self.values | self.stored).values()
        seen = np.moveaxis(result, 1 if node.op_type.startswith("Conv") else -1, 0)
        seen = seen.reshape(len(seen), -1).astype(np.float64)
        spread = np.maximum(seen.std(axis=1), 0.05 * seen.std() + 1e-12)
        # three significant digits: other kernels give the same weights
        factor = np.array([float(f"{g:.3g}") for g in self._gains(len(seen)) / spread])
        if node.op_type == "ConvTranspose" or (
            node.op_type == "Conv" and len(factor) != shape[axis]
        ):
            factor = np.full(shape[axis], np.median(factor))
        view = [1] * len(shape)
        view[axis] = -1
        self._put(weight, self.stored[weight] * factor.astype(np.float32).reshape(view))
        if bias is not None:
            means = seen.mean(axis=1)[: len(factor)] * factor
            self._put(bias, self._normal(factor.shape, 0, 0.5) - means)

    def _draw(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> np.ndarray:
        """Weights in the span of what comes in, as training leaves them, and white ones beside.

        White weights alone make a chaotic network, that drowns in the errors of its first layers.
        """
        white = self._normal(shape, 0, 1)
        data = (self.values | self.stored)[node.input[0]]
        attributes = {a.name: a for a in node.attribute}
        if node.op_type == "Conv":
            stride = attributes["dilations"].ints[0] if "dilations" in attributes else 1
            patches = self._patches(data, shape, stride)
        else:
            patches = data.reshape(-1, data.shape[-1])
            patches = patches[self.random.permutation(len(patches))[:_PATCHES]]
        if patches is None or len(patches) < _PATCHES:
            return white
        patches = patches - patches.mean(axis=0)
        count = shape[self._channels(node)]
        mixed = self._normal((count, len(patches)), 0, 1) @ patches
        mixed /= np.maximum(mixed.std(axis=1, keepdims=True), 1e-9)
        if node.op_type == "Conv":
            mixed = mixed.reshape(shape)
        elif mixed.shape != shape:
            mixed = mixed.T
        return _LEARNT * mixed + (1 - _LEARNT) * white

    def _patches(
        self, data: np.ndarray, shape: tuple[int, ...], dilation: int
    ) -> np.ndarray | None:
        """Places of the input as a kernel sees them; None where there is no whole one."""
        if data.shape[1] != shape[1]:
            return None  # groups
        reach = [dilation * (size - 1) + 1 for size in shape[2:]]
        room = [size - need + 1 for size, need in zip(data.shape[2:], reach, strict=True)]
        if min(room) < 1:
            return None
        patches = []
        for _ in range(_PATCHES):
            y, x = (int(self.random.integers(size)) for size in room)
            patch = data[0, :, y : y + reach[0] : dilation, x : x + reach[1] : dilation]
            patches.append(patch.reshape(-1))
        return np.stack(patches)

    @staticmethod
    def _channels(node: onnx.NodeProto) -> int:
        """The axis of the weights that counts output channels."""
        if node.op_type == "Conv":
            return 0
        if node.op_type == "Gemm":
            turned = {a.name: a.i for a in node.attribute}.get("transB", 0)
            return 0 if turned else 1
        return 1 if node.op_type == "ConvTranspose" else -1

    def _normalization(self, node: onnx.NodeProto) -> None:
        own = [name for name in node.input[1:] if name]
        if not self._open(own[0]):
            return
        count = self.stored[own[0]].size
        self._put(own[0], self._gains(count))
        if len(own) > 1:
            self._put(own[1], self._normal((count,), 0, 0.5))
        if node.op_type == "BatchNormalization":
            data = (self.values | self.stored)[node.input[0]].astype(np.float64)
            axes = (0, *range(2, data.ndim))
            self._put(own[2], data.mean(axis=axes))
            self._put(own[3], np.maximum(data.var(axis=axes), 1e-3 * data.var() + 1e-9))


def filled(
    model: onnx.ModelProto, sample: dict[str, np.ndarray], seed: int = SEED
) -> onnx.ModelProto:
    """The model with initializers in the place of its ``ConstantOfShape`` nodes.

    Args:
        model: a graph whose weights are missing; it is changed.
        sample: input name -> array: what the activations are scaled on.
        seed: of the drawn numbers.
    """
    graph = model.graph
    stored = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    kept, shapes = [], set()
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in stored:
            value = numpy_helper.to_array(node.attribute[0].t).reshape(-1)[0]
            array = np.full(tuple(stored[node.input[0]]), value)
            graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
            shapes.add(node.input[0])
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
    filler = _Filler(model, sample, seed)
    filler.run()
    used = {name for node in graph.node for name in node.input}
    del graph.initializer[:]
    graph.initializer.extend(
        numpy_helper.from_array(array, name)
        for name, array in filler.stored.items()
        if name in used
    )
    outputs = [filler.values[output.name] for output in graph.output]
    if not all(np.isfinite(values).all() for values in outputs):
        raise ValueError("an output is not finite")
    if all(values.std() == 0 for values in outputs):
        raise ValueError("every output is the same everywhere")
    onnx.checker.check_model(model)
    return model


def main() -> None:
    """Command line: noise as the sample."""
    source, target = (Path(name) for name in sys.argv[1:3])
    model = onnx.load(source)
    random = np.random.default_rng(0)
    sample = {
        value.name: random.random(
            [d.dim_value for d in value.type.tensor_type.shape.dim], np.float32
        )
        for value in model.graph.input
    }
    onnx.save(filled(model, sample), target)


if __name__ == "__main__":
    main()
