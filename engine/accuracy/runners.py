"""The three runs that an error analysis compares: golden, simulated, and every layer isolated.

A graph is taken in parts, one after the other: ONNX Runtime sets a session up in time that grows
with the square of its outputs. Quantized tensors cross from part to part as integers, so that the
integer kernels are those of the whole graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from engine.accuracy.rows import INPUT, Row
from engine.graph.execute import prepare_for_ort
from engine.graph.execute.submodels import OWN, Submodel, SubmodelBuilder, renamed
from engine.graph.ir import QUANT_DTYPES, Graph, params_of
from engine.graph.layers import LayerMap

Tensors = dict[str, np.ndarray]
_GOLDEN = "golden/"
_BOUNDS = ("Max", "Min", "Clip")
_STORED = ("int8", "uint8", "int16", "uint16")


@dataclass(frozen=True)
class QuantizedTensor:
    """A row's simulated tensor in the QDQ graph as it runs.

    Attributes:
        tensor: what a session gives: integers, or the float values themselves.
        floats: the float tensor that layers of float operators read.
        written: what the layer's own node chain ends in: ``tensor``, or ``floats`` where the
            integers are made for the next layer only.
        scale, zero_point: float32, shaped to broadcast; None where ``tensor`` holds floats.
        limits: lowest and highest integer.
        parameters: names of scale and zero point, and the channel axis.
    """

    tensor: str
    floats: str
    written: str
    scale: np.ndarray | None = None
    zero_point: np.ndarray | None = None
    limits: tuple[float, float] = (0.0, 0.0)
    parameters: tuple[str, ...] = ()
    axis: int = 1

    def values(self, array: np.ndarray) -> np.ndarray:
        """Float32 values of ``tensor``: ``(q - zero_point) * scale`` as DequantizeLinear does."""
        if self.scale is None or self.zero_point is None:
            return array if array.dtype == np.float32 else array.astype(np.float32)
        real: np.ndarray = array.astype(np.float32)
        real -= self.zero_point
        real *= self.scale
        return real

    def rounded(self, array: np.ndarray) -> np.ndarray:
        """Float32 values as the next layer sees them: quantized and dequantized."""
        if self.scale is None or self.zero_point is None:
            return self.values(array)
        # of an array of rank 0 numpy gives a number, which holds no result of what follows
        steps: np.ndarray = np.asarray(np.rint(array.astype(np.float32) / self.scale))
        steps += self.zero_point
        np.clip(steps, *self.limits, out=steps)
        return self.values(steps)

    @property
    def cut_tensors(self) -> tuple[str, ...]:
        """Tensors that readers get from elsewhere when the graph is cut behind the row."""
        return (self.tensor,) if self.written == self.tensor else (self.tensor, self.floats)


class GoldenRunner:
    """Runs the float graph."""

    def __init__(self, graph: Graph, parts: Sequence[Sequence[Row]]) -> None:
        model = SubmodelBuilder(graph)
        self._parts = _in_parts(model, ([row.golden for row in rows] for rows in parts))
        self._keep: list[set[str]] = []

    def keep_for(self, isolated: IsolatedLayerRunner | None) -> None:
        """Note which tensors of earlier parts later ones need, layers that run alone too."""
        needs = [
            {*(part.inputs if part else ()), *(isolated.golden(index) if isolated else ())}
            for index, part in enumerate(self._parts)
        ]
        self._keep = needed_later(needs)

    def run(self, index: int, feeds: Mapping[str, np.ndarray], known: Tensors) -> Tensors:
        """The tensors of a part; ``known`` are those of the parts before, and is updated."""
        return _run_part(self._parts[index], self._keep[index], feeds, known)


class SimulatedRunner:
    """Runs the quantized graph as the simulator does.

    Args:
        graph: with Q/DQ nodes.
        layers: of it.
        parts: rows.
        fast: whether float layers get the simulator's own kernels, which take longer to set up;
            what is between integers of 16 bits may differ by one of them without.
    """

    def __init__(
        self,
        graph: Graph,
        layers: LayerMap,
        parts: Sequence[Sequence[Row]],
        *,
        fast: bool = False,
    ) -> None:
        form = prepare_for_ort(graph)
        self.model = SubmodelBuilder(form.graph)
        # conversions for layers of another dtype are others' integers
        own = {one.stored for key, one in layers.stored.items() if key == one.tensor}
        quantizers = {
            node.inputs[0].name or "": node
            for node in form.graph.nodes
            if node.op_type == "QuantizeLinear"
            and node.inputs[0] is not None
            and node.outputs[0].name in own
        }
        self.quantized_tensors = {
            row.simulated: _quantized_tensor(self.model, form.graph, row, quantizers)
            for rows in parts
            for row in rows
            if row.simulated is not None
        }
        self._rows = parts
        wanted = (
            [self.quantized_tensors[row.simulated].tensor for row in rows if row.simulated]
            for rows in parts
        )
        self._parts = _in_parts(self.model, wanted, fast=fast)
        self._keep = needed_later([set(part.inputs) if part else set() for part in self._parts])

    def run(self, index: int, feeds: Mapping[str, np.ndarray], known: Tensors) -> Tensors:
        """Simulated values by the rows' names, float32; ``known`` as of :class:`GoldenRunner`."""
        stored = self.stored(index, feeds, known)
        names = [row.simulated for row in self._rows[index] if row.simulated]
        return {
            name: self.quantized_tensors[name].values(stored[self.quantized_tensors[name].tensor])
            for name in names
        }

    def stored(self, index: int, feeds: Mapping[str, np.ndarray], known: Tensors) -> Tensors:
        """What the graph stores, by the names of :attr:`QuantizedTensor.tensor`; else as
        :meth:`run`.
        """
        return _run_part(self._parts[index], self._keep[index], feeds, known)


