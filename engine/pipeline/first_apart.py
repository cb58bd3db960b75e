"""Where a compiled model and our numbers part: the first tensor that is not the same.

The toolkit analyses no model with parameters of its own without a board, and its simulator gives
outputs only. So the model is compiled again with inner tensors as outputs, which changes none of
their numbers: at most three times, first all over the graph, then what the first is computed of.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from engine.base.errors import CompilerError, EngineError, JobCancelledError
from engine.base.events import LogLine
from engine.graph.execute import fused_roundings, table_roundings
from engine.graph.ir import Graph
from engine.pipeline.opinion_findings import missed
from engine.pipeline.second_opinion import (
    OpinionSamples,
    fuses,
    numbers_of,
    opinion_samples,
    reference_session,
    second_opinion,
    steps_of_outputs,
)
from engine.toolkit.compile.neutral_names import neutral_names
from engine.wire.compile import FirstApart, SecondOpinion

if TYPE_CHECKING:
    from engine.pipeline.compile_sources import HandedModel
    from engine.toolkit.compile.compiler import CompilerRun

_AT_ONCE = 60
"""Tensors that are outputs of one compilation."""
_MOST_BUILDS = 3
_MOST_BYTES = 256 << 20
"""Float32 tensors of one run."""


def opinion_of(
    run: CompilerRun, handed: HandedModel, samples: OpinionSamples
) -> SecondOpinion | None:
    """The second opinion on a compilation; where it is bad, with the first tensor that differs.

    :func:`engine.pipeline.opinion_findings.judge` says what it means.

    Args:
        run: a compilation that is done. Where the two differ its model is released, and others are
            compiled in its process.
        handed: what was compiled.
        samples: what to run; without any there is no opinion.

    Raises:
        DatasetError: the user's own samples cannot be read.
        JobCancelledError: the user cancelled.
    """
    if not samples.count:
        return None
    opinion = second_opinion(run, handed, samples)
    several = len(handed.shape_sets) > 1
    if handed.by != "ours" or several or opinion.problem or not run.alive:
        return opinion
    if not missed(opinion, handed):
        return opinion
    reporter = handed.pipeline.reporter
    reporter.emit(LogLine("The two simulators differ; looking for the first layer that does."))
    begun = time.perf_counter()
    dataset = samples.dataset(handed)
    sample = next(opinion_samples(handed, handed.shape_sets[0], dataset, 1))
    first = None
    try:
        run.release()
        first = first_apart(run, handed, *sample)
    except JobCancelledError:
        raise
    except EngineError as error:  # the comparison stands without it
        reporter.emit(LogLine(f"The first layer was not found: {error.what}"))
    seconds = round(opinion.seconds + time.perf_counter() - begun, 3)
    return replace(opinion, first=first, seconds=seconds)


def first_apart(
    run: CompilerRun,
    handed: HandedModel,
    raw: Sequence[np.ndarray],
    feed: Mapping[str, np.ndarray],
) -> FirstApart | None:
    """The first tensor of the graph's order whose values are not all equal.

    Args:
        run: of the model; its toolkit compiles others.
        handed: with Q/DQ pairs, for one set of input shapes.
        raw: one sample, as a program on a board has it.
        feed: the same as the graph takes it.

    Returns:
        None where no tensor differs that can be looked at.

    Raises:
        CompilerError: the model with these outputs is not compiled, or does not run.
    """

    def compare(names: Sequence[str]) -> FirstApart | None:
        data = handed.onnx_with(names)
        other = run.with_model(*neutral_names(data))
        try:
            other.compile()
            return _compare(handed, data, names, other.simulate(raw), feed)
        finally:
            other.release()

    sizes = _candidates(handed)
    chosen, equal, checked, best = _spread(list(sizes), sizes), set[str](), 0, None
    for _ in range(_MOST_BUILDS):
        if not chosen:
            break
        difference = compare(chosen)
        checked += len(chosen)
        if difference is None:
            break  # nothing that the best is computed of differs
        best = difference
        equal.update(chosen[: chosen.index(difference.tensor)])
        chosen = _before(handed.graph, difference.tensor, sizes, equal)
    return None if best is None else replace(best, checked=checked)


def _before(graph: Graph, tensor: str, sizes: Mapping[str, int], equal: set[str]) -> list[str]:
    """The nearest tensors that a tensor is computed of, in order; not those known to be equal."""
    names: set[str] = set()
    room = _MOST_BYTES
    seen, waiting = {tensor}, deque([graph.value(tensor).producer()])
    while waiting and len(names) < _AT_ONCE and room > 0:
        node = waiting.popleft()
        for value in () if node is None else node.inputs:
            if value is None or value.name in seen or value.name in equal:
                continue
            seen.add(value.name or "")
            waiting.append(value.producer())
            if value.name in sizes:
                names.add(value.name or "")
                room -= sizes[value.name or ""]
    return [name for name in sizes if name in names]


def _spread(names: Sequence[str], sizes: Mapping[str, int]) -> list[str]:
    """Of some tensors in order as many as one compilation gives, evenly, with the last of them."""
    step = max(1, -(-len(names) // _AT_ONCE))
    while True:
        chosen = list(names[::-1][::step])[::-1]
        if len(chosen) <= 1 or sum(sizes[tensor] for tensor in chosen) <= _MOST_BYTES:
            return chosen
        step += 1


def _candidates(handed: HandedModel) -> dict[str, int]:
    """Tensors that layers write and that are stored in 8 bits, in order; bytes of each in float."""
    graph = handed.graph
    merged = (*fused_roundings(graph), *table_roundings(graph)) if fuses(handed) else ()
    gone = {node.name for node in merged}
    sizes: dict[str, int] = {}
    for node in graph.nodes:
        if node.op_type != "QuantizeLinear" or node.name in gone:
            continue
        readers = [use.node for use in node.outputs[0].uses()]
        if len(readers) != 1 or readers[0].op_type != "DequantizeLinear":
            continue
        value = readers[0].outputs[0]
        if value.is_graph_output() or not value.uses() or value.shape is None:
            continue
        sizes[value.name or ""] = 4 * int(np.prod([int(size) for size in value.shape.numpy()]))
    return sizes


def _compare(
    handed: HandedModel,
    data: bytes,
    names: Sequence[str],
    theirs: Sequence[np.ndarray],
    feed: Mapping[str, np.ndarray],
) -> FirstApart | None:
    """The first of the tensors that are outputs of a file, behind its own, that is not equal."""
    file = Graph.from_bytes(data)
    inputs = handed.feed_of(file, feed)
    ours = list(reference_session(numbers_of(file, fused=fuses(handed))).run(inputs).values())
    own = len(handed.graph.outputs)
    if len(theirs) != len(ours) or len(ours) != own + len(names):
        raise CompilerError(
            f"The model with {len(names)} inner tensors as outputs has {len(theirs)} outputs in "
            "the vendor's simulator.",
            cause="The toolkit leaves out outputs, or adds some.",
            remedy="Compare on a board instead: rknntui compare.",
        )
    scales = steps_of_outputs(file)
    for at, name in enumerate(names, own):
        one, two = (np.asarray(side[at], np.float32).ravel() for side in (theirs, ours))
        scale = scales[at]
        if one.size != two.size or scale is None:
            continue
        away = np.abs(np.rint((one - two) / np.float32(scale)))
        unequal = int(np.count_nonzero(away))
        if unequal:
            return FirstApart(
                tensor=name,
                op=_operator(handed.graph, name),
                equal=1 - unequal / away.size,
                max_steps=int(away.max()),
                checked=len(names),
            )
    return None


def _operator(graph: Graph, tensor: str) -> str:
    """What computes a tensor, before its pair; with the operator that its activation follows."""
    node = graph.value(tensor).producer()
    while node is not None and node.op_type in ("DequantizeLinear", "QuantizeLinear"):
        source = node.inputs[0]
        node = None if source is None else source.producer()
    return "" if node is None else node.op_type
