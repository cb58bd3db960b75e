"""A QDQ graph cut at every 8-bit tensor: each layer runs alone, on integers that are handed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.execute import Session, lower_for_runtime
from engine.graph.ir import Graph, QuantParams
from engine.simulate.layers import params_of

__all__ = ["Cut", "Difference", "cut"]


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
        self, feeds: Mapping[str, np.ndarray], given: Callable[[str], np.ndarray]
    ) -> list[Difference]:
        """Run every layer on ``given`` and compare what it computes with ``given``.

        Args:
            feeds: the float inputs of the graph.
            given: float tensor -> the other simulator's values of it, in its own unit.
        """
        real = {name: given(name) for name in self.tensors}
        integers = {name: self.tensors[name][2].quantize(real[name]) for name in real}
        inputs = {self.tensors[name][0]: value for name, value in integers.items()}
        found = self.session.run({**feeds, **inputs})
        differences = []
        for name, (_, output, _) in self.tensors.items():
            apart = np.abs(found[output].astype(int) - integers[name].astype(int))
            differences.append(
                Difference(name, apart.size, int((apart > 0).sum()), int(apart.max(initial=0)))
            )
        return differences


def cut(graph: Graph) -> Cut:
    """The layers of a QDQ graph, lowered as the simulator runs them and taken apart.

    Every QuantizeLinear becomes an output, and what read it reads an input of its own: a layer sees
    the integers that are handed in and the kernels are those of the simulator.
    """
    lowered = lower_for_runtime(graph).copy()
    inner = lowered.model.graph
    inner.outputs.clear()
    tensors = {}
    for node in list(inner):
        params = params_of(node) if node.op_type == "QuantizeLinear" else None
        if params is None:
            continue
        value = node.outputs[0]
        given = ir.Value(name=f"{value.name}/given", type=value.type, shape=value.shape)
        value.replace_all_uses_with(given)
        inner.inputs.append(given)
        inner.outputs.append(value)
        name = (value.name or "").removesuffix("/quantized")
        tensors[name] = (given.name or "", value.name or "", params)
    return Cut(Session(Graph(lowered.model)), tensors)
