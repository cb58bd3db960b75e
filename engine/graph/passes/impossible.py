"""Divisions of constants that have no result, told before ONNX Runtime computes them.

The smallest whole number divided by -1, or its remainder, ends the process (SIGFPE): no kernel of
ONNX Runtime asks before it divides, and it folds constants when a session opens.
"""

from __future__ import annotations

import onnx_ir as ir

from engine.base.errors import GraphError
from engine.base.text import sanitize
from engine.graph.ir import Graph, constant_of
from engine.graph.ir.folding import DIVISIONS, is_safe_division
from engine.graph.passes.folding import ConstantNodes, ConstantSubgraphs, StaticShapes
from engine.graph.passes.manager import Pipeline, run_pipeline

_CONSTANTS = Pipeline("constants", (ConstantNodes, StaticShapes, ConstantSubgraphs))

_WHOLE = frozenset({ir.DataType.INT32, ir.DataType.INT64})
"""Types of which a division can end the process; narrower ones are computed as these."""


def check_divisions(graph: Graph) -> None:
    """Refuse a graph in which two constants are divided that have no quotient.

    Raises:
        GraphError: names the node.
    """
    if not any(map(_divides, graph.model.graph)):
        return
    for node in run_pipeline(graph, _CONSTANTS).graph.model.graph:
        if not _divides(node):
            continue
        dividend, divisor = (constant_of(value) for value in node.inputs[:2])
        if (
            dividend is None
            or divisor is None
            or is_safe_division(dividend.numpy(), divisor.numpy())
        ):
            continue
        raise GraphError(
            f"Node {sanitize(node.name or '', 120)!r} ({node.op_type}) divides constants whose "
            "quotient does not exist: by 0, or the smallest number of the type by -1.",
            cause="The constants in the model are damaged, or were never meant to be used.",
            remedy="Correct them in the model, or cut the part off with 'outputs'.",
        )


def _divides(node: ir.Node) -> bool:
    """Whether a node divides whole numbers."""
    if node.op_type not in DIVISIONS or len(node.inputs) < 2:
        return False
    return any(value is not None and value.dtype in _WHOLE for value in node.inputs)
