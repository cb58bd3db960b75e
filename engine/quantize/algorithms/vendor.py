"""The mode ``vendor``: what rknn-toolkit2 2.3.2 makes of a graph with its ``normal``.

For those who compare with the vendor's simulator, or want what its own quantizer gives. Every rule
was found from outside: from the toolkit's quantization.cfg and the tensors that its accuracy
analysis writes. ``docs/quantization/vendor.md`` lists them with what they were seen on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from engine.base.errors import QuantizationError
from engine.base.findings import Finding
from engine.graph.ir import Graph, QuantParams
from engine.graph.ir.spec import input_at, name_of, only_reader
from engine.quantize.algorithms.ranges import activation_table, choose_ranges
from engine.quantize.algorithms.vendor_rewrite import rewrite_as_vendor
from engine.quantize.calibration.calibrate import calibrate
from engine.quantize.dtypes.formats import SCHEMES
from engine.quantize.interface import CalibratedGraph, LayerWeights, Prepared
from engine.quantize.planning.node_properties import is_constant
from engine.quantize.planning.plan import Plan, plan

# Weights have zero points as activations do.
_ASYMMETRIC = replace(SCHEMES["w8a8"], weight=SCHEMES["w8a8"].activation)

# Operators that take the parameters of their input with the toolkit, beside those that move values.
_SHARING = frozenset({"AveragePool", "Resize"})

# Operators whose only input takes what is left behind them for its range.
_NARROWING = frozenset({"MaxPool", "Slice"})

# Activations that a convolution hands its sum to without rounding it first. Relu and Clip are not
# here: saturation does their work.
_FUSED = frozenset({"LeakyRelu", "Sigmoid", "HardSwish", "Tanh", "Elu", "PRelu"})


def prepare(calibrated: CalibratedGraph) -> Prepared:
    """Everything for the QDQ form, as the vendor's toolkit decides it.

    As :data:`~engine.quantize.interface.Prepare`. The plan is replaced where the vendor's rewrites
    change the graph; biases are never corrected; samples are needed where the rewrites make tensors
    that calibration has not seen.

    Raises:
        QuantizationError: another dtype than w8a8, or a second calibration without samples.
        SimulationError: the rewritten graph does not run on a sample.
    """
    settings, feeds, reporter = calibrated.settings, calibrated.feeds, calibrated.reporter
    if settings.dtype != "w8a8":
        raise QuantizationError(
            f"The algorithm 'vendor' has no form for the dtype {settings.dtype!r}.",
            cause="It reproduces what the vendor's toolkit 2 does for w8a8.",
            remedy="Choose the dtype w8a8, or another algorithm.",
        )
    rewritten, new_values = rewrite_as_vendor(calibrated.graph)
    observations = calibrated.observations
    if new_values:
        if feeds is None:
            raise QuantizationError(
                "The mode 'vendor' has to read the calibration samples once more.",
                cause="The vendor's toolkit rewrites this model, and its tensors change with that.",
                remedy="Quantize with the calibration samples at hand.",
            )
        limit = observations.samples
        observations = calibrate(rewritten, feeds(), reporter=reporter, limit=limit)
    decided = _as_vendor(rewritten, plan(rewritten, settings.dtype, settings.layers))
    plain = replace(settings, algorithm="normal")
    ready = CalibratedGraph(rewritten, decided, observations, plain, feeds, reporter)
    ranges = choose_ranges(ready) | _narrowed(ready)
    table = activation_table(rewritten, decided, observations, ranges, settings.ranges)
    activations = {name: _exact_zero(params) for name, params in table.items()}
    weights = _weights(ready, activations)
    return Prepared(rewritten, decided, activations, weights, _findings(rewritten, decided))


def _as_vendor(graph: Graph, decided: Plan) -> Plan:
    """Where the toolkit rounds to 8 bits, and which tensors share their scale there."""
    sources, quantized = dict(decided.sources), set(decided.tensors)
    for node in graph.nodes:
        output, source = name_of(node.outputs[0]), name_of(node.inputs[0]) if node.inputs else ""
        if node.op_type in _SHARING and {output, source} <= quantized:
            sources[output] = source
    unrounded = _unrounded(graph, decided)
    reasons = dict(decided.reasons)
    for node in graph.nodes:
        if any(name_of(value) in unrounded for value in (*node.inputs, *node.outputs)):
            reasons[node.name or ""] = "the vendor does not round between it and its neighbour"
    # the toolkit holds constant operands in 16 or 32 bits: float is nearer to that than 8 bits
    gone = unrounded.union(decided.constants)
    return replace(
        decided,
        tensors=tuple(name for name in decided.tensors if name not in gone),
        formats={name: form for name, form in decided.formats.items() if name not in gone},
        boundaries={
            name: boundary for name, boundary in decided.boundaries.items() if name not in gone
        },
        sources=sources,
        concats=tuple(replace(concat, sharing=()) for concat in decided.concats),
        constants=(),
        reasons=reasons,
        schemes={
            name: _ASYMMETRIC if scheme == SCHEMES["w8a8"] else scheme
            for name, scheme in decided.schemes.items()
        },
    )


def _unrounded(graph: Graph, decided: Plan) -> set[str]:
    """Tensors inside what the toolkit fuses: no 8 bits between the operators."""
    names: set[str] = set()
    joined: set[str] = set()
    for node in graph.nodes:
        if not node.outputs or node.outputs[0].name not in decided.tensors:
            continue
        value = node.outputs[0]
        readers = [use.node for use in value.uses()]
        if value.is_graph_output():
            continue
        dense = node.op_type == "Conv" and node.attributes.get_int("group", 1) == 1
        if node.op_type == "Sigmoid" and _is_swish(node):
            names.add(name_of(value))
        elif dense and len(readers) == 1:
            reader = readers[0]
            if reader.op_type in _FUSED and not _is_swish(reader):
                names.add(name_of(value))
            # of two convolutions the first in the graph's order hands its sum to the Add
            elif _adds(reader) and (reader.name or "") not in joined:
                names.add(name_of(value))
                joined.add(reader.name or "")
        elif dense and len(readers) == 2 and any(_is_swish(reader) for reader in readers):
            names.add(name_of(value))
    return names


def _is_swish(node: ir.Node) -> bool:
    """Whether a Sigmoid is only there to be multiplied with its own input."""
    reader = only_reader(node.outputs[0]) if node.op_type == "Sigmoid" else None
    if reader is None or reader.op_type != "Mul":
        return False
    return any(value is node.inputs[0] for value in reader.inputs)


def _adds(node: ir.Node) -> bool:
    return node.op_type == "Add" and not any(is_constant(v) for v in node.inputs if v is not None)


def _narrowed(ready: CalibratedGraph) -> dict[str, tuple[float, float]]:
    """Ranges of tensors that only a MaxPool or a Slice reads: they take what is left behind it."""
    narrowed = {}
    sources, by_hand = ready.plan.sources, ready.settings.ranges
    for node in ready.graph.nodes:
        root = name_of(input_at(node, 0))
        if node.op_type not in _NARROWING or root not in ready.plan.tensors:
            continue
        if only_reader(node.inputs[0]) and root not in sources and root not in by_hand:
            after = ready.observations[name_of(node.outputs[0])]
            narrowed[root] = (after.minimum, after.maximum)
    return narrowed


def _exact_zero(params: QuantParams) -> QuantParams:
    """The zero point from the scale in double precision: they differ where it falls on a half."""
    if params.minimum is None or params.maximum is None:
        return params
    low, high = params.minimum[0], params.maximum[0]
    scale = (high - low) / 255.0
    if np.float32(scale) != np.float32(params.scale[0]):
        return params
    zero = int(np.clip(np.rint(-128.0 - low / scale), -128, 127))
    return replace(params, zero_point=(zero,))


def _weights(
    ready: CalibratedGraph, activations: Mapping[str, QuantParams]
) -> dict[str, LayerWeights]:
    """Weights rounded to nearest, with biases in the toolkit's whole steps."""
    weights, decided = ready.nearest(activations), ready.plan
    for _, weight_plan, tensor in decided.weighted(ready.graph):
        name = weight_plan.node
        own = weights[name]
        if own.bias is not None and decided.schemes[name].bias == "int32":
            read = activations[decided.read_as(tensor, name)]
            bias = _rounded_bias(own.bias, read.scale[0], own.params)
            weights[name] = replace(own, bias=bias)
    return weights


