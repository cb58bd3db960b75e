"""Which layers to lift without being asked for a floor: the proposal of hybrid step 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import onnx_ir as ir

from engine.accuracy import analyse
from engine.base.errors import RecipeError, UsageError
from engine.base.events import NullReporter, Reporter
from engine.base.text import sanitize
from engine.graph.layers import Layer
from engine.graph.metrics import decibel
from engine.hybrid.evaluator import sqnr_of
from engine.hybrid.layers import Layers, reached
from engine.hybrid.noise_model import (
    LEAST_MS,
    Candidate,
    ChoiceCost,
    ChoiceCosts,
    NoiseModel,
    check_budget,
    fits,
    per_millisecond,
)
from engine.hybrid.sensitivity import noise_terms
from engine.quantize import Quantized
from engine.report import sqnr_text
from engine.wire.hybrid import Proposal, Ranked

# A proposal lifts at most this share of the layers, and goes on while a layer takes away at least
# this share of the error that is left: a tenth is about half a dB.
_MOST_LAYERS = 0.1
_LEAST_GAIN = 0.1
# Candidates whose time is estimated before one is chosen.
_PRICED = 12
# So many layers are promoted together at most, where one alone gains less.
_TOGETHER = 4


def remark_of(proposal: Proposal) -> str:
    """The predicted effect of a proposal in a line."""
    pairs = ((n, proposal.before[n], proposal.after[n]) for n in proposal.after)
    parts = (
        f"{n} {sqnr_text(b, unit=False)} -> {sqnr_text(a)}"
        for n, b, a in pairs
        if b is not None and a is not None
    )
    return f"{', '.join(parts)} (simulated)" if proposal.after else ""


def propose(
    quantized: Quantized,
    feeds: Sequence[Mapping[str, np.ndarray]],
    *,
    dtype: str = "float16",
    budget: int | None = None,
    reporter: Reporter | None = None,
    costs: ChoiceCosts | None = None,
    budget_ms: float | None = None,
    gains: bool = False,
) -> Proposal:
    """Layers to lift, by what every rounding does to the outputs.

    Args:
        quantized: the build without lifted layers.
        feeds: calibration samples, one or a few.
        dtype: of the lifted layers.
        budget: how many, with the moves between them; by default while each takes away a tenth
            of the error that is left, at most a tenth of the layers and at least two.
        reporter: told of the progress, asked whether to stop.
        costs: estimates on a chip: what each layer adds stands beside its gain.
        budget_ms: of an inference there at most; then what gains most for the time that it adds
            comes first.
        gains: whether the answer has what each layer gains alone, too.

    Raises:
        SimulationError: the build does not run.
        UsageError: a budget of time without an estimate.
    """
    check_budget(costs, budget_ms)
    layers = Layers(quantized.reference)
    outputs = [s.name for s in quantized.reference.outputs if s.dtype == "float32"]
    model = NoiseModel(noise_terms(layers, quantized, feeds, reporter=reporter), outputs)
    countable = sum(layer.kind not in ("move", "float") for layer in layers.all)
    most = max(2, int(_MOST_LAYERS * countable)) if budget is None else budget
    lifted: list[str] = []
    ranking: list[Ranked] = []
    whole = model.cost()

    def moved(names: Iterable[str]) -> dict[str, str]:
        """Layers and the moves between them, as a build has them."""
        return layers.with_data_movement(dict.fromkeys(names, dtype))

    def cost_with(names: Iterable[str]) -> ChoiceCost | None:
        return costs.of(moved(names)) if costs is not None else None

    def room(candidate: Candidate) -> bool:
        return len(moved([*lifted, *candidate.layers])) <= most

    while len(lifted) < most:
        candidates = model.candidates(lifted, most - len(lifted))
        if budget is not None:
            candidates = list(islice(filter(room, candidates), _PRICED))
        now = model.cost(lifted)
        if budget_ms is not None:
            candidates = _affordable(candidates, now, lifted, cost_with, budget_ms)
        if not candidates or now <= 0:
            break
        gain = (now - candidates[0].cost) / now / len(candidates[0].layers)
        if gain <= 0 or (budget is None and gain < _LEAST_GAIN):
            break
        for name in sorted(candidates[0].layers, key=lambda n: (model.cost([*lifted, n]), n)):
            cost, price = model.cost(lifted), cost_with(lifted)
            lifted.append(name)
            row = _row(layers.by_id[name], cost, model.cost(lifted), whole)
            ranking.append(_priced(row, price, cost_with(lifted)))
    before, after = (sqnr_of(model.noise(names)) for names in ((), lifted))
    first, last = cost_with(()), cost_with(lifted)
    alone: list[Ranked] = []
    partners = _partners(model) if gains else {}
    for name in model.layers if gains else ():
        names = partners.get(name, (name,))
        row = _row(layers.by_id[name], whole, model.cost(names), whole)
        row = replace(row, together=tuple(other for other in names if other != name))
        alone.append(_priced(row, first, cost_with(names)) if (row.share or 0) > 0 else row)
    return Proposal(
        layers=moved(lifted),
        ranking=tuple(ranking),
        gains=tuple(alone),
        before=before,
        after=after,
        chip="" if costs is None or first is None else costs.chip,
        time_before_ms=None if first is None else first.time_ms,
        time_after_ms=None if last is None else last.time_ms,
    )


def _partners(model: NoiseModel) -> dict[str, tuple[str, ...]]:
    """Layer -> the layers that gain together, each, more than this one alone."""
    whole, found = model.cost(), dict[str, tuple[str, ...]]()
    for candidate in model.candidates((), _TOGETHER):
        each = (whole - candidate.cost) / len(candidate.layers)
        for name in candidate.layers:  # the best candidates come first
            if each > whole - model.cost([name]):
                found.setdefault(name, tuple(sorted(candidate.layers)))
    return found


def _affordable(
    candidates: Sequence[Candidate],
    now: float,
    lifted: Sequence[str],
    cost_with: Callable[[Iterable[str]], ChoiceCost | None],
    budget_ms: float,
) -> list[Candidate]:
    """The candidates that keep to the time, what gains most for the time that it adds first."""
    before = cost_with(lifted)
    ranked: list[tuple[float, Candidate]] = []
    for candidate in candidates[:_PRICED]:
        after = cost_with([*lifted, *sorted(candidate.layers)])
        if fits(after, budget_ms):
            ranked.append((per_millisecond(now - candidate.cost, before, after), candidate))
    return [one for _, one in sorted(ranked, key=lambda pair: -pair[0])]


def _row(layer: Layer, before: float, after: float, whole: float) -> Ranked:
    gain = decibel(before, after) if before > 0 and after > 0 else None
    share = (before - after) / whole if whole > 0 else 0.0
    return Ranked(
        tensor=layer.tensor,
        id=layer.id,
        op=layer.op,
        sources=layer.sources,
        gain_db=gain,
        share=share,
    )


def _priced(row: Ranked, before: ChoiceCost | None, after: ChoiceCost | None) -> Ranked:
    """The row with what lifting this layer adds."""
    if before is None or after is None:
        return row
    time = after.time_ms - before.time_ms
    gain = row.gain_db / time if row.gain_db is not None and time >= LEAST_MS else None
    return replace(row, promote_ms=time, promote_bytes=after.bytes - before.bytes, gain_per_ms=gain)


def subgraph_layers(layers: Layers, pairs: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The layers between each input and output of ``custom_hybrid``, in the order of the graph.

    Args:
        layers: of the optimised graph, whose names the manual asks for [RKNN-T2 2.3.0, 2.12].
        pairs: ``[[input, output], ...]``, names of tensors.

    Raises:
        UsageError: it is no such list.
        RecipeError: a name that the graph does not have, or no way from input to output.
    """
    names: set[str] = set()
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(p, str) for p in pair):
            raise UsageError(
                f"custom_hybrid has {sanitize(repr(pair), 120)} where a pair of names belongs.",
                remedy="Write [[input, output], ...].",
            )
        names |= _between(layers, *pair)
    return tuple(layer.id for layer in layers.all if layer.id in names)


