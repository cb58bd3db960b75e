"""Small ONNX models written with few words, with seeded weights: questions for the compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["Ends", "Graphs", "Make", "Maker"]

Make = Callable[[], onnx.ModelProto]
Ends = str | Sequence[str]
"""Names of the outputs of a graph."""


class Graphs(dict[str, Make]):
    """What makes a graph, by its name."""

    def add(
        self, name: str, *shapes: Sequence[int], opset: int = 13
    ) -> Callable[[Callable[[Maker], Ends]], None]:
        """Put what writes a graph over inputs of these shapes among others; it gives its ends."""

        def put(write: Callable[[Maker], Ends]) -> None:
            def make() -> onnx.ModelProto:
                ends = write(m := Maker(*shapes, opset=opset))
                return m.model(*([ends] if isinstance(ends, str) else ends))

            self[name] = make

        return put


class Maker:
    """A model that grows by a node at a time; each node and its output have one name."""

    def __init__(self, *shapes: Sequence[int], opset: int = 13) -> None:
        self._inputs = [
            helper.make_tensor_value_info(f"x{at or ''}", TensorProto.FLOAT, list(shape))
            for at, shape in enumerate(shapes)
        ]
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(7)
        self._opset = opset

    def constant(self, array: np.ndarray) -> str:
        """An initializer."""
        name = f"k{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(array, name))
        return name

    def numbers(self, *shape: int) -> str:
        """An initializer of normal float32 numbers with a deviation of 0.1."""
        return self.constant((self._random.standard_normal(shape) * 0.1).astype(np.float32))

    def whole(self, *values: int) -> str:
        """An initializer of whole numbers."""
        return self.constant(np.array(values, np.int64))

    def add(self, op: str, *inputs: str, name: str = "", **attributes: object) -> str:
        """A node of one output."""
        name = name or f"{op.lower()}{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def split(self, *inputs: str, count: int, op: str = "Split", **attributes: object) -> list[str]:
        """A node of several outputs."""
        name = f"{op.lower()}{len(self._nodes)}"
        outputs = [f"{name}_{at}" for at in range(count)]
        self._nodes.append(helper.make_node(op, list(inputs), outputs, name=name, **attributes))
        return outputs

    def conv(
        self,
        data: str,
        channels: int,
        out: int,
        kernel: int | tuple[int, int] = 3,
        stride: int = 1,
        *,
        group: int = 1,
        bias: bool = True,
        valid: bool = False,
        then: str = "",
        name: str = "",
    ) -> str:
        """A convolution, padded to keep its size unless ``valid``; ``then``: an activation."""
        rows, columns = (kernel, kernel) if isinstance(kernel, int) else kernel
        inputs = [data, self.numbers(out, channels // group, rows, columns)]
        made = self.add(
            "Conv",
            *inputs,
            *([self.numbers(out)] if bias else []),
            name=name,
            kernel_shape=[rows, columns],
            strides=[stride, stride],
            group=group,
            pads=[0] * 4 if valid else [(rows - 1) // 2, (columns - 1) // 2] * 2,
        )
        return self.add(then, made) if then else made

    def classes(self, data: str, channels: int, out: int = 10) -> str:
        """The usual end of a classifier: the mean of a map, and a matrix."""
        pooled = self.add("Flatten", self.add("GlobalAveragePool", data))
        return self.add("Gemm", pooled, self.numbers(channels, out), self.numbers(out))

    def model(self, *outputs: str) -> onnx.ModelProto:
        """The model with these outputs."""
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self._nodes, "asked", self._inputs, ends, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self._opset)])
        model.ir_version = 8
        return onnx.shape_inference.infer_shapes(model)