class IsolatedLayerRunner:
    """Runs every layer isolated: its inputs are the golden tensors (*single*).

    Args:
        side: the quantized graph, whose messages are shared.
        parts: rows.
    """

    def __init__(self, side: SimulatedRunner, parts: Sequence[Sequence[Row]]) -> None:
        self._side = side
        self._by_name: dict[str, tuple[Row, QuantizedTensor]] = {}
        for row in (row for rows in parts for row in rows if row.simulated is not None):
            quantized = side.quantized_tensors[row.simulated or ""]
            for name in quantized.cut_tensors:
                self._by_name.setdefault(name, (row, quantized))
        self._made = [self._part(rows) for rows in parts]
        self._rows = parts

    def golden(self, index: int) -> set[str]:
        """The golden tensors that a part is fed with."""
        part = self._made[index]
        return set() if part is None else set(part[1].values())

    def run(self, index: int, expected: Mapping[str, np.ndarray]) -> Tensors:
        """Values by the rows' names, float32; rows that no node computes are left out."""
        entry = self._made[index]
        if entry is None:
            return {}
        part, feeds = entry
        results = part.run({name: expected[tensor] for name, tensor in feeds.items()})
        values: Tensors = {}
        for row in self._rows[index]:
            quantized = self._side.quantized_tensors.get(row.simulated or "")
            array = None if quantized is None else results.get(OWN + quantized.written)
            if array is None or quantized is None:
                continue
            integers = quantized.written == quantized.tensor
            values[row.simulated or ""] = (
                quantized.values(array) if integers else quantized.rounded(array)
            )
        return values

    def _part(self, rows: Sequence[Row]) -> tuple[Submodel, dict[str, str]] | None:
        model = self._side.model
        targets = [
            self._side.quantized_tensors[row.simulated].written
            for row in rows
            if row.simulated is not None and row.computed
        ]
        targets = [name for name in dict.fromkeys(targets) if model.writer(name) is not None]
        if not targets:
            return None
        walk = model.walk_behind(targets, self._by_name)
        nodes: list[onnx.NodeProto] = []
        constants = set(walk.ends)
        inputs: dict[str, tuple[onnx.ValueInfoProto, str]] = {}
        for name in walk.ends:
            for source, tensor, added in self._fed(name):
                inputs[source.name] = (source, tensor)
                nodes += added
                constants.update(n for node in added for n in node.input)
        nodes += [renamed(model.nodes[index], self._by_name) for index in walk.nodes]
        outputs = [model.type_of(name, OWN + name) for name in targets]
        part = model.assemble(
            nodes, [value for value, _ in inputs.values()], outputs, sorted(constants)
        )
        return part, {name: tensor for name, (_, tensor) in inputs.items()}

    def _fed(self, name: str) -> list[tuple[onnx.ValueInfoProto, str, list[onnx.NodeProto]]]:
        """Input, golden tensor and nodes that stand for the end of a walk; none for a constant."""
        model = self._side.model
        entry = self._by_name.get(name)
        if entry is None:
            return [(model.type_of(name), name, [])] if model.is_input(name) else []
        row, quantized = entry
        whole = name == quantized.floats
        if whole and model.element_type(name) in (onnx.TensorProto.FLOAT, 0):
            return [(model.type_of(name), row.golden, [])]
        value = model.type_of(quantized.floats, _GOLDEN + row.golden)
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        if whole or quantized.scale is None:
            kind = model.element_type(name)
            cast = helper.make_node("Cast", [value.name], [name], f"{_GOLDEN}{name}", to=kind)
            return [(value, row.golden, [cast])]
        return [(value, row.golden, self._quantizing(name, value.name))]

    def _quantizing(self, name: str, source: str) -> list[onnx.NodeProto]:
        """The nodes that quantize a tensor (and hold it within bounds), reading ``given``."""
        chain: list[onnx.NodeProto] = []
        node = self._side.model.writer(name)
        while node is not None and node.op_type in _BOUNDS:
            chain.append(node)
            node = self._side.model.writer(node.input[0])
        if node is None or node.op_type != "QuantizeLinear":
            quantized = self._by_name[name][1]
            inputs = [source, *quantized.parameters]
            quantizing = helper.make_node("QuantizeLinear", inputs, [name], axis=quantized.axis)
            quantizing.name = _GOLDEN + name
            return [quantizing]
        copies: list[onnx.NodeProto] = []
        for one in (node, *reversed(chain)):
            copy = onnx.NodeProto()
            copy.CopyFrom(one)
            copy.name = _GOLDEN + one.name
            copy.input[0] = copies[-1].output[0] if copies else source
            copy.output[0] = name if one.output[0] == name else _GOLDEN + one.output[0]
            copies.append(copy)
        return copies