def _between(layers: Layers, start: str, end: str) -> set[str]:
    last = layers.named(end)
    if start not in layers.graph.values:
        layers.named(start)  # which tells the nearest names
    after = _reach(layers, start)
    names = {
        name
        for name in _reach_back(layers, last.node)
        if name in after and layers.by_id[name].can_promote
    }
    if last.id not in after:
        raise RecipeError(
            f"No way leads from {sanitize(start, 120)!r} to {sanitize(end, 120)!r}.",
            cause="The input of a pair must lie before its output.",
            remedy="Take both names from the .model file, the input first.",
        )
    return names


def _reach(layers: Layers, tensor: str) -> set[str]:
    """Layers that depend on a tensor."""
    value = layers.graph.values.get(tensor) or layers.graph.value(layers.named(tensor).tensor)
    values = reached(value, lambda one: [out for use in one.uses() for out in use.node.outputs])
    users = (layers.of_node(use.node) for one in values for use in one.uses())
    return {layer.id for layer in users if layer is not None}


def _reach_back(layers: Layers, node: str) -> set[str]:
    """Layers that a node depends on, its own too."""

    def makers(one: ir.Node) -> Iterable[ir.Node]:
        before = (value.producer() for value in one.inputs if value is not None)
        return (maker for maker in before if maker is not None)

    own = map(layers.of_node, reached(layers.nodes[node], makers))
    return {layer.id for layer in own if layer is not None}


# ``auto_hybrid``: layers whose own error passes a threshold become float16, without a search.


def auto_layers(
    quantized: Quantized,
    feeds: Sequence[Mapping[str, np.ndarray]],
    *,
    cosine: float,
    euclidean: float | None = None,
    dtype: str = "float16",
    reporter: Reporter | None = None,
) -> dict[str, str]:
    """Layers to lift by the thresholds of toolkit 2.3.2's ``auto_hybrid``.

    No manual describes its procedure: here a layer is lifted where the error that it makes by
    itself, on float inputs, passes a threshold.

    Args:
        quantized: the build without lifted layers.
        feeds: calibration samples.
        cosine: layers below it are lifted.
        euclidean: layers above it are lifted; None: no such threshold.
        dtype: of the lifted layers.
        reporter: asked whether to stop.

    Returns:
        layer -> dtype, the moves between lifted layers too.

    Raises:
        SimulationError: a graph does not run.
    """
    layers = Layers(quantized.reference)
    report = analyse(quantized, feeds, reporter=reporter or NullReporter())
    worst = {
        row.tensor
        for row in report.layers
        if (own := row.isolated) is not None
        and (
            (own.cosine is not None and own.cosine < cosine)
            or (euclidean is not None and (own.euclidean or 0.0) > euclidean)
        )
    }
    lifted = {
        layer.id: dtype
        for layer in layers.all
        if layer.tensor in worst and layer.kind not in ("move", "float")
    }
    return layers.with_data_movement(lifted)
