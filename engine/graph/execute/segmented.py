"""A graph that runs in segments, one after another, with the results of one session bit by bit.

ONNX Runtime joins operators across any place where a graph could be cut, and what it joins it
computes in other steps. So the whole graph is optimised first, as a session would, and what really
runs is cut then: each kernel is in one segment, at the earliest in that of the layer that it
completes. Every segment is a session of its own, which rewrites nothing more.
"""

from __future__ import annotations

import re
import tempfile
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from engine.base.errors import SimulationError, UsageError
from engine.base.text import sanitize
from engine.graph.execute.custom import has_custom
from engine.graph.execute.segments import SessionLike
from engine.graph.execute.session import open_model, simulation_errors
from engine.graph.execute.session_setup import check_feeds
from engine.graph.execute.shared_weights import prepare_for_ort
from engine.graph.execute.submodels import names_read
from engine.graph.ir.graph import Graph
from engine.graph.ir.shapes import with_types
from engine.graph.ir.spec import TensorSpec
from engine.graph.segments import Places

_TYPE = re.compile(r"tensor\((\w+)\)")
_ELEMENTS = {
    "float": onnx.TensorProto.FLOAT,
    "double": onnx.TensorProto.DOUBLE,
    **{
        name.lower(): number
        for name, number in onnx.TensorProto.DataType.items()
        if name not in ("FLOAT", "DOUBLE", "UNDEFINED")
    },
}
"""ONNX Runtime's word for the type of an element -> ONNX's number."""


@dataclass(frozen=True)
class _Segment:
    """One segment: its session, what it reads, what it gives, and what nobody needs behind it.

    Where its layers are computed by kernels of a later one, there is no session.
    """

    session: SessionLike | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    done_with: tuple[str, ...]


