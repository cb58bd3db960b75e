"""A QDQ graph cut at every 8-bit tensor: each layer runs alone, on integers that are handed in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.execute import Session, lower_for_runtime
from engine.graph.ir import Graph, QuantParams, params_of

__all__ = ["Cut", "Difference", "cut", "cut_for_toolkit", "tensors_of"]


@dataclass(frozen=True)
class Difference:
    """How far the integers of one layer are from those of another simulator.

    Attributes:
        layer: its output tensor.
        values: how many were compared.
        unequal: how many differ.
        largest: the largest difference, in steps.
    """

    layer: str
    values: int
    unequal: int
    largest: int


@dataclass(frozen=True)
class Cut:
    """What :func:`cut` made.

    Attributes:
        session: takes the integers of every 8-bit tensor and gives those that each layer computes.
        tensors: float tensor -> (name of the input, name of the output, parameters).
    """

    session: Session
    tensors: Mapping[str, tuple[str, str, QuantParams]]

    def differences(
        self,
        feeds: Mapping[str, np.ndarray],
        given: Callable[[str], np.ndarray],
        expected: Callable[[str], np.ndarray] | None = None,
    ) -> list[Difference]:
        """Run every layer on ``given`` and compare what it computes with ``expected``.

        Args:
            feeds: the float inputs of the graph.
            given: float tensor -> its values in its own unit, which the layers read.
            expected: float tensor -> what another simulator computed from the same values; those
                themselves when None.
        """
        integers = {name: self.tensors[name][2].quantize(given(name)) for name in self.tensors}
        inputs = {self.tensors[name][0]: value for name, value in integers.items()}
        found = self.session.run({**feeds, **inputs})
        differences = []
        for name, (_, output, params) in self.tensors.items():
            theirs = integers[name] if expected is None else params.quantize(expected(name))
            apart = np.abs(found[output].astype(int) - theirs.astype(int))
            differences.append(
                Difference(name, apart.size, int((apart > 0).sum()), int(apart.max(initial=0)))
            )
        return differences


def cut(graph: Graph) -> Cut:
    """The layers of a QDQ graph, lowered as the simulator runs them and taken apart.

    Every QuantizeLinear becomes an output, and what read it reads an input of its own: a layer sees
    the integers that are handed in and the kernels are those of the simulator.
    """
    named = {node.name for node in graph.nodes}
    lowered = lower_for_runtime(graph).copy()
    inner = lowered.model.graph
    inner.outputs.clear()
    tensors = {}
    for node in list(inner):
        params = params_of(node) if node.op_type == "QuantizeLinear" else None
        if params is None or node.name not in named:
            continue  # a stage of a mean belongs to the layer of the mean
        value = node.outputs[0]
        given = ir.Value(name=f"{value.name}/given", type=value.type, shape=value.shape)
        value.replace_all_uses_with(given)
        inner.inputs.append(given)
        inner.outputs.append(value)
        name = (value.name or "").removesuffix("/quantized")
        tensors[name] = (given.name or "", value.name or "", params)
    return Cut(Session(Graph(lowered.model)), tensors)


def cut_for_toolkit(
    graph: Graph, whole: Collection[str] = ()
) -> tuple[Graph, dict[str, str], list[str]]:
    """The same cut as a QDQ file that the vendor's toolkit loads: float inputs and outputs.

    Every 8-bit tensor that a layer writes becomes an output of the file, and its readers read an
    input of their own, quantized with the same parameters. Inputs and outputs have short names: the
    toolkit cuts long ones, and mixes them up.

    Args:
        graph: in QDQ form.
        whole: names of the QuantizeLinear nodes at which nothing is cut, as the compiler fuses the
            operators around them.

    Returns:
        The graph, the tensor that each of its inputs stands for, and its outputs in order.
    """
    copy = graph.copy()
    inner = copy.model.graph
    inputs = {value.name or "": value.name or "" for value in inner.inputs}
    inner.outputs.clear()
    outputs: list[str] = []
    for node in list(inner):
        source = node.inputs[0] if node.inputs else None
        if node.op_type != "QuantizeLinear" or source is None or source.is_graph_input():
            continue
        if node.name in whole:
            continue
        name = (node.outputs[0].name or "").removesuffix("/quantized")
        (after,) = (use.node for use in node.outputs[0].uses())
        result = after.outputs[0]
        if not result.uses() and not result.is_graph_output():
            continue
        at = len(outputs)
        given = ir.Value(name=f"given_{at}", type=source.type, shape=source.shape)
        again = _pair(given, node, after)
        result.replace_all_uses_with(again[-1].outputs[0])
        result.name = f"found_{at}"
        inner.insert_before(inner[0], again)
        inner.inputs.append(given)
        inner.outputs.append(result)
        inputs[given.name or ""] = name
        outputs.append(name)
    _drop_dead(inner)
    return Graph(copy.model), inputs, outputs


def tensors_of(graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every 8-bit tensor of our own simulation of one sample, dequantized."""
    copy = graph.copy()
    inner = copy.model.graph
    inner.outputs.clear()
    wanted = {}
    for node in inner:
        if node.op_type == "QuantizeLinear":
            tensor = (node.outputs[0].name or "").removesuffix("/quantized")
            (after,) = (use.node for use in node.outputs[0].uses())
            wanted[tensor] = after.outputs[0].name or ""
            inner.outputs.append(after.outputs[0])
    found = Session(Graph(copy.model)).run(feeds)
    return {tensor: found[output] for tensor, output in wanted.items()}


def _pair(given: ir.Value, quantize: ir.Node, dequantize: ir.Node) -> list[ir.Node]:
    """Copies of a tensor's Q and DQ that read another value."""
    made: list[ir.Node] = []
    value = given
    for node in (quantize, dequantize):
        old = node.outputs[0]
        name = f"{given.name}/{node.op_type}"
        out = ir.Value(name=name, type=old.type, shape=old.shape)
        made.append(ir.node(node.op_type, [value, *node.inputs[1:]], outputs=[out], name=name))
        value = out
    return made


def _drop_dead(inner: ir.Graph) -> None:
    """Remove nodes that nothing reads any more, and inputs of nothing."""
    for node in reversed(list(inner)):
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            inner.remove(node, safe=True)
    for value in [value for value in inner.inputs if not value.uses()]:
        inner.inputs.remove(value)
