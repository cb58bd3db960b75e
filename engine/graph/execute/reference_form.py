"""QDQ graphs in float, as the vendor's simulator computes them: no kernel of ONNX Runtime is fused.

Every tensor is dequantized, every operator computes in float32, and the result is quantized again.
ONNX Runtime optimises nothing of it, as its rewrites change last bits. The rewrites that stand here
change none: what they leave out would be computed again in each run with the same result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from engine.graph.execute.lower import fold_constants, lower_for_runtime
from engine.graph.execute.runtime import RUNTIME_ERRORS, plain_session
from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import UniqueNames
from engine.graph.ir.spec import (
    array_of,
    clamp_bounds,
    maker_of,
    new_node,
    only_reader,
)

_DOMAIN = "com.microsoft"
_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


def reference_form(graph: Graph, *, names: bool = False) -> Graph:
    """A copy that gives the numbers of the unoptimized graph, bit by bit, in less time.

    * int8 activations become uint8, and dequantized constants are float at once;
    * a Relu or Clip is left out where the rounding behind it saturates at its bounds anyway;
    * a LeakyRelu between integers of 8 bits is a table of 256 results, where the runtime's table
      was looked at and has the results of the float operators in every place.

    Args:
        graph: with Q/DQ nodes, or without.
        names: keep every tensor of the graph, for runs that give inner ones; a little slower.
    """
    lowered = lower_for_runtime(graph)
    form = fold_constants(lowered, own=lowered is not graph)
    if names:
        return form
    bounds = [node.name or "" for node in form.nodes if _is_saturated(node)]
    tables = list(_tables(form))
    if not bounds and not tables:
        return form
    copy = graph.copy() if form is graph else form
    for name in bounds:
        node = copy.node(name)
        if node.inputs[0] is not None:
            node.outputs[0].replace_all_uses_with(node.inputs[0])
        copy.model.graph.remove(node, safe=True)
    for table in _exact(tables):
        _look_up(copy, table)
    return Graph(copy.model)


@dataclass(frozen=True)
class _Params:
    """Scale and zero point of one tensor, and the dtype of its integers."""

    scale: np.ndarray
    zero_point: np.ndarray

    def step_of(self, value: float) -> int:
        """The integer of a value."""
        limits = np.iinfo(self.zero_point.dtype)
        step = np.rint(np.float32(value) / self.scale) + float(self.zero_point)
        return int(np.clip(step, limits.min, limits.max))


def _params(node: ir.Node | None, op: str) -> _Params | None:
    """What a Q or DQ node of 8 bits and one scale does; None for anything else."""
    if node is None or node.op_type != op or len(node.inputs) < 3:
        return None
    scale, zero = (array_of(value) for value in node.inputs[1:3])
    if scale is None or zero is None or scale.size != 1 or scale.dtype != np.float32:
        return None
    return _Params(scale.reshape(()), zero.reshape(())) if zero.dtype in _BYTES else None


def _only_quantizer(value: ir.Value) -> ir.Node | None:
    """The QuantizeLinear that alone reads a value."""
    node = only_reader(value, "QuantizeLinear")
    return node if node is not None and node.inputs[0] is value else None


def _is_saturated(node: ir.Node) -> bool:
    """Whether the rounding behind a Relu or Clip does all of its work.

    Rounding is monotonic: where a bound becomes the end of the integers, all beyond it does.
    """
    bounds = clamp_bounds(node)
    params = None if bounds is None else _params(_only_quantizer(node.outputs[0]), "QuantizeLinear")
    if bounds is None or params is None:
        return False
    limits = np.iinfo(params.zero_point.dtype)
    return tuple(map(params.step_of, bounds)) == (limits.min, limits.max)


@dataclass(frozen=True)
class _Table:
    """A LeakyRelu between integers: the names of its node and of the Q behind it."""

    node: str
    quantizer: str
    alpha: float
    before: _Params
    after: _Params


def _tables(graph: Graph) -> Iterator[_Table]:
    for node in graph.nodes:
        if node.op_type != "LeakyRelu" or node.inputs[0] is None:
            continue
        source = node.inputs[0].producer()
        behind = _only_quantizer(node.outputs[0])
        before, after = _params(source, "DequantizeLinear"), _params(behind, "QuantizeLinear")
        if source is None or behind is None or before is None or after is None:
            continue
        if source.inputs[0] is None or before.zero_point.dtype != after.zero_point.dtype:
            continue
        alpha = node.attributes.get_float("alpha", 0.01)
        yield _Table(node.name or "", behind.name or "", alpha, before, after)


def _exact(tables: list[_Table]) -> list[_Table]:
    """Those of which the runtime's table is that of the float operators; all 256 are looked at."""
    if not tables:
        return []
    try:
        session = plain_session(_probe(tables).SerializeToString())
        every = {
            dtype.name: np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
            for dtype in {table.before.zero_point.dtype for table in tables}
        }
        arrays = session.run(None, every)
    except RUNTIME_ERRORS:
        return []  # no such kernel here: the float operators run
    pairs = zip(arrays[::2], arrays[1::2], strict=True)
    return [
        table
        for table, (plain, fused) in zip(tables, pairs, strict=True)
        if np.array_equal(plain, fused)
    ]