def _in_parts(
    model: SubmodelBuilder, tensors: Iterable[list[str]], *, fast: bool = False
) -> list[Submodel | None]:
    """What computes the tensors of every part, each fed with those of the parts before."""
    stops: set[str] = set()
    parts: list[Submodel | None] = []
    for names in tensors:
        outputs = [name for name in dict.fromkeys(names) if not model.is_input(name)]
        parts.append(model.submodel(outputs, stops, fast=fast) if outputs else None)
        stops.update(outputs)
    return parts


def _run_part(
    part: Submodel | None, kept: set[str], feeds: Mapping[str, np.ndarray], known: Tensors
) -> Tensors:
    """What a part computes beside what was known, which keeps only what later parts need."""
    values = {**known, **feeds}
    if part is not None:
        values |= part.run(values)
    known.clear()
    known.update({name: values[name] for name in kept if name in values})
    return values


def needed_later(needs: Sequence[set[str]]) -> list[set[str]]:
    """For every part what the parts after it need."""
    kept: list[set[str]] = []
    after: set[str] = set()
    for own in reversed(needs):
        kept.append(set(after))
        after |= own
    return kept[::-1]


def _quantized_tensor(
    model: SubmodelBuilder, graph: Graph, row: Row, quantizers: Mapping[str, ir.Node]
) -> QuantizedTensor:
    name = row.simulated or ""
    plain = QuantizedTensor(name, name, name)
    if row.op == INPUT:
        return plain
    writer = graph.value(name).producer()
    before = None if writer is None or not writer.inputs else writer.inputs[0]
    if writer is not None and before is not None and writer.op_type == "DequantizeLinear":
        return _quantized(model, writer, before, name) or plain
    if writer is not None and before is not None and writer.op_type == "Cast":
        half = before.name or ""
        if model.element_type(half) == onnx.TensorProto.FLOAT16:
            return QuantizedTensor(half, name, half)
    reader = quantizers.get(name)
    quantized = None if reader is None else _quantized(model, reader, reader.outputs[0], name)
    return plain if quantized is None else replace(quantized, written=name)


def _quantized(
    model: SubmodelBuilder, node: ir.Node, stored: ir.Value, floats: str
) -> QuantizedTensor | None:
    """The carrier of a Q or DQ node; None where its parameters are no plain constants.

    The parameters are those of the graph as it runs, which has int8 as uint8.
    """
    params, integers = params_of(node), stored.name or ""
    parameters = tuple(value.name or "" for value in node.inputs[1:3] if value is not None)
    if params is None or len(parameters) < 2 or model.constant(integers) is not None:
        return None
    if params.dtype not in _STORED or node.attributes.get_int("block_size", 0) > 0:
        return None
    axis = 1 if params.axis is None else params.axis
    shape: tuple[int, ...] = ()
    if len(params.scale) > 1:
        rank = len(model.type_of(integers).type.tensor_type.shape.dim)
        shape = tuple(-1 if index == axis % rank else 1 for index in range(rank))
    low, high = QUANT_DTYPES[params.dtype]
    return QuantizedTensor(
        integers,
        floats,
        integers,
        np.array(params.scale, np.float32).reshape(shape),
        np.array(params.zero_point, np.float32).reshape(shape),
        (float(low), float(high)),
        parameters,
        axis,
    )
