"""Selects a candidate by its error on calibration samples that it was not built from.

Every step rests on an assumption (independent rounding errors, tails that fall off exponentially,
copies that look like pictures), and a graph may break any of them. So the recipe with each
weighing of :mod:`~engine.quantize.algorithms.accurate.range_margin` and the plain form are each
made from three quarters of the samples and compared on the last quarter. Equalization without
margin is no candidate: a few judges may like it, and a channel that goes beyond its samples is
lost.

What counts are decibels: per output those of all judges together and the mean of those of each, so
that neither one picture decides alone nor its error is lost among many good ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np
import onnx_ir as ir

from engine.base.events import LogLine, Reporter
from engine.graph.execute import Session, open_model, simulation_errors
from engine.graph.ir import Graph, QuantParams, UniqueNames, is_custom
from engine.graph.ir.spec import new_value, set_input
from engine.graph.metrics import ErrorSums, error_sums
from engine.quantize.algorithms.accurate.assemble import CalibrationStats, Candidate, assemble
from engine.quantize.interface import Feeds, LayerWeights, Prepared
from engine.quantize.planning.node_properties import weight_axes
from engine.quantize.planning.plan import Plan
from engine.quantize.qdq.insert import insert_qdq
from engine.report import sqnr_text

CANDIDATES: Mapping[str, Candidate] = {
    "equalized, room for the furthest sample": Candidate(margin="far"),
    "equalized, room for most samples": Candidate(margin="most"),
    "ranges as seen": Candidate(equalize=False, margin=""),
}
"""The first of equals is chosen."""

# The plain form has to be better by this (dB): few samples are left to judge by, and over all
# models the whole recipe is the best one.
_MARGIN = 2.0

# Samples to judge by, at most, and how many there have to be at all.
_JUDGES = 8
_FEWEST = 8

# Decibels that stand for no error at all.
_EXACT = 150.0

Outputs = Mapping[str, list[np.ndarray]]
Run = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


def select_candidate(stats: CalibrationStats, feeds: Feeds, reporter: Reporter) -> Candidate:
    """The candidate with the least noise at the graph's outputs."""
    samples = stats.statistics.samples
    # beyond 8 bits nothing but a value that is clipped counts, and few samples clip none
    wide = all(form.bits > 8 for form in stats.plan.formats.values())
    if samples < _FEWEST or wide:
        return next(iter(CANDIDATES.values()))
    held = set(range(0, samples, max(4, -(-samples // _JUDGES))))
    seen = [row for row in range(samples) if row not in held]
    judges = [feed for row, feed in enumerate(feeds()) if row in held]
    exact = _outputs(Session(stats.graph).run, judges)
    run_of = _runner(stats)
    best, least = Candidate(), np.inf
    for title, candidate in CANDIDATES.items():
        reporter.check_cancelled()
        ready = assemble(stats, candidate.without_feedback(), seen)
        level = noise_level(exact, _outputs(run_of(ready), judges))
        reporter.emit(LogLine(f"{title}: {sqnr_text(-level, digits=1)} on samples held out"))
        level += 0.0 if candidate.equalize else _MARGIN
        if level < least:
            best, least = candidate, level
    return best


def _runner(stats: CalibrationStats) -> Callable[[Prepared], Run]:
    """What runs a candidate: one session for all where :class:`CandidateEvaluator` can, else one
    for each.
    """
    if can_evaluate(stats.graph, stats.plan):
        evaluator = CandidateEvaluator(stats.graph, stats.plan)

        def tried(ready: Prepared) -> Run:
            inputs = evaluator.inputs(ready.activations, ready.weights)
            return lambda feed: evaluator.run(feed, inputs)

        return tried

    def built(ready: Prepared) -> Run:
        graph, *_ = insert_qdq(ready.graph, ready.plan, ready.activations, ready.weights)
        return Session(graph).run

    return built


def _outputs(run: Run, judges: Iterable[Mapping[str, np.ndarray]]) -> Outputs:
    outputs: dict[str, list[np.ndarray]] = {}
    for feed in judges:
        for name, array in run(feed).items():
            outputs.setdefault(name, []).append(array)
    return outputs


def noise_level(exact: Outputs, found: Outputs) -> float:
    """Noise power over signal power in dB, the mean over the outputs.

    Of each output the mean of two: of all samples together, and the mean over the samples.

    Args:
        exact, found: output -> its arrays, one a sample.
    """
    levels = []
    for name, arrays in exact.items():
        sums = [error_sums(a, b)[0] for a, b in zip(arrays, found[name], strict=True)]
        audible = [one for one in sums if one.signal > 0]
        if audible:
            single = np.mean([_level(one) for one in audible])
            levels.append((float(single) + _level(sum(audible, ErrorSums()))) / 2)
    return float(np.mean(levels)) if levels else -_EXACT


def _level(sums: ErrorSums) -> float:
    return -_EXACT if sums.sqnr is None else -min(sums.sqnr, _EXACT)


# All candidates in one session: a float graph whose quantization parameters are inputs.
#
# Every quantized tensor is rounded with a scale and a zero point that come in, and every weighted
# layer reads weights and a bias that come in. So a candidate costs its runs and no build. What
# comes out differs from the integer graph by the order of float sums, and by constants that are
# operands of Add and Mul, which stay in float.


def can_evaluate(graph: Graph, plan: Plan) -> bool:
    """Whether it runs in one session, without custom operators, and all its tensors have 8 bits."""
    if any(is_custom(node) for node in graph.nodes) or plan.boundaries:
        return False
    forms = plan.formats.values()
    return all(form.kind == "affine" and form.dtype == "int8" for form in forms)


class CandidateEvaluator:
    """A float graph with quantizers whose parameters are inputs.

    Args:
        graph: the float graph, without custom operators.
        plan: of this graph.
        tensors: those that are rounded; all of the plan when None.

    Raises:
        SimulationError: the graph does not run.
    """

    def __init__(self, graph: Graph, plan: Plan, tensors: Collection[str] | None = None) -> None:
        work = graph.copy()
        self._inner = work.model.graph
        values = dict(work.values)
        self._names = UniqueNames(set(values) | {node.name or "" for node in work.nodes})
        self.outputs = [spec.name for spec in graph.outputs]
        names = plan.tensors if tensors is None else [t for t in plan.tensors if t in tensors]
        self._tensors = {name: self._round(values[name]) for name in names}
        self._weights = {
            name: (self._weight(work.node(name)), self._bias(work.node(name)))
            for name in plan.weights
        }
        self._nodes = {name: graph.node(name) for name in plan.weights}
        self._fetched = [value.name or "" for value in self._inner.outputs]
        self._session = open_model(Graph(work.model).to_bytes())

    def inputs(
        self, activations: Mapping[str, QuantParams], weights: Mapping[str, LayerWeights]
    ) -> dict[str, np.ndarray]:
        """What a candidate feeds beside the samples."""
        fed: dict[str, np.ndarray] = {}
        for name, (scale, zero) in self._tensors.items():
            params = activations[name]
            fed[scale] = np.array(params.scale[0], dtype=np.float32)
            fed[zero] = np.array(params.zero_point[0], dtype=np.int8)
        for name, (weight, bias) in self._weights.items():
            own = weights[name]
            fed[weight] = own.params.dequantize(own.integers).astype(np.float32)
            if bias:
                size = _count_outputs(self._nodes[name], fed[weight])
                bias_values = np.zeros(size) if own.bias is None else own.bias
                fed[bias] = bias_values.reshape(-1).astype(np.float32)
        return fed

    def run(
        self, feed: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """The graph's outputs."""
        with simulation_errors():
            arrays = self._session.run(self._fetched, {**feed, **inputs})
        return dict(zip(self.outputs, arrays, strict=True))

    def _input(self, hint: str, dtype: ir.DataType) -> ir.Value:
        value = ir.Value(name=self._names.claim(hint), type=ir.TensorType(dtype))
        self._inner.inputs.append(value)
        return value

    def _round(self, value: ir.Value) -> tuple[str, str]:
        """Round a tensor for all its readers; the names of its scale and zero point."""
        name = value.name or ""
        scale = self._input(f"{name}/scale", ir.DataType.FLOAT)
        zero = self._input(f"{name}/zero_point", ir.DataType.INT8)
        scale.shape = zero.shape = ir.Shape(())
        out = new_value(self._names.claim(f"{name}/rounded"), ir.DataType.FLOAT, value.shape)
        value.replace_all_uses_with(out, replace_graph_outputs=True)
        steps = ir.node("QuantizeLinear", [value, scale, zero])
        steps.outputs[0].name = self._names.claim(f"{name}/quantized")
        back = ir.node("DequantizeLinear", [steps.outputs[0], scale, zero], outputs=[out])
        producer = value.producer()
        if producer is not None:
            self._inner.insert_after(producer, [steps, back])
        else:
            self._inner.insert_before(self._inner[0], [steps, back])
        return scale.name or "", zero.name or ""

    def _weight(self, node: ir.Node) -> str:
        value = self._input(f"{node.name}/weight", ir.DataType.FLOAT)
        value.shape = None if node.inputs[1] is None else node.inputs[1].shape
        node.replace_input_with(1, value)
        return value.name or ""

    def _bias(self, node: ir.Node) -> str:
        if node.op_type == "MatMul":
            return ""
        value = self._input(f"{node.name}/bias", ir.DataType.FLOAT)
        set_input(node, 2, value)
        return value.name or ""


def _count_outputs(node: ir.Node, weight: np.ndarray) -> int:
    """Output channels of a Conv, ConvTranspose or Gemm, so many biases."""
    groups = node.attributes.get_int("group", 1) if node.op_type == "ConvTranspose" else 1
    return int(weight.shape[weight_axes(node)[0]]) * groups