class SegmentedSession:
    """A float or QDQ graph in segments; its :meth:`run` is that of
    :class:`engine.graph.execute.Session`.

    Args:
        graph: without custom operators.
        places: of values and nodes the number of the layer that they are done with, as
            :func:`engine.graph.segments.places_of` tells.
        after: the numbers of the layers that a segment ends after.

    Attributes:
        crossing: names of the tensors between each segment and those after it.

    Raises:
        UsageError: the graph has custom operators.
        SimulationError: ONNX Runtime does not take the graph.
    """

    def __init__(self, graph: Graph, places: Places, after: Sequence[int]) -> None:
        if has_custom(graph):
            raise UsageError(
                "A model with custom operators cannot be cut into segments here.",
                cause="Its graph runs in parts already, between which Python code runs.",
                remedy="Simulate it as one segment, or cut it with 'outputs'.",
            )
        graph = with_types(graph)
        self._inputs, self._outputs = graph.inputs, graph.outputs
        parts = _Parts(_optimised(graph), places, sorted(set(after)))
        self.crossing = tuple(parts.crossing(number) for number in range(len(parts) - 1))
        self._constants = parts.constant_outputs()
        self._segments: list[_Segment] = []
        for number in range(len(parts)):
            model = parts.model(number)
            session = None
            if model.graph.output:  # else nobody reads what it computes
                session = open_model(model.SerializeToString(), level="disabled")
                parts.learn(session)
            inputs = tuple(value.name for value in model.graph.input)
            outputs = tuple(value.name for value in model.graph.output)
            self._segments.append(_Segment(session, inputs, outputs, parts.last_read(number)))

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The graph's inputs."""
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The graph's outputs."""
        return self._outputs

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run every segment once, in order.

        Args:
            feeds: an array for every input, of its shape and dtype.

        Returns:
            output name -> array, in the graph's order.

        Raises:
            UsageError: feeds that do not fit the inputs.
            SimulationError: ONNX Runtime failed; names the node.
        """
        known: dict[str, np.ndarray] = check_feeds(feeds, self._inputs)
        known.update(self._constants)
        for segment in self._segments:
            if segment.session is not None:
                fed = {name: known[name] for name in segment.inputs}
                with simulation_errors():
                    arrays = segment.session.run(segment.outputs, fed)
                known.update(zip(segment.outputs, arrays, strict=True))
            for name in segment.done_with:
                known.pop(name, None)
        return {spec.name: known[spec.name] for spec in self._outputs}


def _optimised(graph: Graph) -> onnx.ModelProto:
    """What a session of the graph really runs."""
    form = prepare_for_ort(graph)
    with tempfile.TemporaryDirectory(prefix="rknntui-") as folder:
        place = Path(folder) / "optimised.onnx"
        open_model(form.data, optimised_model=place)
        return onnx.load(place)


class _Parts:
    """An optimised model taken apart: which nodes are in which segment, and what crosses."""

    def __init__(self, model: onnx.ModelProto, places: Places, after: Sequence[int]) -> None:
        self._model = model
        inner = model.graph
        self._constants = {tensor.name: tensor for tensor in inner.initializer}
        self._types = {
            value.name: value for value in (*inner.value_info, *inner.output, *inner.input)
        }
        self._count = len(after) + 1
        self._nodes: list[list[onnx.NodeProto]] = [[] for _ in range(self._count)]
        self._home: dict[str, int] = {}
        for node in inner.node:
            known = [self._home[name] for name in names_read(node) if name in self._home]
            place = _place(node, places)
            known += [] if place is None else [bisect_left(after, place)]
            number = max(known, default=0)
            self._nodes[number].append(node)
            self._home.update((name, number) for name in node.output if name)
        self._last: dict[str, int] = {}
        for number, nodes in enumerate(self._nodes):
            self._last.update((name, number) for node in nodes for name in names_read(node))
        # what leaves the graph is needed to its end
        self._kept = {value.name for value in inner.output}

    def __len__(self) -> int:
        return self._count

    def crossing(self, number: int) -> tuple[str, ...]:
        """Tensors that segments up to ``number`` give to later ones."""
        return tuple(
            name for name, home in self._home.items() if home <= number < self._last.get(name, -1)
        )

    def last_read(self, number: int) -> tuple[str, ...]:
        """Tensors that nobody needs behind a segment."""
        return tuple(n for n, last in self._last.items() if last == number and n not in self._kept)

    def constant_outputs(self) -> dict[str, np.ndarray]:
        """Outputs that no node computes."""
        return {
            name: onnx.numpy_helper.to_array(self._constants[name])
            for name in self._kept
            if name in self._constants
        }

    def model(self, number: int) -> onnx.ModelProto:
        """A segment as a model."""
        model = onnx.ModelProto(ir_version=self._model.ir_version)
        model.opset_import.extend(self._model.opset_import)
        model.functions.extend(self._model.functions)
        graph = model.graph
        graph.name = f"segment{number}"
        graph.node.extend(self._nodes[number])
        read = dict.fromkeys(name for node in self._nodes[number] for name in names_read(node))
        own = {name for node in self._nodes[number] for name in node.output if name}
        for name in read:
            if name in self._constants:
                graph.initializer.append(self._constants[name])
            elif name not in own and (name in self._home or name in self._types):
                graph.input.append(self._type(name))
        graph.output.extend(
            # where nobody told its type, ONNX Runtime finds it
            self._types.get(name) or onnx.ValueInfoProto(name=name)
            for name in sorted(own)
            if name in self._kept or self._last.get(name, -1) > number
        )
        return model

    def learn(self, session: SessionLike) -> None:
        """Note the types of what a segment gives."""
        ort_session: Any = session
        for output in ort_session.get_outputs():
            match = _TYPE.fullmatch(output.type)
            element = _ELEMENTS.get(match[1]) if match else None
            if element is not None and output.name not in self._types:
                self._types[output.name] = onnx.helper.make_tensor_value_info(
                    output.name, element, output.shape
                )

    def _type(self, name: str) -> onnx.ValueInfoProto:
        info = self._types.get(name)
        if info is None:
            raise SimulationError(
                f"The type of tensor {sanitize(name, 120)!r} between two segments is not known.",
                cause="ONNX Runtime made it and does not say what it is.",
                remedy="Cut after another layer.",
            )
        return info


# what ONNX Runtime puts behind the name of a node that it takes the place of, or of its output
_COPY = re.compile(r"_token_\d+$")
_BLOCKED = "_nchwc"


def _place(node: onnx.NodeProto, places: Places) -> int | None:
    """The layer that a kernel completes; None where its names do not tell."""
    ranks = [places.values[name] for name in node.output if name in places.values]
    if ranks:
        return max(ranks)
    if node.name.endswith(_BLOCKED):
        return places.values.get(node.name.removesuffix(_BLOCKED))
    if node.op_type == "Transpose":  # ONNX Runtime puts its own between layouts, and calls them so
        return None
    return places.nodes.get(_COPY.sub("", node.name))
