"""A model that runs in parts, one session of ONNX Runtime each: a change runs what follows it.

Hundreds of runs that differ from the first one in a single place need neither what lies before that
place nor what does not depend on it. The tensors between the parts are kept of the first run; a
later one starts at the part that it changes, and leaves out every part whose inputs are what they
were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from engine.graph.execute import open_model, simulation_errors
from engine.graph.execute.segments import Runs

__all__ = ["Parts"]

# Parts, at most: 8 take a fifteenth more time on YOLOv8n, 20 no less, and each holds a session.
_MOST = 12

Values = Mapping[str, np.ndarray]


@dataclass
class _Part:
    """Some nodes in a row; the session is opened when the shapes of its inputs are known."""

    nodes: Sequence[onnx.NodeProto]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    session: Runs | None = None


class Parts:
    """A model cut into parts.

    Args:
        model: with its nodes in an order in which they can run.
        sizes: tensor -> number of elements, as far as known: cuts are made where little lies
            between.
        count: of parts; 1 is the model as it is.
        threads: of the sessions.
    """

    def __init__(
        self, model: onnx.ModelProto, sizes: Mapping[str, int], count: int, threads: int
    ) -> None:
        self._model = model
        self._threads = threads
        self._stored = {tensor.name: tensor for tensor in model.graph.initializer}
        self.outputs = tuple(output.name for output in model.graph.output)
        self._parts = self._cut(sizes, min(max(count, 1), _MOST))

    def run(self, feeds: Values) -> dict[str, np.ndarray]:
        """Run everything.

        Args:
            feeds: all inputs of the model.

        Returns:
            the feeds, the tensors between parts and the outputs.

        Raises:
            SimulationError: a part does not run.
        """
        values = dict(feeds)
        for part in self._parts:
            values |= self._run(part, values)
        return values

    def again(self, before: Values, changed: Values) -> dict[str, np.ndarray]:
        """The outputs where some inputs differ from those of :meth:`run`.

        Args:
            before: what :meth:`run` gave.
            changed: the inputs that differ.
        """
        differ = dict(changed)
        for part in self._parts:
            if not any(name in differ for name in part.inputs):
                continue
            given = {name: differ.get(name, before[name]) for name in part.inputs}
            differ |= {
                name: array
                for name, array in self._run(part, given).items()
                if not np.array_equal(array, before[name])
            }
        return {name: differ.get(name, before[name]) for name in self.outputs}

    def _run(self, part: _Part, values: Values) -> dict[str, np.ndarray]:
        feeds = {name: values[name] for name in part.inputs}
        with simulation_errors():
            if part.session is None:
                part.session = self._open(part, feeds)
            found = part.session.run(list(part.outputs), feeds)
        return dict(zip(part.outputs, found, strict=True))

    def _open(self, part: _Part, feeds: Values) -> Runs:
        inputs = [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in feeds.items()
        ]
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in part.outputs]
        used = {name for node in part.nodes for name in _reads(node)}
        graph = onnx.helper.make_graph(
            part.nodes,
            "part",
            inputs,
            outputs,
            [tensor for name, tensor in self._stored.items() if name in used],
        )
        model = onnx.helper.make_model(
            graph, opset_imports=self._model.opset_import, ir_version=self._model.ir_version
        )
        return open_model(
            model.SerializeToString(), threads=self._threads, plan_memory=False, arena=False
        )

    def _cut(self, sizes: Mapping[str, int], count: int) -> list[_Part]:
        nodes = list(self._model.graph.node)
        reads = [_reads(node) for node in nodes]
        last = {name: index for index, names in enumerate(reads) for name in names}
        last |= dict.fromkeys(self.outputs, len(nodes))
        made = {name: index for index, node in enumerate(nodes) for name in node.output if name}
        ends = _ends(len(nodes), count, _between(made, last, sizes, len(nodes)))
        parts, begin = [], 0
        for end in ends:
            inside = range(begin, end)
            own = {name for index in inside for name in nodes[index].output if name}
            inputs = dict.fromkeys(name for index in inside for name in reads[index])
            parts.append(
                _Part(
                    nodes[begin:end],
                    tuple(name for name in inputs if name not in own | self._stored.keys()),
                    tuple(
                        name for index in inside for name in nodes[index].output
                        if name and last.get(name, -1) >= end
                    ),
                )
            )  # fmt: skip
            begin = end
        return [part for part in parts if part.outputs]


def _reads(node: onnx.NodeProto) -> list[str]:
    """What a node reads, its branches too."""
    found = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            own = {tensor.name for tensor in attribute.g.initializer}
            for inner in attribute.g.node:
                found += [name for name in _reads(inner) if name not in own]
                own |= set(inner.output)
    return found


def _between(
    made: Mapping[str, int], last: Mapping[str, int], sizes: Mapping[str, int], count: int
) -> np.ndarray:
    """(count + 1,): elements that a cut before each node has to keep."""
    steps = np.zeros(count + 2)
    for name, index in made.items():
        size = sizes.get(name, 1)
        steps[index + 1] += size
        steps[min(last.get(name, index), count) + 1] -= size
    return np.cumsum(steps)[: count + 1]


def _ends(nodes: int, count: int, between: np.ndarray) -> Iterable[int]:
    """Where parts end: spread evenly, each moved to where least lies between."""
    reach = nodes // (2 * count)
    found = []
    for number in range(1, count):
        middle = nodes * number // count
        places = range(max(middle - reach, 1), min(middle + reach, nodes - 1) + 1)
        found.append(min(places, key=lambda place: (between[place], abs(place - middle))))
    return sorted({*found, nodes})
