"""Build a graph of the pinned opset node by node: what the front ends of our own write with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from typing import Any, NoReturn, TypedDict

import numpy as np
import onnx
from onnx import numpy_helper

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize, shape_text
from engine.frontends.facts import words
from engine.frontends.formula import Formula
from engine.frontends.loaded import told_of
from engine.frontends.onnx.tensors import extract_subgraph, infer_outputs
from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import IR_VERSION, OPSET, ORIGIN, UniqueNames
from engine.graph.ir.rewriting import static_shape
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
        self._proto.opset_import.add(domain="", version=OPSET)
        self._proto.graph.name = sanitize(title, 200) or "graph"
        self._names = UniqueNames(set())
        self._node_names = UniqueNames(set())
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

    def node(self, op: str, inputs: Sequence[Input], output: str = "", **attributes: Any) -> str:
        """Add a node with one output; :meth:`nodes` says more. Returns the name of its output."""
        wished = output or (f"{self.origin}_{op.lower()}" if self.origin else op.lower())
        return self.nodes(op, inputs, [wished], **attributes)[0]

    def nodes(
        self,
        op: str,
        inputs: Sequence[Input],
        outputs: Sequence[str],
        **attributes: Any,
    ) -> list[str]:
        """Add a node.

        Args:
            op: operator of ONNX.
            inputs: names as earlier calls returned them, empty for one that is left out; or
                constants: an array, or a list of int64.
            outputs: the wished name of each; an empty one leaves that output out.
            attributes: as ``onnx.helper.make_node`` takes them; None is left out.

        Returns:
            The name of each output.
        """
        names = [self._names.claim(name) if name else "" for name in outputs]
        values = {name: value for name, value in attributes.items() if value is not None}
        self._add(op, [self._named(tensor) for tensor in inputs], names, values)
        return names

    def _add(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, Any],
    ) -> None:
        """Add a node whose tensors all have their names."""
        node = onnx.helper.make_node(
            op,
            inputs,
            outputs,
            name=self._node_names.claim(self.origin or outputs[0]),
            **attributes,
        )
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

    def proto(self) -> onnx.ModelProto:
        """The model as it stands, its weights inside; neither typed nor checked."""
        self._proto.graph.initializer.extend(self._weights.values())
        return self._proto

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
    name = {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper())
    return int(onnx.TensorProto.DataType.Value(name))


# An emitter that knows the shape of every tensor, for readers whose layers decide by shapes.

_MAX_ELEMENTS = 1 << 31
_SMALL_BYTES = 1024
"""What inference may read of a constant: sizes, axes, indices, and a factor for each axis."""

Shape = tuple[int, ...]
_Rule = Callable[[Sequence[Shape], Mapping[str, Any]], Shape | None]
"""(shapes of the inputs, attributes) -> that of the only output; None where ONNX is to be asked."""


class MisfitError(UnsupportedOperatorError):
    """A node whose inputs do not fit it, or whose output has no fixed size."""


def refuse(why: str) -> NoReturn:
    """Refuse the layer that is being converted; who asked for it adds its name and the remedy.

    Raises:
        UnsupportedOperatorError: always.
    """
    raise UnsupportedOperatorError(why, remedy="Convert the model to ONNX and load that.")


def _first(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    return shapes[0]


def _broadcast(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape | None:
    if len(set(shapes)) == 1:
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


def _normalised(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape | None:
    x, *vectors = shapes
    return x if len(x) > 1 and all(vector == (x[1],) for vector in vectors) else None


def _joined(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape | None:
    first, axis = shapes[0], attributes["axis"]
    if not -len(first) <= axis < len(first):
        return None
    axis %= len(first)
    before, after = first[:axis], first[axis + 1 :]
    rests = [(len(shape), shape[:axis], shape[axis + 1 :]) for shape in shapes]
    if any(rest != (len(first), before, after) for rest in rests):
        return None
    return (*before, sum(shape[axis] for shape in shapes), *after)


def _convolved(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape | None:
    x, weights, *_ = shapes
    if not len(x) == len(weights) > 2:
        return None
    return _slid(x, weights[0], attributes.get("kernel_shape", weights[2:]), attributes)


def _pooled(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape | None:
    (x,) = shapes
    if len(x) < 3 or attributes.get("ceil_mode"):
        return None
    return _slid(x, x[1], attributes["kernel_shape"], attributes)


def _slid(
    x: Shape, channels: int, kernel: Sequence[int], attributes: Mapping[str, Any]
) -> Shape | None:
    """What a window gives that slides over ``x``; None where it is not a plain one."""
    sizes, plain = x[2:], [1] * len(kernel)
    strides, dilations = attributes.get("strides", plain), attributes.get("dilations", plain)
    pads = attributes.get("pads", [0] * 2 * len(sizes))
    lengths = {len(kernel), len(strides), len(dilations), len(pads) / 2}
    if "auto_pad" in attributes or lengths != {len(sizes)} or min(*strides, *dilations) < 1:
        return None
    ends = zip(sizes, kernel, strides, dilations, pads, pads[len(sizes) :], strict=False)
    out = [(n + low + high - d * (k - 1) - 1) // s + 1 for n, k, s, d, low, high in ends]
    return (x[0], channels, *out) if min(out) > 0 else None


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(
        words(
            "Abs Ceil Clip Elu Erf Exp Floor HardSigmoid HardSwish Identity LeakyRelu Log "
            "LogSoftmax Mish Neg Relu Selu Sigmoid Softmax Softplus Softsign Sqrt Tanh"
        ),
        _first,
    ),
    **dict.fromkeys(words("Add Div Mul Sub"), _broadcast),
    **dict.fromkeys(words("AveragePool MaxPool"), _pooled),
    "BatchNormalization": _normalised,
    "Concat": _joined,
    "Conv": _convolved,
}
"""Operators that most networks are made of: ONNX's inference takes ten times as long for each."""


