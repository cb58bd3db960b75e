"""The graph that every stage takes and gives: ONNX semantics, NCHW, pinned versions."""

from __future__ import annotations

import gc
import logging
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import (  # type: ignore[import-untyped, unused-ignore]
    DecodeError,
    EncodeError,
)

from engine.base.errors import GraphError
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir.custom import CustomOperators, bind_ops, custom_ops_in
from engine.graph.ir.naming import name_everything
from engine.graph.ir.spec import TensorSpec, constant_of, input_spec, spec_of

T = TypeVar("T")

# onnx_ir logs what it finds odd in a graph, to the screen where nobody has set logging up; what
# matters of it is found by ``verify`` and told as an error.
logging.getLogger("onnx_ir").setLevel(logging.ERROR)


def parse_proto(data: bytes) -> onnx.ModelProto:
    """The protobuf message in ``data``; raises :class:`GraphError` when there is none."""
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise GraphError(
            "The bytes are not an ONNX model.",
            cause="They are cut, damaged or something else.",
            remedy="Check that this is the right file, and export it again.",
        ) from error
    return proto


@contextmanager
def no_collection() -> Iterator[None]:
    """Without Python's cyclic garbage collector: it takes half the time of making 10,000 nodes.

    Two threads may be inside at once; whoever found the collector running starts it again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _require_texts(model: ir.Model) -> None:
    """Refuse names that are no UTF-8, which protobuf hands out as bytes.

    Raises:
        ValueError: names the first.
    """
    for node in model.graph.all_nodes():
        values = [value.name for value in (*node.inputs, *node.outputs) if value is not None]
        for text in (node.op_type, node.domain, node.name, node.overload, *values):
            if text is not None and not isinstance(text, str):
                raise ValueError(f"a name is not UTF-8: {text!r}")


class Graph:
    """A graph over ``onnx_ir``, immutable by convention: whoever rewrites works on :meth:`copy`.

    Every node has a unique, non-empty name, every value that is used has a name, and initializers
    are not graph inputs. What :func:`engine.graph.ir.verify` checks beyond that (opset, order,
    types) holds for graphs that a frontend or a pass manager gave.

    Attributes:
        model: the ``onnx_ir`` model. Rewriting it in place is for passes that own a copy; the
            index behind :meth:`value` and :meth:`node` is built at the first question, so a
            rewritten model is wrapped in a new ``Graph``.
    """

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        # IR versions below 4 list every initializer as an input, which makes it no constant
        _leave_out(model.graph, model.graph.initializers)
        name_everything(model.graph)
        self._values: dict[str, ir.Value] | None = None
        self._nodes: dict[str, ir.Node] | None = None

    @classmethod
    def from_proto(
        cls,
        proto: onnx.ModelProto,
        weights: Mapping[str, onnx.TensorProto] | None = None,
        *,
        operators: CustomOperators | None = None,
    ) -> Graph:
        """Take a protobuf model; its tensors are shared, not copied.

        Args:
            proto: the model.
            weights: initializers by the names of inputs of ``proto``, as
                :func:`engine.graph.ir.weightless.strip_weights` took them out.
            operators: the classes of its custom operators, which no file holds.

        Raises:
            GraphError: the protobuf is no graph (dangling or doubly defined values, bad tensors).
        """
        try:
            with no_collection():
                _refuse_external(proto)
                model = ir.from_proto(proto)
                _require_texts(model)
                _attach(model.graph, weights or {})
                bind_ops(model, operators)
                return cls(model)
        except (ir.serde.SerdeError, ValueError, TypeError, KeyError) as error:
            root: BaseException = error
            while root.__cause__ is not None:
                root = root.__cause__
            raise GraphError(
                f"The model's graph is malformed: {sanitize(str(root), 300)}",
                cause="The file was damaged or written by a faulty exporter.",
                remedy="Export the model again.",
            ) from error

    @classmethod
    def from_bytes(cls, data: bytes, *, operators: CustomOperators | None = None) -> Graph:
        """Read :meth:`to_bytes`; ``operators`` as of :meth:`from_proto`.

        Raises:
            GraphError: ``data`` is not a serialised ONNX model.
        """
        return cls.from_proto(parse_proto(data), operators=operators)

    def to_proto(self) -> onnx.ModelProto:
        """The graph as a protobuf message, with types and shapes of all values that have them."""
        with no_collection():
            return ir.to_proto(self.model)

    def to_bytes(self) -> bytes:
        """The serialised protobuf; equal graphs give equal bytes (for one protobuf version).

        Raises:
            GraphError: it would pass protobuf's limit of 2 GiB.
        """
        try:
            data: bytes = self.to_proto().SerializeToString(deterministic=True)
        except (EncodeError, ValueError) as error:
            raise GraphError(
                "The graph is too large to be written as one ONNX message.",
                cause="protobuf stops at 2 GiB.",
                remedy="Cut the model into parts by naming inputs and outputs.",
            ) from error
        return data

    def copy(self) -> Graph:
        """A graph of its own that shares only the (immutable) tensors of constants."""
        with no_collection():
            clone = self.model.clone()
            clone.meta.update(self.model.meta)
            _own_types(clone.graph)
            return Graph(clone)

    def with_operators(self, operators: CustomOperators) -> Graph:
        """A copy that knows these custom operators."""
        copy = self.copy()
        bind_ops(copy.model, operators)
        return copy

    @property
    def operators(self) -> CustomOperators:
        """The classes of the graph's custom operators; copies have them, serialised forms not."""
        return custom_ops_in(self.model)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The graph's inputs in order."""
        return tuple(input_spec(value) for value in self.model.graph.inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The graph's outputs in order."""
        return tuple(spec_of(value) for value in self.model.graph.outputs)

    @property
    def nodes(self) -> Iterator[ir.Node]:
        """The nodes in the order of execution."""
        return iter(self.model.graph)

    def __len__(self) -> int:
        return len(self.model.graph)

    def __repr__(self) -> str:
        return f"Graph({self.model.graph.name!r}, {len(self)} nodes)"

    @property
    def values(self) -> Mapping[str, ir.Value]:
        """All named values: inputs, initializers, outputs of nodes."""
        if self._values is None:
            graph = self.model.graph
            values = {value.name: value for value in graph.inputs if value.name}
            values.update(graph.initializers)
            for node in graph:
                values.update((value.name, value) for value in node.outputs if value.name)
            self._values = values
        return self._values

    def computed(self) -> frozenset[str]:
        """Names of the tensors that nodes compute from the inputs.

        Not among them are the inputs themselves, constants, what is computed of constants alone,
        and sizes of tensors whose sizes are fixed.
        """
        moving = set(self.model.graph.inputs)
        names: set[str] = set()
        for node in self.nodes:
            source = node.inputs[0] if node.inputs else None
            sized = node.op_type in ("Shape", "Size") and source is not None
            if sized and source is not None and spec_of(source).static:
                continue
            if any(value in moving for value in node.inputs if value is not None):
                moving.update(node.outputs)
                names.update(value.name for value in node.outputs if value.name)
        return frozenset(names)

    def value(self, tensor: str) -> ir.Value:
        """A value by its name.

        Raises:
            GraphError: no value has this name; the message has the nearest names.
        """
        return _found(self.values, "tensor", tensor)

    def node(self, name: str) -> ir.Node:
        """A node by its name.

        Raises:
            GraphError: no node has this name; the message has the nearest names.
        """
        if self._nodes is None:
            self._nodes = {node.name: node for node in self.model.graph if node.name}
        return _found(self._nodes, "node", name)

    def spec(self, tensor: str) -> TensorSpec:
        """Name, shape and dtype of any value; raises :class:`GraphError` for an unknown name."""
        return spec_of(self.value(tensor))

    def producer(self, tensor: str) -> ir.Node | None:
        """The node that computes a tensor; None for graph inputs and initializers."""
        return self.value(tensor).producer()

    def consumers(self, tensor: str) -> tuple[ir.Node, ...]:
        """The nodes that read a tensor, each once, in the order of their uses."""
        return tuple(self.value(tensor).consumers())

    @property
    def weight_bytes(self) -> int:
        """Bytes of all initializers."""
        held = (value.const_value for value in self.model.graph.initializers.values())
        return sum(tensor.nbytes for tensor in held if tensor is not None)

    def constant(self, tensor: str) -> np.ndarray | None:
        """The array of a constant (initializer or output of ``Constant``); None for activations."""
        tensor_value = constant_of(self.value(tensor))
        return None if tensor_value is None else tensor_value.numpy()


def _found(known: Mapping[str, T], what: str, name: str) -> T:
    """What has the name; raises :class:`GraphError` with the nearest names."""
    found = known.get(name)
    if found is None:
        raise GraphError(
            f"The graph has no {what} {sanitize(name)!r}.",
            remedy=did_you_mean(name, known) or "Look the name up in the graph view.",
        )
    return found


def _leave_out(graph: ir.Graph, names: Container[str | None]) -> None:
    """Take inputs of these names out, if there are any."""
    kept = [value for value in graph.inputs if value.name not in names]
    if len(kept) < len(graph.inputs):
        graph.inputs.clear()
        graph.inputs.extend(kept)


def _refuse_external(proto: onnx.ModelProto) -> None:
    """A tensor in another file would be read from wherever it says, when its numbers are needed.

    Raises:
        ValueError: names the tensor. Who reads source models takes such data in before.
    """
    held = [a.t for n in proto.graph.node for a in n.attribute if a.HasField("t")]
    for tensor in (*proto.graph.initializer, *held):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ValueError(f"the numbers of {tensor.name!r} are in another file")


def _attach(graph: ir.Graph, weights: Mapping[str, onnx.TensorProto]) -> None:
    values = {value.name: value for value in graph.inputs if value.name in weights}
    _leave_out(graph, weights)
    for name, tensor in weights.items():
        if name in values:
            values[name].const_value = ir.serde.deserialize_tensor(tensor)
            graph.register_initializer(values[name])


def _own_types(graph: ir.Graph) -> None:
    """Give each value a type object of its own: clones share them, and ``dtype`` writes to it."""
    values = [*graph.inputs, *graph.initializers.values()]
    values += [value for node in graph for value in node.outputs]
    for value in values:
        if isinstance(value.type, ir.TensorType):
            value.type = ir.TensorType(value.type.dtype)
