"""The plain graph that resolving control flow gives: nodes, their types, and known constants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from engine.frontends.ends import reached
from engine.frontends.facts import words
from engine.frontends.onnx.tensors import infer_outputs
from engine.graph.ir.naming import STANDARD_DOMAINS, UniqueNames
from engine.graph.ir.rewriting import attribute, static_shape

# what a constant may hold to be computed with; sizes, masks and tables of positions are smaller
_MAX_ELEMENTS = 1 << 14
# all folded constants together: loops that fold megabytes an iteration are no sizes either
_MAX_FOLDED = 1 << 26
# names are made of names; a loop must not make them longer and longer
_MAX_HINT = 200
# inference reads sizes, axes and indices: never more than this
_MAX_SHAPE_DATA = 256

_RANDOM = words(
    "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
)

_NEVER_FOLDED = _RANDOM | {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
"""Random operators, and those that say how a constant is held."""

_OPEN_SIZES = words("Compress NonZero Unique")

_NUMBERS = frozenset(
    onnx.TensorProto.DataType.Value(name)
    for name in words("FLOAT DOUBLE FLOAT16 INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL")
)

_INFERENCE_ERRORS = (
    onnx.defs.SchemaError,
    onnx.shape_inference.InferenceError,
    onnx.checker.ValidationError,
    RuntimeError,
    ValueError,
)


class Emission:
    """Nodes in order of execution; every name is unique, whatever scope it came from.

    Args:
        opset: the model's version of ONNX's operators.
        tensors, nodes: names that are taken.
    """

    def __init__(self, opset: int, tensors: set[str], nodes: set[str]) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.fresh: set[str] = set()
        self._names = UniqueNames(tensors)
        self._node_names = UniqueNames(nodes)
        self._types: dict[str, onnx.TypeProto] = {}
        self._inputs: set[str] = set()
        self._known: dict[str, np.ndarray] = {}
        self._made: dict[str, np.ndarray] = {}
        self._large: dict[str, onnx.TensorProto] = {}
        self._equal: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._same: dict[bytes, list[str]] = {}
        self._folded = 0
        # loading ONNX Runtime takes longer than a look at a model, which never folds
        from engine.frontends.onnx.control.evaluate import Evaluator

        self._evaluator = Evaluator(opset)

    # -- what is known of a tensor -----------------------------------------------------------

    def known(self, name: str) -> np.ndarray | None:
        """The array of a constant that is small enough to compute with."""
        return self._known.get(name)

    def element(self, name: str) -> int:
        """ONNX's number of a tensor's type; 0 where it is not known."""
        kind = self._types.get(name)
        return 0 if kind is None else int(kind.tensor_type.elem_type)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The static shape of a tensor; None where a dimension or the rank is open."""
        return static_shape(self._types.get(name))

    # -- what is taken as it is --------------------------------------------------------------

    def declare(self, value: onnx.ValueInfoProto) -> None:
        """Note a graph input and its type."""
        self._types[value.name] = value.type
        self._inputs.add(value.name)

    def inputs_behind(self, name: str) -> list[str]:
        """The graph inputs that a tensor is computed from, in no order that means anything."""
        makers = {output: node for node in self.nodes for output in node.output}
        behind = reached([name], lambda one: makers[one].input if one in makers else ())
        return [one for one in behind if one in self._inputs]

    def note(self, tensor: onnx.TensorProto, name: str) -> None:
        """Note type and, where it is small, value of an initializer that stays in the graph."""
        self._types[name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
        if prod(tensor.dims) <= _MAX_ELEMENTS and tensor.data_type in _NUMBERS:
            self._known[name] = numpy_helper.to_array(tensor)

    def tensor(self, tensor: onnx.TensorProto) -> str:
        """The name of a constant of a branch or body, which moves to the graph."""
        if prod(tensor.dims) <= _MAX_ELEMENTS and tensor.data_type in _NUMBERS:
            return self.constant(numpy_helper.to_array(tensor), tensor.name)
        name = self._names.claim(tensor.name or "constant")
        self._large[name] = tensor
        self.note(tensor, name)
        return name

    # -- what is made ------------------------------------------------------------------------

    def constant(self, array: np.ndarray, hint: str = "constant") -> str:
        """The name of a constant; equal ones are one."""
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._equal:
            self._equal[key] = self._names.claim(hint or "constant")
            self._keep(self._equal[key], array)
        return self._equal[key]

    def op(self, op: str, inputs: Sequence[str], hint: str, **attributes: Any) -> str:
        """Add an operator with one output of a new name; gives that, or an equal tensor's."""
        hint = hint[:_MAX_HINT]
        node = helper.make_node(op, list(inputs), [self.claim(hint)], hint, **attributes)
        return self.add(node, inner=True)[0]

    def claim(self, hint: str) -> str:
        """A name that no tensor has."""
        return self._names.claim(hint)

    def add(self, node: onnx.NodeProto, *, inner: bool) -> list[str]:
        """Add a node whose inputs are names of this graph; fold it where it can be.

        Args:
            node: its outputs are free names; the message is taken, not copied.
            inner: whether it is of a branch or body: then an equal node is used in its place.

        Returns:
            The names of its outputs: its own, or those of equal tensors.
        """
        if node.domain in STANDARD_DOMAINS:
            folded = self._literal(node) if node.op_type == "Constant" else None
            if folded is None:
                self._infer(node)
                folded = self._fold(node)
            if folded is not None:
                for name, array in zip(node.output, folded, strict=True):
                    if name:
                        self._keep(name, array)
                        self._folded += array.nbytes
                return list(node.output)
        if not inner:
            self.nodes.append(node)
            return list(node.output)
        key = _key(node)
        if node.op_type not in _RANDOM and key in self._same:
            return self._same[key]
        node.name = self._node_names.claim(node.name or node.op_type)
        self.nodes.append(node)
        self.fresh.update(name for name in node.output if name)
        self._same[key] = list(node.output)
        return list(node.output)

    def initializers(self, used: Iterable[str]) -> list[onnx.TensorProto]:
        """The constants among ``used`` that were made or moved here, as protobuf."""
        tensors = []
        for name in used:
            if name in self._made:
                tensors.append(numpy_helper.from_array(self._made[name], name))
            elif name in self._large:
                tensor = deepcopy(self._large[name])
                tensor.name = name
                tensors.append(tensor)
        return tensors

    def _keep(self, name: str, array: np.ndarray) -> None:
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        self._types[name] = helper.make_tensor_type_proto(element, array.shape)
        self._known[name] = self._made[name] = array

    def _infer(self, node: onnx.NodeProto) -> None:
        read = [name for name in node.input if name]
        types = {name: self._types[name] for name in read if name in self._types}
        if any(name not in types for name in read):
            return
        known = {name: self._known[name] for name in read if name in self._known}
        small = {name: array for name, array in known.items() if array.size <= _MAX_SHAPE_DATA}
        try:
            types_inferred = infer_outputs(node, self.opset, types, small)
        except _INFERENCE_ERRORS:
            return  # checking the whole graph says what is wrong with it
        self._types.update((name, kind) for name, kind in types_inferred.items() if name)

    def _fold(self, node: onnx.NodeProto) -> list[np.ndarray] | None:
        op = node.op_type
        if op in ("Shape", "Size"):
            return self._measure(node)
        if op in ("And", "Or"):
            absorbed = self._absorbed(node, op == "Or")
            if absorbed is not None:
                return absorbed
        if op in _NEVER_FOLDED or not node.input or self._folded > _MAX_FOLDED:
            return None
        arrays = [self._known.get(name) if name else None for name in node.input]
        if any(a is None and name for a, name in zip(arrays, node.input, strict=True)):
            return None
        if not all(self._foldable(op, name) for name in node.output if name):
            return None
        results = self._evaluator.compute(node, arrays)
        if results is None or len(results) != sum(1 for name in node.output if name):
            return None
        arrays_left = iter(results)
        return [next(arrays_left) if name else np.zeros(0) for name in node.output]

    def _foldable(self, op: str, name: str) -> bool:
        if self.element(name) not in _NUMBERS:
            return False
        shape = self.shape(name)
        if shape is None:
            return op in _OPEN_SIZES
        return prod(shape) <= _MAX_ELEMENTS

    def _literal(self, node: onnx.NodeProto) -> list[np.ndarray] | None:
        for held in node.attribute:
            if held.name == "value" and held.t.data_type in _NUMBERS:
                if prod(held.t.dims) <= _MAX_ELEMENTS:
                    return [numpy_helper.to_array(held.t)]
            elif held.name in ("value_int", "value_ints", "value_float", "value_floats"):
                dtype = np.int64 if held.name.startswith("value_int") else np.float32
                return [np.asarray(helper.get_attribute_value(held), dtype)]
        return None

    def _measure(self, node: onnx.NodeProto) -> list[np.ndarray] | None:
        dims = self.shape(node.input[0])
        if dims is None:
            return None
        if node.op_type == "Size":
            return [np.array(prod(dims), np.int64)]
        window = dims[attribute(node, "start", 0) : attribute(node, "end", len(dims))]
        return [np.array(window, np.int64)]

    def _absorbed(self, node: onnx.NodeProto, absorbing: bool) -> list[np.ndarray] | None:
        """``x and False``, ``x or True``: decided whatever x is."""
        shape = self.shape(node.output[0])
        for name in node.input:
            array = self._known.get(name)
            if shape is not None and array is not None and (array == absorbing).all():
                return [np.full(shape, absorbing)] if prod(shape) <= _MAX_ELEMENTS else None
        return None


def _key(node: onnx.NodeProto) -> bytes:
    """What two nodes that compute the same have in common."""
    bare = onnx.NodeProto(
        op_type=node.op_type, domain=node.domain, input=node.input, attribute=node.attribute
    )
    bare.output.extend("o" if name else "" for name in node.output)
    return bytes(bare.SerializeToString(deterministic=True))


# operator -> input that must be constant: indices or lengths that a kernel checks as it runs
_CHECKED = {
    **dict.fromkeys(
        words(
            "Gather GatherElements GatherND Scatter ScatterElements ScatterND MaxUnpool CumSum "
            "ReverseSequence MaxRoiPool NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"
        ),
        1,
    ),
    "RoiAlign": 2,
    **dict.fromkeys(("RNN", "GRU", "LSTM"), 4),
}

_DIVISIONS = frozenset({"Div", "Mod"})

_FLOATS = (
    *(onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16),
    *(onnx.TensorProto.DOUBLE, onnx.TensorProto.BFLOAT16),
)


def fault(emission: Emission, node: onnx.NodeProto) -> str:
    """Why ``node`` could fail on some data, or give a size that depends on it; empty where not."""
    for name in node.output:
        if name and emission.shape(name) is None:
            return "the size of its result depends on data"
    index = _CHECKED.get(node.op_type, len(node.input))
    operand = node.input[index] if index < len(node.input) else ""
    if operand and emission.known(operand) is None:
        return f"its input {operand!r} depends on data and may be out of range"
    if node.op_type in _DIVISIONS and emission.element(node.input[0]) not in _FLOATS:
        divisor = emission.known(node.input[1])
        if divisor is None or not divisor.all():
            return "it may divide by zero"
    return ""
