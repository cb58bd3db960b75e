"""Build a graph of the pinned opset node by node: what the front ends of our own write with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
import onnx
from onnx import numpy_helper

from engine.base.text import sanitize
from engine.frontends.formula import Formula
from engine.frontends.loaded import told_of
from engine.frontends.onnx.extract import extract_subgraph
from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import IR_VERSION, OPSET, ORIGIN, UniqueNames
from engine.graph.ir.shapes import infer_proto
from engine.graph.ir.verify import check_channels, check_proto
from engine.graph.ir.weightless import SMALL_BYTES, strip_weights

Input = str | np.ndarray | list[int]
"""What a node reads: the name of a tensor, or the numbers of a constant."""


class Window(TypedDict, total=False):
    """Attributes of operators with windows: a number for each spatial axis, pads for both ends."""

    kernel_shape: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]


class Resizing(TypedDict, total=False):
    """Attributes of a Resize."""

    mode: str
    coordinate_transformation_mode: str
    nearest_mode: str


COPIED: Resizing = {
    "mode": "nearest",
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}
"""Attributes of a Resize by whole numbers that copies every element, as upsampling layers do."""


class Emitter:
    """A graph in the making.

    Tensors are told apart by name: :meth:`node` gives every output a name of its own, after the
    hint that it was given, so that a layer which overwrites its input (Caffe's ``bottom == top``)
    becomes single assignment; who maps the source's names to them is the front end.

    Args:
        title: the graph's name.

    Attributes:
        origin: name of the source layer that is being converted; every node remembers it.
    """

    def __init__(self, title: str) -> None:
        self.origin = ""
        self._proto = onnx.ModelProto(ir_version=IR_VERSION)
        self._proto.graph.name = sanitize(title, 200) or "graph"
        self._names = UniqueNames(set())
        self._node_names = UniqueNames(set())
        self._domains = {"": OPSET}
        self._weights: dict[str, onnx.TensorProto] = {}
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> str:
        """Declare a graph input; returns its name, which is ``name`` unless that is taken."""
        claimed = self._names.claim(name)
        self._proto.graph.input.append(
            onnx.helper.make_tensor_value_info(claimed, element_type(dtype), list(shape))
        )
        return claimed

    def constant(self, array: np.ndarray, hint: str = "constant") -> str:
        """The name of a constant; small equal ones are one."""
        array = np.ascontiguousarray(array) if array.ndim else np.asarray(array)
        key = None
        if array.nbytes <= SMALL_BYTES:
            key = (array.dtype.str, array.shape, array.tobytes())
            if key in self._known:
                return self._known[key]
        name = self._names.claim(hint)
        tensor = numpy_helper.from_array(array, name)
        if key is not None:
            self._known[key] = name
            self._proto.graph.initializer.append(tensor)
        else:
            self._weights[name] = tensor
        return name

    def ints(self, *values: int) -> str:
        """The name of an int64 vector: shapes, axes, pads."""
        return self.constant(np.array(values, dtype=np.int64), "ints")

    def scalar(self, value: float, dtype: str = "float32") -> str:
        """The name of a constant without dimensions."""
        return self.constant(np.array(value, dtype=dtype), "scalar")

    def node(
        self,
        op: str,
        inputs: Sequence[Input],
        output: str = "",
        *,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node with one output; :meth:`nodes` says more. Returns the name of its output."""
        wished = output or (f"{self.origin}_{op.lower()}" if self.origin else op.lower())
        return self.nodes(op, inputs, [wished], domain=domain, **attributes)[0]

    def nodes(
        self,
        op: str,
        inputs: Sequence[Input],
        outputs: Sequence[str],
        *,
        domain: str = "",
        **attributes: Any,
    ) -> list[str]:
        """Add a node.

        Args:
            op: operator of ONNX (or of ``domain``).
            inputs: names as earlier calls returned them, empty for one that is left out; or
                constants: an array, or a list of int64.
            outputs: the wished name of each; an empty one leaves that output out.
            attributes: as ``onnx.helper.make_node`` takes them; None is left out.

        Returns:
            The name of each output.
        """
        names = [self._names.claim(name) if name else "" for name in outputs]
        values = {name: value for name, value in attributes.items() if value is not None}
        self._add(op, [self._named(tensor) for tensor in inputs], names, domain, values)
        return names

    def _add(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        domain: str,
        attributes: Mapping[str, Any],
    ) -> None:
        """Add a node whose tensors all have their names."""
        node = onnx.helper.make_node(
            op,
            inputs,
            outputs,
            name=self._node_names.claim(self.origin or outputs[0]),
            domain=domain or None,
            **attributes,
        )
        if domain:
            self._domains.setdefault(domain, 1)
        if self.origin:
            node.metadata_props.add(key=ORIGIN, value=self.origin)
        self._proto.graph.node.append(node)

    def _named(self, tensor: Input) -> str:
        if isinstance(tensor, str):
            return tensor
        return self.ints(*tensor) if isinstance(tensor, list) else self.constant(tensor)

    def formula(self, tensor: str) -> Formula:
        """A tensor to compute with; see :mod:`engine.frontends.formula`."""
        return Formula.of(self, tensor)

    def output(self, tensor: str, dtype: str = "float32", name: str | None = None) -> str:
        """Declare a graph output, under another name where ``name`` is given and still free."""
        if name is not None and name != tensor:
            tensor = self.node("Identity", [tensor], name)
        value = self._proto.graph.output.add(name=tensor)
        value.type.tensor_type.elem_type = element_type(dtype)
        return tensor

    def keep_only(self, origins: Collection[str]) -> None:
        """Drop the nodes of all other source layers, and the constants that only these read."""
        graph = self._proto.graph
        nodes = [node for node in graph.node if node.metadata_props[0].value in origins]
        read = {name for node in nodes for name in node.input}
        constants = [tensor for tensor in graph.initializer if tensor.name in read]
        self._weights = {name: w for name, w in self._weights.items() if name in read}
        del graph.node[:], graph.initializer[:]
        graph.node.extend(nodes)
        graph.initializer.extend(constants)

    def finish(
        self,
        source: str,
        *,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Graph:
        """The graph: cut where asked, checked by ONNX, every value typed and shaped.

        Args:
            source: name of the source file, for errors.
            inputs, outputs: tensors to cut at, as of ``load_onnx``; None for what was declared.

        Raises:
            SourceModelError: the result is no valid graph, or an unknown name was asked for.
        """
        proto, weights = self._proto, self._weights
        for domain, version in self._domains.items():
            proto.opset_import.add(domain=domain, version=version)
        with told_of(source):
            if inputs is not None or outputs is not None:
                proto.graph.initializer.extend(weights.values())
                extract_subgraph(infer_for_cut(proto), inputs or None, outputs or None)
                weights = strip_weights(proto.graph)
            else:
                proto.graph.input.extend(
                    onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))
                    for name, tensor in weights.items()
                )
            check_proto(proto)
            graph = Graph.from_proto(infer_proto(proto), weights)
            check_channels(graph.model)
        return graph


def infer_for_cut(proto: onnx.ModelProto) -> onnx.ModelProto:
    """``proto`` with types of its inner tensors, which become inputs where a cut names them."""
    inferred = infer_proto(proto)
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(inferred.graph.value_info)
    return proto


def element_type(dtype: str) -> int:
    """ONNX's number of a numpy dtype name (``bfloat16``, ``string`` and ``int4`` too)."""
    special = {
        "bfloat16": onnx.TensorProto.BFLOAT16,
        "string": onnx.TensorProto.STRING,
        "int4": onnx.TensorProto.INT4,
        "uint4": onnx.TensorProto.UINT4,
    }
    if dtype in special:
        return int(special[dtype])
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
