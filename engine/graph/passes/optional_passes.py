"""Passes that an option of its own turns on, beside the optimization level."""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.base.text import human_bytes, sanitize, shape_text
from engine.graph.ir import Graph
from engine.graph.passes.base import Pass, PassResult
from engine.graph.passes.io_reshapes import RemoveIOReshapes
from engine.graph.passes.manager import Pipeline, run_pipeline
from engine.graph.passes.pruning import ZeroChannels

__all__ = ["OPTIONAL", "AppliedPasses", "apply_requested"]

OPTIONAL: tuple[type[Pass], ...] = (RemoveIOReshapes, ZeroChannels)
"""Passes that an option of their own asks for, in their order: ends first, since a Reshape at an
output must not decide about the channels before it."""


@dataclass(frozen=True)
class AppliedPasses:
    """A graph after the rewrites that options ask for, what each pass did, and what to know."""

    graph: Graph
    log: tuple[PassResult, ...]
    findings: tuple[Finding, ...]


def apply_requested(
    graph: Graph,
    *,
    model_pruning: bool = False,
    remove_reshape: bool = False,
    reporter: Reporter | None = None,
) -> AppliedPasses:
    """Rewrite an optimised graph as ``model_pruning`` and ``remove_reshape`` ask for.

    Args:
        graph: stays as it is.
        model_pruning: remove channels that are always zero, or that only zeros read.
        remove_reshape: remove Reshapes at inputs and outputs; their shapes change.
        reporter: told of each pass that changed something.

    Raises:
        PassError: a pass failed.
    """
    if not (model_pruning or remove_reshape):
        return AppliedPasses(graph, (), ())
    asked = {RemoveIOReshapes: remove_reshape, ZeroChannels: model_pruning}
    requested = tuple(one for one in OPTIONAL if asked[one])
    done = run_pipeline(graph, Pipeline("options", requested), reporter)
    findings: list[Finding] = []
    if remove_reshape:
        findings.append(_reshaped(graph, done.graph))
    if model_pruning:
        findings.append(_pruned(graph, done.graph, done.log))
    return AppliedPasses(done.graph, done.log, tuple(findings))


def _reshaped(before: Graph, after: Graph) -> Finding:
    changed = [
        f"{what} {sanitize(old.name, 60)} is {shape_text(new.shape)} now, not "
        f"{shape_text(old.shape)}"
        for what, olds, news in (
            ("input", before.inputs, after.inputs),
            ("output", before.outputs, after.outputs),
        )
        for old, new in zip(olds, news, strict=True)
        if old.shape != new.shape
    ]
    if not changed:
        return Finding(
            "reshape-none",
            "info",
            "remove_reshape",
            "No input or output has a Reshape of its own: nothing was removed.",
        )
    removed = len(before) - len(after)
    return Finding(
        "reshape-removed",
        "warning",
        "remove_reshape",
        f"{removed} reshapes at the ends were removed: {'; '.join(changed)}.",
        cause="remove_reshape is set.",
        remedy="Feed and read these shapes, here and in the deployed program.",
    )


def _pruned(before: Graph, after: Graph, log: tuple[PassResult, ...]) -> Finding:
    channels = sum(sum(r.counts.values()) for r in log if r.name == ZeroChannels.name)
    if not channels:
        return Finding(
            "pruning-none",
            "info",
            "model_pruning",
            "No channel is always zero or unread: nothing was removed.",
            cause="Pruning is lossless: only what adds nothing goes, in channels that may go.",
        )
    was, now = _constants(before), _constants(after)
    return Finding(
        "model-pruned",
        "info",
        "model_pruning",
        f"{channels} channels were removed, and with them {was - now} of {was} bytes of constants "
        f"({human_bytes(was - now)}).",
        cause="Their weights, or all weights that read them, are zero: results stay equal.",
    )


def _constants(graph: Graph) -> int:
    """Bytes of all initializers."""
    return sum(
        value.const_value.nbytes
        for value in graph.model.graph.initializers.values()
        if value.const_value is not None
    )