class TypedEmitter(Emitter):
    """An emitter that knows shape and dtype of every tensor at once, as ONNX infers them.

    Args:
        title: of the graph.
        keeps: whether there is to be a graph; else this is a trial for the shapes of a model and
            for what of it is refused, which keeps no weights. May be turned off on the way.
    """

    def __init__(self, title: str, *, keeps: bool = True) -> None:
        super().__init__(title)
        self.keeps = keeps
        self._types: dict[str, tuple[int, Shape]] = {}
        self._small: dict[str, np.ndarray] = {}

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> str:
        """Declare a graph input."""
        claimed = super().input(name, shape, dtype)
        self._types[claimed] = element_type(dtype), tuple(shape)
        return claimed

    def constant(self, array: np.ndarray, hint: str = "constant") -> str:
        """The name of a constant; small equal ones are one."""
        name = super().constant(array, hint) if self.keeps else self._names.claim(hint)
        element = int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
        self._types[name] = element, array.shape
        if array.nbytes <= _SMALL_BYTES and (array.dtype.kind == "i" or array.size <= 8):
            self._small[name] = array
        return name

    def _add(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, Any],
    ) -> None:
        """Add a node; refuse it where its shapes do not fit.

        Raises:
            MisfitError: ONNX's inference says why, or an output is absurdly large.
        """
        ruled = self._ruled(op, inputs, attributes) if len(outputs) == 1 else None
        if self.keeps or ruled is None:
            super()._add(op, inputs, outputs, attributes)
        if ruled is None:
            self._infer(self._proto.graph.node[-1])
        else:
            self._types[outputs[0]] = ruled
        for name in filter(None, outputs):
            shape = self.shape(name)
            if min(shape, default=0) < 0 or prod(shape) > _MAX_ELEMENTS:
                raise MisfitError(f"an output of the shape {shape_text(shape)} is too large")

    def _ruled(
        self, op: str, inputs: Sequence[str], attributes: Mapping[str, Any]
    ) -> tuple[int, Shape] | None:
        """The type of a node's only output; None where no rule tells it."""
        if op == "MaxUnpool":  # inference does not read the shape that is given
            return self._types[inputs[0]][0], tuple(self._small[inputs[2]].tolist())
        if op not in _RULES:
            return None
        elements, shapes = zip(*(self._types[name] for name in inputs if name), strict=True)
        shape = _RULES[op](shapes, attributes) if len(set(elements)) == 1 else None
        return None if shape is None else (elements[0], shape)

    def _infer(self, node: onnx.NodeProto) -> None:
        """Note what ONNX says of the outputs of a node whose inputs have their types."""
        names = set(filter(None, node.input))
        kinds = {name: onnx.helper.make_tensor_type_proto(*self._types[name]) for name in names}
        try:
            inferred = infer_outputs(node, OPSET, kinds, self._small)
        except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
            text = sanitize(str(error).split(")", 1)[-1].strip(), 160)
            raise MisfitError(f"its inputs do not fit ({text})") from error
        for name, kind in inferred.items():
            if (shape := static_shape(kind)) is not None:
                self._types[name] = kind.tensor_type.elem_type, shape

    def enlarged(self, x: str, scale: int, output: str = "", hint: str = "scales") -> str:
        """Pictures with every element copied ``scale`` times; ``hint`` names the factors."""
        scales = self.constant(np.array([1, 1, scale, scale], np.float32), hint)
        return self.node("Resize", [x, "", scales], output, **COPIED)

    def shape(self, name: str) -> Shape:
        """The shape of a tensor.

        Raises:
            MisfitError: it depends on data.
        """
        if name not in self._types:
            raise MisfitError("the shape of its output depends on data")
        return self._types[name][1]

    def dtype(self, name: str) -> np.dtype:
        """The dtype of a tensor."""
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(self._types[name][0]))
