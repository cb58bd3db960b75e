"""From a symbol, its inputs and its parameters to a graph, node by node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize, shape_text
from engine.frontends.emit import TypedEmitter, refuse
from engine.frontends.ends import batch_fixed, initial_array, input_size, require_entries
from engine.frontends.facts import words
from engine.frontends.mxnet.call import Call, Value
from engine.frontends.mxnet.files import Node, Symbol
from engine.frontends.mxnet.operators import CUT_HERE, DATA_INPUTS, OPERATORS

_DTYPES = {"0": "float32", "3": "uint8", "4": "int32", "5": "int8", "6": "int64"}
_KERNELS = words("Convolution Convolution_v1 Deconvolution Pooling Pooling_v1")
# what keeps the number of dimensions, so that a kernel behind it tells that of the input
_KEEPING = words("BatchNorm BatchNorm_v1 Activation LeakyReLU Dropout Cast clip Pad")
_MAX_STEPS = 20


@dataclass(frozen=True)
class NetworkInput:
    """One input: the (node, output) that it stands for, its name, shape and type.

    Attributes:
        reference: the node and its output.
        name: of the tensor.
        shape: with the batch; None where nobody said it.
        dtype: of its values.
        value: its constant, where one was given.
        open: whether its size was given and nothing tells how many dimensions it has, so that the
            batch may lack.
    """

    reference: tuple[int, int]
    name: str
    shape: tuple[int, ...] | None
    dtype: str
    value: np.ndarray | None = None
    open: bool = False


def network_inputs(
    symbol: Symbol,
    references: Sequence[tuple[tuple[int, int], str]],
    sizes: Sequence[Sequence[int] | None] | None,
    initial: Sequence[Any] | None,
    *,
    add_batch: bool = False,
) -> tuple[list[NetworkInput], list[Finding]]:
    """The inputs with their sizes.

    Args:
        symbol: the network.
        references: (node, output) and name of each input, in order.
        sizes: a size per input, with or without the batch.
        initial: per input None, an array (or lists), or the path of an npy file.
        add_batch: whether a batch of 1 goes before sizes of which nothing tells whether they have
            one (:attr:`NetworkInput.open`).

    Raises:
        SourceModelError: lists that do not fit the inputs, or sizes that make no sense.
    """
    names = [name for _, name in references]
    require_entries(names, sizes, "input_size_list")
    require_entries(names, initial, "input_initial_val")
    inputs: list[NetworkInput] = []
    findings: list[Finding] = []
    for number, (reference, name) in enumerate(references):
        node = symbol.nodes[reference[0]]
        dtype = _DTYPES.get(node.attributes.get("__dtype__", "0"), "float32")
        item = initial[number] if initial is not None else None
        size = sizes[number] if sizes is not None else None
        if item is not None:
            value = initial_array(name, item).astype(dtype)
            inputs.append(NetworkInput(reference, name, value.shape, dtype, value))
            continue
        declared = _declared(node)
        rank = None if size is None else _rank(symbol, reference, declared, len(size))
        if size is not None:
            shape: tuple[int, ...] | None = input_size(name, size, rank)
            if rank is None and add_batch and shape is not None:
                findings.append(_assumed(name, shape))
                shape = (1, *shape)
        else:
            shape, finding = _own(name, declared)
            findings += finding
        unknown = size is not None and rank is None
        inputs.append(NetworkInput(reference, name, shape, dtype, open=unknown))
    return inputs, findings


def _declared(node: Node) -> tuple[int, ...] | None:
    """The shape that a variable says (``__shape__``); dimensions below 1 are open."""
    text = node.attributes.get("__shape__", "").strip("()[] ")
    items = [item.strip().rstrip("L") for item in text.split(",", 32) if item.strip()]
    if node.op != "null" or not items or not all(i.lstrip("-").isdigit() for i in items):
        return None
    if any(len(item) > 12 for item in items):
        return None
    return tuple(int(item) for item in items)


def _own(
    name: str, declared: tuple[int, ...] | None
) -> tuple[tuple[int, ...] | None, list[Finding]]:
    """The declared shape, an open batch set to 1; None where another dimension is open."""
    if declared is None:
        return None, []
    shape = declared if declared[0] > 0 else (1, *declared[1:])
    if min(shape) < 1:
        return None, []
    if shape == declared:
        return shape, []
    return shape, [batch_fixed(name, shape_text(declared))]


def _assumed(name: str, shape: tuple[int, ...]) -> Finding:
    return Finding(
        code="size-without-batch",
        severity="info",
        where=sanitize(name),
        what=f"The size {list(shape)} of input {sanitize(name)!r} was read without the batch: "
        f"{[1, *shape]}.",
        cause="The network does not take it as it stands, and generation 1's sizes have no batch.",
        remedy="Write the batch too, to be sure.",
    )


def _rank(
    symbol: Symbol,
    reference: tuple[int, int],
    declared: tuple[int, ...] | None,
    rank: int,
) -> int | None:
    """How many dimensions an input has, by what it says or by the first kernel behind it.

    Where a fully connected layer is the first and one dimension is ``given``, the batch lacks.
    """
    if declared is not None:
        return len(declared)
    for _ in range(_MAX_STEPS):
        reader = next(
            (i for i, node in enumerate(symbol.nodes) if node.inputs[:1] == (reference,)), None
        )
        if reader is None:
            return None
        node = symbol.nodes[reader]
        if node.op in _KERNELS:
            kernel = [k for k in node.attributes.get("kernel", "").strip("()[] ").split(",") if k]
            return len(kernel) + 2 if kernel else None
        if node.op == "FullyConnected":
            return 2 if rank == 1 else None
        plain = node.op in _KEEPING or node.op.lower().endswith("scalar")
        if not plain and not node.op.startswith(("broadcast_", "elemwise_")):
            return None
        reference = (reader, 0)
    return None


Reference = tuple[int, int]


def read_inputs(node: Node) -> tuple[Reference, ...]:
    """The inputs that a node reads at inference: labels are left out."""
    return node.inputs[: DATA_INPUTS.get(node.op)]


def output_name(symbol: Symbol, reference: Reference, count: int = 1) -> str:
    """MXNet's own name of an output: ``conv0_output``, ``split0_output1``, or the variable's."""
    node = symbol.nodes[reference[0]]
    if node.op == "null":
        return node.name
    return f"{node.name}_output{reference[1] if count > 1 or reference[1] else ''}"


def resolve(symbol: Symbol, name: str, what: str) -> Reference:
    """The (node, output) that a user's name means: a tensor's, or a node's.

    Raises:
        SourceModelError: nothing has this name; with the nearest candidates.
    """
    nodes = {node.name: index for index, node in enumerate(symbol.nodes)}
    if name in nodes:
        return nodes[name], 0
    stem, mark, number = name.rpartition("_output")
    if mark and stem in nodes and (number == "" or (number.isdigit() and len(number) < 4)):
        return nodes[stem], int(number or 0)
    candidates = [output_name(symbol, (index, 0)) for index in range(len(symbol.nodes))]
    raise SourceModelError(
        f"The network has no tensor {sanitize(name)!r}, which {what} names.",
        remedy=did_you_mean(name, candidates) or "Look tensor names up in the graph view.",
    )


def unknown_operator(op: str) -> str:
    """Why an operator is refused before anything is computed; empty where it is known."""
    if op in OPERATORS or op == "null":
        return ""
    return CUT_HERE.get(op) or f"it is not converted. {did_you_mean(op, OPERATORS)}".rstrip()


class Conversion:
    """Converts the nodes that some outputs need.

    Args:
        symbol: the network.
        arrays: its parameters, by name.
        writer: writes the graph.
        inputs: of the network, with shapes.

    Attributes:
        refused: node -> why, of those that could not be converted.
    """

    def __init__(
        self,
        symbol: Symbol,
        arrays: Mapping[str, np.ndarray],
        writer: TypedEmitter,
        inputs: Sequence[NetworkInput],
    ) -> None:
        self._symbol = symbol
        self._arrays = arrays
        self._writer = writer
        self.refused: dict[int, UnsupportedOperatorError] = {}
        self._values: dict[Reference, Value] = {}
        self._constants: dict[Reference, str] = {}
        for network_input in inputs:
            if network_input.value is not None:
                self._values[network_input.reference] = network_input.value
            elif network_input.shape is not None:
                name = self._writer.input(
                    network_input.name, network_input.shape, network_input.dtype
                )
                self._values[network_input.reference] = name

    def run(self, needed: Iterable[int], *, strict: bool) -> None:
        """Convert nodes, in their order.

        Raises:
            UnsupportedOperatorError: ``strict``, and a node is refused.
        """
        for index in sorted(needed):
            node = self._symbol.nodes[index]
            if (index, 0) in self._values:
                continue
            if node.op == "null":
                self._values[index, 0] = self._arrays[node.name]
                continue
            try:
                self._convert(index, node)
            except UnsupportedOperatorError as error:
                self.refused[index] = self._named(node, error)
                if strict:
                    raise self.refused[index] from error

    def _convert(self, index: int, node: Node) -> None:
        references = read_inputs(node)
        if any(reference[0] in self.refused for reference in references):
            return
        values = []
        for reference in references:
            if reference not in self._values:
                if reference[0] in {key for key, _ in self._values}:
                    refuse(
                        f"it reads {output_name(self._symbol, reference)}, which is not converted"
                    )
                return  # it hangs on a node that was refused: only a look comes here
            values.append(self._values[reference])
        why = unknown_operator(node.op)
        if why:
            refuse(why)
        self._writer.origin = sanitize(node.name, 200)
        call = Call(
            self._writer,
            node,
            values,
            lambda number: self.tensor(references[number]),
            lambda role: self._arrays.get(f"{node.name}_{role}"),
            lambda number, count: output_name(self._symbol, (index, number), count),
        )
        result = OPERATORS[node.op](call)
        self._writer.origin = ""
        outputs = result if isinstance(result, list) else [result]
        self._values.update(((index, number), value) for number, value in enumerate(outputs))

    def tensor(self, reference: Reference) -> str:
        """The name of an output of a node; a known array becomes a constant, once."""
        value = self._values[reference]
        if isinstance(value, str):
            return value
        if reference not in self._constants:
            hint = sanitize(output_name(self._symbol, reference), 500)
            self._constants[reference] = self._writer.constant(value, hint)
        return self._constants[reference]

    def output(self, reference: Reference) -> str:
        """Declare an output of a node as one of the graph, and give its name.

        Raises:
            SourceModelError: the node has no such output.
        """
        node = self._symbol.nodes[reference[0]]
        if reference not in self._values:
            raise SourceModelError(
                f"{sanitize(node.name)} has no output {reference[1]} that could be taken.",
                remedy="Take its first output.",
            )
        tensor = self.tensor(reference)
        if node.op == "null" or not isinstance(self._values[reference], str):
            self._writer.origin = sanitize(node.name, 200)
            tensor = self._writer.node("Identity", [tensor], f"{node.name}_output")
            self._writer.origin = ""
        return self._writer.output(tensor, self._writer.dtype(tensor).name)

    def shape(self, reference: Reference) -> tuple[int, ...] | None:
        """The shape of an output; None where it was not converted."""
        value = self._values.get(reference)
        if value is None:
            return None
        return value.shape if isinstance(value, np.ndarray) else self._writer.shape(value)

    def _named(self, node: Node, error: UnsupportedOperatorError) -> UnsupportedOperatorError:
        before = [
            repr(sanitize(output_name(self._symbol, reference), 100))
            for reference in dict.fromkeys(read_inputs(node))
            if self._symbol.nodes[reference[0]].op != "null"
            and not isinstance(self._values.get(reference), np.ndarray)
        ][:3]
        cut = f"outputs: [{', '.join(before)}]" if before else "'outputs'"
        return UnsupportedOperatorError(
            f"Operator {sanitize(node.op, 80)} (node {sanitize(node.name, 120)!r}) is not "
            f"supported: {error.what}.",
            remedy=f"Cut the network before it with {cut}.",
        )
