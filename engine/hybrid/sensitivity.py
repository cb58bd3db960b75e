"""Sensitivity: the noise that each quantizer of a build causes at its outputs, one at a time.

The QDQ graph gets a toggle for every quantized tensor and every quantized weight, so that each may
be rounded or not; one session then tells what a single rounding, alone in an otherwise float model,
adds to every output. Errors of different roundings are nearly independent, so that their powers
add up: the sum over the roundings that are left predicts a hybrid build without making it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.base.errors import UsageError
from engine.base.events import NullReporter, Progress, Reporter
from engine.graph.execute import release_pool
from engine.graph.ir import OPSET, UniqueNames, constant_of, is_custom
from engine.graph.metrics import power
from engine.hybrid.layers import Layers
from engine.hybrid.parts import Parts
from engine.quantize import Quantized
from engine.quantize.planning.node_properties import data_inputs

# Every rounding costs a run: samples times tensors' elements times roundings, one or two seconds.
_WORK = 1_000_000_000
_MOST_SAMPLES = 16

# Graphs with so many elements in all run in parts, with about so many roundings each: below it the
# sessions of the parts cost more than what they save.
_LARGE = 1_000_000
_SWITCHES = 12

# What a node reads, and the nodes before it that compute that.
_Input = tuple[list[ir.Node], ir.Value | None]


@dataclass(frozen=True)
class NoiseTerm:
    """One rounding.

    Attributes:
        tensor: what is rounded: an activation, or the weights of the layer that writes it.
        weights: whether it is the weights.
        needs: the layers that must all be lifted for it to vanish.
        noise: per output of the graph, the power of its error over that of the output.
    """

    tensor: str
    weights: bool
    needs: frozenset[str]
    noise: tuple[float, ...]


@dataclass(frozen=True)
class QuantizerToggle:
    """The input of the graph that turns a quantizer on, and which one it is."""

    gate: str
    tensor: str
    weights: bool
    needs: frozenset[str]


class QuantizerToggles:
    """A QDQ graph whose quantizers are all off until they are turned on.

    Args:
        layers: of the float graph.
        build: of this graph.
        threads: of the session.

    Raises:
        SimulationError: the graph does not run.
        UsageError: it has custom operators, which run between sessions.
    """

    def __init__(self, layers: Layers, build: Quantized, threads: int = 1) -> None:
        self._layers = layers
        if any(is_custom(node) for node in build.graph.nodes):
            raise UsageError(
                "The layers of a model with custom operators cannot be ranked.",
                cause="Their Python runs between parts of the graph, which the ranking joins.",
                remedy="Promote layers by hand; their effect is computed as for any model.",
            )
        work = build.graph.copy()
        self._inner = work.model.graph
        self._names = UniqueNames(set(work.values) | {n.name or "" for n in build.graph.nodes})
        self._constants: set[ir.Value] = set()
        self.toggles: list[QuantizerToggle] = []
        self.outputs = [s.name for s in layers.graph.outputs if s.dtype == "float32"]
        names = [spec.name for spec in layers.graph.outputs]
        stored = build.layers.stored
        self._tensors = {one.value: one.tensor for one in stored.values()}
        # of the tensors themselves; what is converted for layers of another dtype is rounded anew
        self._own = {one.tensor: one for key, one in stored.items() if key == one.tensor}
        for node in list(work.nodes):
            if node.op_type == "DequantizeLinear" and constant_of(node.inputs[0]) is None:
                self._activation(node)
            elif node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
                self._weights(node)
        for node in reversed(list(self._inner)):
            if not any(v.uses() or v.is_graph_output() for v in node.outputs):
                self._inner.remove(node, safe=True)
        self._inner.sort()
        sizes: dict[str, int] = {}
        for node in self._inner:
            for value in node.outputs:
                sizes[value.name or ""] = _size(value)
                if not value.is_graph_output():
                    value.type = value.shape = None  # ONNX Runtime infers them faster than it reads
        self._fetched = [self._inner.outputs[names.index(name)].name or "" for name in self.outputs]
        self._off = {toggle.gate: np.array(False) for toggle in self.toggles}
        # the graph is in the form that runs: floats, and int8 where nothing fuses
        large = sum(sizes.values()) >= _LARGE
        count = len(self.toggles) // _SWITCHES if large else 1
        self._parts = Parts(work, sizes, count, threads)

    def run(
        self, feeds: Mapping[str, np.ndarray], on: Sequence[QuantizerToggle] = ()
    ) -> dict[str, np.ndarray]:
        """The float outputs with some roundings on, all others off."""
        return self._named(self.values(feeds, on))

    def values(
        self, feeds: Mapping[str, np.ndarray], on: Sequence[QuantizerToggle] = ()
    ) -> dict[str, np.ndarray]:
        """What :meth:`again` starts from."""
        return self._parts.run({**feeds, **self._off, **_gates(on)})

    def again(
        self, before: Mapping[str, np.ndarray], on: Sequence[QuantizerToggle]
    ) -> dict[str, np.ndarray]:
        """The float outputs with some more roundings on than when ``before`` was computed.

        Only what depends on them is computed.
        """
        return self._named(self._parts.again(before, _gates(on)))

    def _named(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        pairs = zip(self.outputs, self._fetched, strict=True)
        return {name: values[fetched] for name, fetched in pairs}

    def _activation(self, dequantize: ir.Node) -> None:
        """A switch for each kind of reader of a quantized tensor."""
        stored = dequantize.inputs[0]
        quantize = None if stored is None else stored.producer()
        rounded = dequantize.outputs[0]
        exact = None if quantize is None else quantize.inputs[0]
        if quantize is None or quantize.op_type != "QuantizeLinear" or exact is None:
            return
        name = self._tensors[rounded.name or ""]
        readers = dict.fromkeys(use.node for use in rounded.uses())
        if self._is_copied(rounded.name or "", name):
            for reader in (*readers, None):
                self._redirect(rounded, exact, reader)
            return
        before = self._layers.writers(name)
        choices: dict[frozenset[str], ir.Value] = {}
        for reader in (*readers, None):
            own = None if reader is None else self._layers.nodes.get(reader.name or "")
            if reader is None and not rounded.is_graph_output():
                continue
            after = frozenset() if own is None else self._layers.final_readers(own)
            needs = before | after
            if needs not in choices:
                toggle = QuantizerToggle(self._gate(), name, False, needs)
                pair = _pair(quantize, dequantize)
                same = ir.node("Identity", [exact])
                choices[needs] = self._choice(toggle, pair, [same], rounded, quantize)
            self._redirect(rounded, choices[needs], reader)

    def _is_copied(self, value: str, tensor: str) -> bool:
        """Whether a move writes it whose inputs lie on the same grid: rounding changes nothing."""
        layer = self._layers.of_node(self._layers.graph.producer(tensor))
        own = self._own.get(tensor)
        if layer is None or layer.kind != "move" or own is None or own.value != value:
            return False
        inputs = data_inputs(self._layers.nodes[layer.node])
        before = (self._own.get(one.name or "") for one in inputs)
        return all(one is not None and one.params == own.params for one in before)

    def _weights(self, node: ir.Node) -> None:
        """A switch between a node with its rounded constants and one with the float graph's."""
        own = self._layers.nodes.get(node.name or "")
        layer = self._layers.of_node(own)
        stored = [i for i, value in enumerate(node.inputs) if _is_stored(value)]
        if own is None or layer is None or not stored:
            return
        clamps = self._clamps(node, layer.nodes[1:])
        twins = []
        for constants_of in (self._rounded, self._exact):
            inputs: list[ir.Value | None] = list(node.inputs)
            twin: list[ir.Node] = []
            for index in stored:
                before, inputs[index] = constants_of(node, own, index)
                twin += before
            twin.append(ir.Node("", node.op_type, inputs, list(node.attributes.values())))
            for clamp in clamps:
                clamp_inputs = [twin[-1].outputs[0], *clamp.inputs[1:]]
                twin.append(
                    ir.Node("", clamp.op_type, clamp_inputs, list(clamp.attributes.values()))
                )
            twins.append(twin)
        toggle = QuantizerToggle(self._gate(), layer.tensor, True, frozenset({layer.id}))
        old = (clamps or [node])[-1].outputs[0]
        readers = dict.fromkeys(use.node for use in old.uses())
        value = self._choice(toggle, twins[0], twins[1], old, (clamps or [node])[-1])
        for reader in (*readers, None):
            self._redirect(old, value, reader)

    def _clamps(self, node: ir.Node, names: Sequence[str]) -> list[ir.Node]:
        """The clamps behind a node, which go into its branches: there they cost nothing."""
        clamps: list[ir.Node] = []
        for name in names:
            uses = list((clamps or [node])[-1].outputs[0].uses())
            if len(uses) != 1 or uses[0].node.name != name:
                break
            clamps.append(uses[0].node)
        return clamps

    def _rounded(self, node: ir.Node, _own: ir.Node, index: int) -> _Input:
        """A rounded constant: in integers, as this branch runs once a sample and is no hurry."""
        value = node.inputs[index]
        dequantize = None if value is None else value.producer()
        if dequantize is None:
            return [], None
        inputs: list[ir.Value | None] = []
        for stored in dequantize.inputs:
            constant = constant_of(stored)
            inputs.append(stored if constant is None else self._stored(constant))
        again = ir.Node(
            "", "DequantizeLinear", inputs, list(dequantize.attributes.values()), num_outputs=1
        )
        return [again], again.outputs[0]

    def _exact(self, _node: ir.Node, own: ir.Node, index: int) -> _Input:
        value = own.inputs[index] if index < len(own.inputs) else None
        constant = constant_of(value)
        return [], None if constant is None else self._stored(constant)

    def _redirect(self, old: ir.Value, new: ir.Value, reader: ir.Node | None) -> None:
        """Let a reader, or the graph's outputs where it is None, take ``new``."""
        if reader is not None:
            for index, value in enumerate(reader.inputs):
                if value is old:
                    reader.replace_input_with(index, new)
            return
        for index, output in enumerate(self._inner.outputs):
            if output is old:
                self._inner.outputs[index] = new

    def _gate(self) -> str:
        return self._names.claim(f"switch/{len(self.toggles)}")

    def _choice(
        self,
        toggle: QuantizerToggle,
        rounded: Sequence[ir.Node],
        exact: Sequence[ir.Node],
        like: ir.Value,
        after: ir.Node,
    ) -> ir.Value:
        """What one of two branches computes; only the chosen one runs."""
        gate = ir.Value(name=toggle.gate, type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))
        self._inner.inputs.append(gate)
        self.toggles.append(toggle)
        branches = [
            ir.AttrGraph(name, self._branch(nodes, like))
            for name, nodes in (("then_branch", rounded), ("else_branch", exact))
        ]
        value = ir.Value(
            name=self._names.claim(f"{toggle.gate}/value"),
            type=ir.TensorType(ir.DataType.FLOAT),
            shape=like.shape,
        )
        node = ir.Node("", "If", [gate], branches, outputs=[value], name=value.name)
        self._inner.insert_after(after, node)
        return value

    def _branch(self, nodes: Sequence[ir.Node], like: ir.Value) -> ir.Graph:
        for node in nodes:
            node.name = self._names.claim("branch")
            for value in node.outputs:
                value.name = self._names.claim("branch/value")
        result = nodes[-1].outputs[0]
        result.type, result.shape = ir.TensorType(ir.DataType.FLOAT), like.shape
        name = self._names.claim("branch")
        # in the branch: of constants outside of it ONNX Runtime makes no blocked convolutions
        own = [v for node in nodes for v in node.inputs if v is not None and v in self._constants]
        return ir.Graph(
            [], [result], nodes=nodes, initializers=own, opset_imports={"": OPSET}, name=name
        )

    def _stored(self, tensor: ir.TensorProtocol) -> ir.Value:
        """A constant of a branch's own."""
        value = ir.Value(
            name=self._names.claim("constant"),
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(tensor.shape.numpy()),
            const_value=tensor,
        )
        self._constants.add(value)
        return value


