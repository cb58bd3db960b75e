"""The inputs of an MXNet network: which variables they are, their sizes and types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.base.findings import Finding
from engine.base.text import sanitize, shape_text
from engine.frontends.ends import batch_fixed, input_size
from engine.frontends.facts import words
from engine.frontends.mxnet.files import Node, Symbol
from engine.frontends.option_checks import initial_array, require_entries

__all__ = ["NetworkInput", "network_inputs"]

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
    found: list[NetworkInput] = []
    findings: list[Finding] = []
    for number, (reference, name) in enumerate(references):
        node = symbol.nodes[reference[0]]
        dtype = _DTYPES.get(node.attributes.get("__dtype__", "0"), "float32")
        given = initial[number] if initial is not None else None
        size = sizes[number] if sizes is not None else None
        if given is not None:
            value = initial_array(name, given).astype(dtype)
            found.append(NetworkInput(reference, name, value.shape, dtype, value))
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
        found.append(NetworkInput(reference, name, shape, dtype, open=unknown))
    return found, findings


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
    given: int,
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
            return 2 if given == 1 else None
        plain = node.op in _KEEPING or node.op.lower().endswith("scalar")
        if not plain and not node.op.startswith(("broadcast_", "elemwise_")):
            return None
        reference = (reader, 0)
    return None