def _rounded_bias(bias: np.ndarray, input_scale: float, params: QuantParams) -> np.ndarray:
    """The bias in whole steps, divided as the toolkit does it.

    It divides by the input's scale in float32 times the weight's in float64; ours is the product in
    float32. Where a bias lies next to half a step the two round it differently. An integer that
    float32 cannot hold beside its neighbours stays as it is.
    """
    if params.minimum is None or params.maximum is None:
        return bias
    exact = (np.asarray(params.maximum) - np.asarray(params.minimum)) / 255.0
    step = np.asarray(params.scale, dtype=np.float64)
    # a channel of zeros, or one that was widened for its bias, has the scale that was chosen here
    exact = np.where(np.abs(exact / step - 1.0) < 1e-6, exact, step)
    whole = np.rint(bias.astype(np.float64).reshape(-1) / (input_scale * exact))
    stored = np.float32(input_scale) * step.astype(np.float32)
    near = np.abs(whole) < float(1 << 22)
    rounded = np.where(near, whole * stored.astype(np.float64), bias.reshape(-1))
    return rounded.astype(np.float32).reshape(bias.shape)


def _findings(graph: Graph, decided: Plan) -> tuple[Finding, ...]:
    """Depthwise convolutions with asymmetric weights are slow here, exact as they are."""
    slow = sum(
        node.op_type == "Conv"
        and node.attributes.get_int("group", 1) > 1
        and node.name in decided.weights
        for node in graph.nodes
    )
    if not slow:
        return ()
    return (
        Finding(
            code="vendor-mode-slow",
            severity="info",
            where="simulator",
            what=f"{slow} depthwise or grouped layers have asymmetric weights and simulate slowly.",
            cause="The vendor quantizes weights with zero points, for which ONNX Runtime has no "
            "fast depthwise kernel (10 to 40 times slower). On the NPU it makes no difference.",
            remedy="Use 'normal' unless you want the vendor's numbers.",
        ),
    )