def _gates(on: Sequence[QuantizerToggle]) -> dict[str, np.ndarray]:
    return {toggle.gate: np.array(True) for toggle in on}


def _size(value: ir.Value) -> int:
    """Elements of a tensor; 1 where they are not known."""
    shape = () if value.shape is None else value.shape
    return math.prod(size for size in shape if isinstance(size, int))


def _pair(quantize: ir.Node, dequantize: ir.Node) -> list[ir.Node]:
    """Copies of a QuantizeLinear and its DequantizeLinear, one behind the other."""
    first = ir.Node("", "QuantizeLinear", quantize.inputs, list(quantize.attributes.values()))
    stored = quantize.outputs[0]
    first.outputs[0].type, first.outputs[0].shape = stored.type, stored.shape
    inputs = [first.outputs[0], *dequantize.inputs[1:]]
    return [first, ir.Node("", "DequantizeLinear", inputs, list(dequantize.attributes.values()))]


def _is_stored(value: ir.Value | None) -> bool:
    """Whether a value is a constant in integers, dequantized."""
    node = None if value is None else value.producer()
    return (
        node is not None
        and node.op_type == "DequantizeLinear"
        and constant_of(node.inputs[0]) is not None
    )


def noise_samples(layers: Layers) -> int:
    """How many samples :func:`noise_terms` may be given without taking long: 1 to 16.

    It follows from the graph alone, so that the same model gives the same terms everywhere.
    """
    sizes = [layers.graph.spec(layer.tensor).size or 0 for layer in layers.all]
    return max(1, min(_MOST_SAMPLES, _WORK // max(1, sum(sizes) * 2 * len(sizes))))


def noise_terms(
    layers: Layers,
    build: Quantized,
    feeds: Iterable[Mapping[str, np.ndarray]],
    *,
    reporter: Reporter | None = None,
) -> list[NoiseTerm]:
    """Every rounding of a quantized build, and what it alone does to the outputs.

    Args:
        layers: of the float graph.
        build: of this graph.
        feeds: a few calibration samples; the cost is one run a rounding and sample.
        reporter: told of the progress, asked whether to stop.

    Raises:
        SimulationError: the graph does not run.
    """
    toggles = QuantizerToggles(layers, build)
    relative = _measured(toggles, feeds, reporter or NullReporter())
    quantizers = toggles.toggles
    del toggles  # its sessions' memory is for the stages after this one
    release_pool()
    return [
        NoiseTerm(toggle.tensor, toggle.weights, toggle.needs, tuple(map(float, row)))
        for toggle, row in zip(quantizers, relative, strict=True)
    ]


def _measured(
    toggles: QuantizerToggles, feeds: Iterable[Mapping[str, np.ndarray]], reporter: Reporter
) -> np.ndarray:
    """(switches, outputs): the power of each one's error over that of the output."""
    signal = np.zeros(len(toggles.outputs))
    noise = np.zeros((len(toggles.toggles), len(toggles.outputs)))
    for number, feed in enumerate(feeds):
        before = toggles.values(feed)
        golden = toggles.again(before, [])
        signal += [power(array) for array in golden.values()]
        for index, toggle in enumerate(toggles.toggles):
            reporter.check_cancelled()
            outputs = toggles.again(before, [toggle])
            noise[index] += [
                0.0 if outputs[name] is golden[name] else power(outputs[name] - golden[name])
                for name in golden
            ]
            if number == 0:
                reporter.emit(Progress("noise", index + 1, len(toggles.toggles)))
    relative: np.ndarray = noise / np.maximum(signal, np.finfo(np.float64).tiny)
    return relative
