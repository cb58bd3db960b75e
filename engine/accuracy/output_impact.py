"""Output impact: the error that one layer alone causes at the outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper

from engine.accuracy.analyse import AccuracyReport, noisiest
from engine.accuracy.rows import Row, float_rows, layer_rows
from engine.accuracy.runners import GoldenRunner, IsolatedLayerRunner, SimulatedRunner
from engine.base.events import NullReporter, Progress, Reporter
from engine.graph.execute import Session
from engine.graph.execute.submodels import Submodel, SubmodelBuilder
from engine.graph.ir import Graph
from engine.graph.metrics import error_sums
from engine.quantize import Quantized

LAYERS = 16
"""Layers that are measured, worst by themselves first: each takes a run of the float graph."""
_OWN, _ERROR = "own/", "error/"


def with_output_impact(
    report: AccuracyReport,
    build: Quantized,
    samples: Iterable[Mapping[str, np.ndarray]],
    *,
    reporter: Reporter | None = None,
) -> AccuracyReport:
    """The report with the output impact of its worst layers.

    The error that a layer makes alone (``isolated``: its weights, its inputs and its result are
    rounded) is added to its tensor in the float graph, which carries it to the outputs. What
    arrives there is divided by the error of the whole quantized model, outputs weighing alike.
    Neighbours share the rounding of the tensor between them, and errors can cancel out: shares need
    not add up to 1.

    Args:
        report: of this build.
        build: its float graph, its quantized one, and its layers.
        samples: feeds; one is enough for a ranking.
        reporter: told of the progress, asked whether to stop.

    Raises:
        SimulationError: a graph does not run.
    """
    reporter = reporter or NullReporter()
    rows = {row.label: row for row in layer_rows(build)}
    noisy = noisiest(report, LAYERS)
    asked = [rows[layer.tensor] for layer in noisy if rows[layer.tensor].computed]
    if not asked:
        return report
    measure = _Measure(build, asked)
    for done, feeds in enumerate(samples):
        measure.add_sample(feeds, reporter, done)
    shares = measure.shares()
    layers = (
        replace(layer, output_impact=shares.get(layer.tensor, layer.output_impact))
        for layer in report.layers
    )
    return replace(report, layers=tuple(layers))


class _Measure:
    """The float graph with an error to add at some tensors, and sums over samples."""

    def __init__(self, build: Quantized, rows: Sequence[Row]) -> None:
        float_graph = build.reference
        self._rows = rows
        self._outputs = [s.name for s in float_graph.outputs if s.dtype == "float32"]
        side = SimulatedRunner(build.graph, build.layers, [rows])
        self._alone = IsolatedLayerRunner(side, [rows])
        with_inputs = _with_inputs(float_graph, self._alone.golden(0), rows)
        self._golden = GoldenRunner(float_graph, [with_inputs])
        self._golden.keep_for(self._alone)
        self._simulator = Session(build.graph)
        self._float = _open_to_errors(float_graph, rows, self._outputs)
        self._noise = {row.label: dict.fromkeys(self._outputs, 0.0) for row in rows}
        self._total = dict.fromkeys(self._outputs, 0.0)

    def add_sample(self, feeds: Mapping[str, np.ndarray], reporter: Reporter, done: int) -> None:
        """Measure one sample."""
        expected = self._golden.run(0, feeds, {})
        alone = self._alone.run(0, expected)
        none = {
            _ERROR + row.golden: np.zeros((1,) * expected[row.golden].ndim, np.float32)
            for row in self._rows
        }
        clean = self._float.run({**feeds, **none})
        whole = self._simulator.run(feeds)
        for name in self._outputs:
            self._total[name] += error_sums(clean[name], whole[name])[0].noise
        for place, row in enumerate(self._rows):
            reporter.check_cancelled()
            error = np.asarray(alone[row.simulated or ""] - expected[row.golden])
            disturbed = self._float.run({**feeds, **none, _ERROR + row.golden: error})
            for name in self._outputs:
                self._noise[row.label][name] += error_sums(clean[name], disturbed[name])[0].noise
            reporter.emit(
                Progress("output impact", place + 1, len(self._rows), f"sample {done + 1}")
            )

    def shares(self) -> dict[str, float]:
        """Tensor -> share of the outputs' error, the mean over the outputs that have any."""
        outputs = [name for name, noise in self._total.items() if noise > 0]
        if not outputs:
            return {}
        return {
            tensor: float(np.mean([noise[name] / self._total[name] for name in outputs]))
            for tensor, noise in self._noise.items()
        }


def _with_inputs(graph: Graph, needed: Iterable[str], rows: Sequence[Row]) -> list[Row]:
    """The rows, and those of the tensors that their layers read."""
    known = {row.golden for row in rows}
    more = [name for name in needed if name not in known]
    read = [row for row in float_rows(graph) if row.golden in more and row.computed]
    return [*rows, *read]


def _open_to_errors(graph: Graph, rows: Sequence[Row], outputs: Sequence[str]) -> Submodel:
    """The float graph in which an input is added to every row's tensor."""
    model = SubmodelBuilder(graph)
    walk = model.walk(outputs, ())
    tensors = {row.golden for row in rows}
    nodes: list[onnx.NodeProto] = []
    for index in walk.nodes:
        node = onnx.NodeProto()
        node.CopyFrom(model.nodes[index])
        nodes.append(node)
        for place, name in enumerate(node.output):
            if name in tensors:
                node.output[place] = _OWN + name
                nodes.append(
                    helper.make_node("Add", [_OWN + name, _ERROR + name], [name], _ERROR + name)
                )
    reached = {name for node in nodes for name in node.input}
    inputs = [model.type_of(name) for name in walk.ends if model.is_input(name)]
    # without a shape: a single zero stands for no error
    inputs += [
        helper.make_tensor_value_info(_ERROR + row.golden, onnx.TensorProto.FLOAT, None)
        for row in rows
        if _ERROR + row.golden in reached
    ]
    types = [model.type_of(name) for name in dict.fromkeys(outputs)]
    return model.assemble(nodes, inputs, types, walk.ends)
