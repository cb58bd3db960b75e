"""Range mismatches: inputs of a Concat or Add that share one scale but have very different ranges.

The classic case is a detector's head: boxes in pixels and scores from 0 to 1 in one Concat. With
one scale for 0..640 a step is 2.5: every score becomes 0. The structure tells before anything was
calibrated; the ranges then tell how many steps the smaller side keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from engine.base.findings import Finding
from engine.base.plain import Values
from engine.base.text import sanitize
from engine.graph.ir import Graph
from engine.graph.ir.spec import name_of
from engine.hybrid.layers import Layers, reached
from engine.quantize.calibration.observations import Observations
from engine.quantize.planning.node_properties import data_inputs, is_constant, is_float
from engine.quantize.planning.plan import is_quantized_source

# Of 256 steps a side with 16 keeps 4 bits of 8: below that most of its values fall together.
_FEW_STEPS = 16.0
_STEPS = 255.0
# What is between 0 and 1 (or -1 and 1) whatever comes in.
_BOUNDED = frozenset({"Sigmoid", "HardSigmoid", "Softmax"})
_COUNTING = frozenset({"ReduceSum", "ReduceMax", "ReduceMean", "TopK", "ArgMax"})


@dataclass(frozen=True)
class MismatchInput:
    """One input of such a node: its tensor, what computes its values, and its range once it is
    known.
    """

    tensor: str
    op: str
    bounded: bool
    low: float | None = None
    high: float | None = None

    @property
    def width(self) -> float | None:
        """The width of its range with 0 in it."""
        if self.low is None or self.high is None:
            return None
        return max(self.high, 0.0) - min(self.low, 0.0)


@dataclass(frozen=True)
class RangeMismatch:
    """A layer whose inputs have very different ranges.

    Attributes:
        layer, op: the layer and its operator.
        sides: its inputs.
        steps: of the integers, how many the smallest side keeps; None without ranges.
        ratio: of the widest range to the smallest; None without ranges.
        outputs: outputs of the graph that it leads to through moves alone.
        lift: layers that keep the sides apart when they are float16.
        wide: whether a side is arithmetic on coordinates, whose values nothing bounds.
    """

    layer: str
    op: str
    sides: tuple[MismatchInput, ...]
    steps: float | None
    ratio: float | None
    outputs: tuple[str, ...]
    lift: tuple[str, ...]
    wide: bool


def find_range_mismatches(
    graph: Graph,
    observations: Observations | None = None,
    *,
    source: Graph | None = None,
    outputs: Iterable[str] | None = None,
    layers: Mapping[str, str] | None = None,
    dtype: str = "float16",
) -> tuple[Finding, ...]:
    """Range mismatches of a float graph, with a change of the recipe that repairs each.

    Args:
        graph: the float graph.
        observations: of the same graph, once calibration was there; else the structure decides.
        source: the graph as it was loaded: only its tensors can be named as outputs.
        outputs: that the recipe names; the graph's own where None.
        layers: that the recipe lifts already, by id; joins that it repaired are not told again.
        dtype: of the lifted layers; empty where the target has none for single layers.

    Returns:
        per join a finding whose ``changes`` lift the join and its tail; the ``remedy`` also tells
        how to split it, where it is an output. Without ``dtype`` they split it.
    """
    if is_quantized_source(graph):
        return ()
    layers_of = Layers(graph)
    done = dict(layers or {})
    mismatches = (
        mismatch for mismatch in _joins(layers_of, observations) if mismatch.layer not in done
    )
    findings = [
        _finding(mismatch, layers_of, source, outputs, done, dtype) for mismatch in mismatches
    ]
    return (*findings, *_read_twice(layers_of, source, outputs))


def _joins(layers: Layers, seen: Observations | None) -> Iterable[RangeMismatch]:
    for layer in layers.all:
        node = layers.nodes[layer.node]
        if node.op_type not in ("Concat", "Add") or not layer.can_promote:
            continue
        sides = tuple(
            _side(layers, name_of(value), seen)
            for value in data_inputs(node)
            if not is_constant(value) and is_float(value)
        )
        if len(sides) < 2:
            continue
        steps, ratio = _steps(sides)
        if node.op_type == "Add" and (steps is None or steps >= _FEW_STEPS):
            continue  # unlike Concat, an Add reads each side with its own scale
        tail = _tail(layers, layer.tensor)
        leads = tuple(t for t in tail if layers.graph.value(t).is_graph_output())
        bounded = any(side.bounded for side in sides)
        wide = any(_is_wide(side) for side in sides)
        mixed = bounded and (wide or (bool(leads) and not all(side.bounded for side in sides)))
        if (steps is not None and steps < _FEW_STEPS) or (steps is None and mixed):
            lift = tuple(layers.by_tensor[t].id for t in tail if t in layers.by_tensor)
            yield RangeMismatch(layer.id, layer.op, sides, steps, ratio, leads, lift, wide)


def _side(layers: Layers, tensor: str, seen: Observations | None) -> MismatchInput:
    writer = layers.graph.producer(tensor)
    layer = layers.of_node(writer)
    while layer is not None and layer.op != "Concat" and layer.kind == "move":
        value = data_inputs(layers.nodes[layer.node])[0]
        writer = value.producer()
        layer = layers.of_node(writer)
    op = "input" if writer is None else writer.op_type
    own = None if seen is None else seen.tensors.get(tensor)
    span = (None, None) if own is None else (own.minimum, own.maximum)
    return MismatchInput(tensor, op, op in _BOUNDED, *span)


def _is_wide(side: MismatchInput) -> bool:
    """Whether nothing bounds the values of a side: arithmetic on coordinates, not a feature map."""
    return not side.bounded and side.op in ("Mul", "Add", "Sub", "Div", "Exp", "Concat")


def _steps(sides: Iterable[MismatchInput]) -> tuple[float | None, float | None]:
    """Steps of the smallest side in a scale for all, and the ratio of ranges; None if not known."""
    known = [side for side in sides if side.width is not None]
    reaches = [reach for side in known if (reach := side.width) is not None and reach > 0]
    if len(reaches) < 2:
        return None, None
    low = min(min(s.low or 0.0, 0.0) for s in known)
    high = max(max(s.high or 0.0, 0.0) for s in known)
    smallest = min(reaches)
    return _STEPS * smallest / (high - low), (high - low) / smallest


def _tail(layers: Layers, tensor: str) -> list[str]:
    """A tensor, and what moves alone make of it."""

    def moved(name: str) -> Iterable[str]:
        for reader in layers.readers(name):
            layer = layers.of_node(reader)
            if layer is not None and layer.kind == "move" and layer.op != "Concat":
                yield from (value.name for value in reader.outputs if value.name)

    return list(reached(tensor, moved))


def _finding(
    mismatch: RangeMismatch,
    layers: Layers,
    source: Graph | None,
    outputs: Iterable[str] | None,
    done: Mapping[str, str],
    dtype: str,
) -> Finding:
    named = ", ".join(_told(side) for side in mismatch.sides[:4])
    what = f"{mismatch.op} with mismatched ranges: its inputs share one scale: {named}."
    cause = "One of them is bounded (scores), another is not (boxes)."
    if mismatch.steps is not None and mismatch.ratio is not None:
        cause = (
            f"The widest range is {mismatch.ratio:.3g} times the smallest, which gets only "
            f"{mismatch.steps:.3g} of 255 steps (from the calibration samples)."
        )
    split = _split(mismatch, source, outputs, layers.graph)
    names = ", ".join(sanitize(name, 60) for name in split)
    lift = f"Compute the {mismatch.op} and its tail in {dtype}, so that each side keeps its scale"
    apart = f"split the output before it: outputs {names}"
    ways = [way for way, there in ((lift, dtype), (apart, split)) if there]
    remedy = "; or ".join(ways) or "Use a chip with float16, or split the model there"
    changes: Values = {"outputs": split} if split else {}
    if dtype:
        changes = {"quantized_layers": {**done, **dict.fromkeys(mismatch.lift, dtype)}}
    sure = mismatch.op == "Concat" and (mismatch.steps is not None or mismatch.wide)
    return Finding(
        "mixed-range-concat" if mismatch.op == "Concat" else "mixed-range-join",
        "warning" if sure else "info",
        sanitize(mismatch.layer, 200),
        what,
        cause,
        f"{remedy[0].upper()}{remedy[1:]}.",
        changes,
    )


def _told(side: MismatchInput) -> str:
    name = sanitize(side.tensor, 60)
    if side.low is None or side.high is None:
        return f"{name} ({side.op})"
    return f"{name} ({side.op}, {side.low:.4g} to {side.high:.4g})"


def _split(
    mismatch: RangeMismatch, source: Graph | None, outputs: Iterable[str] | None, graph: Graph
) -> list[str]:
    """The outputs of the recipe with the join's sides in the place of what it leads to.

    Sides that are an input of the model or the same for every input are no outputs: the vendor's
    compiler leaves such ones out, and the program has them. None is named twice.
    """
    if len(mismatch.outputs) != 1 or source is None:
        return []
    sides = [side.tensor for side in mismatch.sides]
    if not all(name in source.values for name in sides):
        return []
    computed = source.computed()
    sides = [name for name in dict.fromkeys(sides) if name in computed]
    if not sides:
        return []
    now = list(outputs) if outputs is not None else [spec.name for spec in graph.outputs]
    if mismatch.outputs[0] not in now:
        return []
    place = now.index(mismatch.outputs[0])
    sides = [name for name in sides if name not in now]
    return [*now[:place], *sides, *now[place + 1 :]]


def _read_twice(
    layers: Layers, source: Graph | None, outputs: Iterable[str] | None
) -> Iterable[Finding]:
    """Sigmoids whose scores are also summed for an output of their own: one finding for all."""
    names = list(outputs) if outputs is not None else [s.name for s in layers.graph.outputs]
    read_twice: dict[str, tuple[str, list[str]]] = {}
    for layer in layers.all:
        if layer.op not in ("Sigmoid", "HardSigmoid"):
            continue
        readers = layers.readers(layer.tensor)
        counting = [node for node in readers if node.op_type in _COUNTING]
        extra = sorted({t for node in counting for t in _leads(layers, node)} & set(names))
        used = len(readers) > len(counting) or layers.graph.value(layer.tensor).is_graph_output()
        if extra and used:
            read_twice[layer.id] = (counting[0].op_type, extra)
    if not read_twice:
        return
    dropped = [name for name in names if any(name in extra for _, extra in read_twice.values())]
    rest = [name for name in names if name not in dropped]
    listed = ", ".join(sanitize(name, 60) for name in dropped)
    known = source is None or all(name in source.values for name in rest)
    yield Finding(
        "sigmoid-read-twice",
        "info",
        ", ".join(sanitize(node, 60) for node in read_twice),
        f"Scores of a Sigmoid are used directly, and {next(iter(read_twice.values()))[0]} also "
        f"computes the outputs {listed} from them.",
        "With a second reader the vendor's compiler does not fuse the Sigmoid into the layer "
        "before it; detectors with such a score sum lose accuracy and time.",
        "Remove these outputs and sum the scores after the model.",
        {"outputs": rest} if known and rest else {},
    )


def _leads(layers: Layers, node: ir.Node) -> set[str]:
    """Outputs of the graph that follow from a node alone."""
    nodes = reached(node, lambda one: [u.node for out in one.outputs for u in out.uses()])
    return {out.name or "" for one in nodes for out in one.outputs if out.is_graph_output()}
