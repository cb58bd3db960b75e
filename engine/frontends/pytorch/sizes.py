"""Sizes that a module computes while it runs, made constants: the inputs have fixed sizes here.

A trace writes ``x.size(0) // 4`` as tensors of one number, of which exporters lose the rank. What
hangs on sizes and constants alone is computed once and put in its place; nothing that depends on
data is touched. Imported in the child process only: it needs torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["with_fixed_sizes"]

# What may stand between a size and the number that is made of it (ATen's names)
_ARITHMETIC = frozenset(
    f"aten::{name}"
    for name in (
        "add", "sub", "mul", "div", "floor_divide", "floordiv", "remainder", "neg", "floor",
        "ceil", "round", "sqrt", "to", "Int", "IntImplicit", "ScalarImplicit", "Float", "max",
        "min", "__getitem__",
    )
) | {"prim::NumToTensor", "prim::ListConstruct"}  # fmt: skip
_ENDS = frozenset({"aten::size", "aten::dim", "aten::numel", "aten::len", "prim::Constant"})
_NUMBERS = ("IntType", "BoolType")


def with_fixed_sizes(module: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """A module that computes the same for inputs of the sizes of ``tensors``.

    Args:
        module: a script module in evaluation mode, whose ``forward`` takes single tensors; it is
            used up.
        tensors: inputs.

    Returns:
        Another script module.

    Raises:
        RuntimeError: torch does not freeze or run it.
    """
    frozen = torch._C._freeze_module(module._c, preserveParameters=True)
    graph = frozen._get_method("forward").graph
    torch._C._jit_pass_inline(graph)
    for _ in range(_ROUNDS):
        if not _fix(graph, frozen, tensors):
            break
        torch._C._jit_pass_constant_propagation(graph)
        torch._C._jit_pass_dce(graph)
    return torch.jit._recursive.wrap_cpp_module(frozen)


_ROUNDS = 4


def _fix(graph: Any, frozen: Any, tensors: Sequence[torch.Tensor]) -> bool:
    """Replace what can be; whether there was anything. Folded branches may bring up more."""
    found = [node for node in graph.nodes() if _is_size(node)]
    if not found:
        return False
    values = _computed(graph, frozen, tensors)
    for node, value in zip(found, values, strict=True):
        constant = graph.insertConstant(value)
        constant.node().moveBefore(node)
        node.output().replaceAllUsesWith(constant)
    return True


def _is_size(node: Any) -> bool:
    """Whether a node gives a number that depends on sizes and constants alone."""
    if node.kind() == "prim::Constant" or node.outputsSize() != 1:
        return False
    if node.output().type().kind() not in _NUMBERS or not node.output().uses():
        return False
    waiting, seen = [node], set()
    while waiting:
        current = waiting.pop()
        if current.kind() in _ENDS:
            continue
        if current.kind() not in _ARITHMETIC:
            return False
        for value in current.inputs():
            if value.debugName() not in seen:
                seen.add(value.debugName())
                waiting.append(value.node())
    return True


def _computed(graph: Any, frozen: Any, tensors: Sequence[torch.Tensor]) -> list[Any]:
    """The numbers that the graph's nodes of sizes give, in order."""
    lowered, weights = torch._C._jit_pass_lower_graph(graph.copy(), frozen)
    nodes = [node for node in lowered.nodes() if _is_size(node)]
    for index in reversed(range(len(list(lowered.outputs())))):
        lowered.eraseOutput(index)
    for node in nodes:
        lowered.registerOutput(node.output())
    if len(nodes) > 1:
        lowered.makeMultiOutputIntoTuple()
    torch._C._jit_pass_dce(lowered)
    function = torch._C._create_function_from_graph("sizes", lowered)
    with torch.no_grad():
        given = function(*tensors, *weights)
    return list(given) if len(nodes) > 1 else [given]