def _probe(tables: list[_Table]) -> onnx.ModelProto:
    """A model that computes every table both ways, from all integers of 8 bits."""
    helper = onnx.helper
    nodes, weights, outputs = [], [], []
    kinds: dict[str, int] = {}
    for index, table in enumerate(tables):
        dtype = table.before.zero_point.dtype
        kind = kinds[dtype.name] = helper.np_dtype_to_tensor_dtype(dtype)
        names = [f"{index} {part}" for part in ("scale", "zero", "scale out", "zero out")]
        arrays = [table.before.scale, table.before.zero_point]
        arrays += [table.after.scale, table.after.zero_point]
        weights += [
            onnx.numpy_helper.from_array(np.asarray(array), name)
            for name, array in zip(names, arrays, strict=True)
        ]
        real, leaky, plain, fused = (f"{index} {part}" for part in ("x", "y", "plain", "fused"))
        nodes += [
            helper.make_node("DequantizeLinear", [dtype.name, *names[:2]], [real]),
            helper.make_node("LeakyRelu", [real], [leaky], alpha=table.alpha),
            helper.make_node("QuantizeLinear", [leaky, *names[2:]], [plain]),
            helper.make_node(
                "QLinearLeakyRelu",
                [dtype.name, *names],
                [fused],
                domain=_DOMAIN,
                alpha=table.alpha,
            ),
        ]
        outputs += [helper.make_tensor_value_info(name, kind, [256]) for name in (plain, fused)]
    inputs = [helper.make_tensor_value_info(name, kind, [256]) for name, kind in kinds.items()]
    return helper.make_model(
        helper.make_graph(nodes, "tables", inputs, outputs, weights),
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(_DOMAIN, 1)],
        ir_version=10,
    )


def _look_up(graph: Graph, table: _Table) -> None:
    """Put the runtime's table into the place of DequantizeLinear, LeakyRelu and QuantizeLinear."""
    node, quantizer = graph.node(table.node), graph.node(table.quantizer)
    inner = graph.model.graph
    real = node.inputs[0]
    source = maker_of(real)
    if real is None or source is None:
        return
    result = quantizer.outputs[0]
    name = result.name or ""
    names = UniqueNames(set(graph.values))
    inputs = [*source.inputs[:3], *quantizer.inputs[1:3]]
    out = ir.Value(name=names.claim(f"{name}_table"), type=result.type, shape=result.shape)
    alpha = {"alpha": table.alpha}
    lookup = new_node("QLinearLeakyRelu", inputs, out, table.node, alpha, domain=_DOMAIN)
    inner.insert_before(quantizer, lookup)
    out.name, result.name = name, out.name
    result.replace_all_uses_with(out)
    inner.remove([quantizer, node], safe=True)
    if not real.uses() and not real.is_graph_output():
        inner.remove(source, safe=True)
    inner.opset_imports.setdefault(_DOMAIN, 1)
