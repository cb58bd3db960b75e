"""Passes that an option of its own turns on, beside the optimization level."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.base.text import human_bytes, sanitize, shape_text
from engine.graph.ir import Graph
from engine.graph.ir.spec import only_reader
from engine.graph.passes.base import Pass, PassResult, operators, shape
from engine.graph.passes.editor import Editor
from engine.graph.passes.manager import Pipeline, run_pipeline
from engine.graph.passes.pruning import ZeroChannels

# Remove reshapes at the ends of the graph (``remove_reshape`` [RKNN-T2 2.3.0, 2.2]).

_RESHAPES = operators("Reshape Flatten Squeeze Unsqueeze")


class RemoveIOReshapes(Pass):
    """Operators that only change the shape of an input or output of the graph.

    The input takes the shape from behind the operator, the output the one from before it; names
    stay.
    """

    name = "edge-reshapes"
    level = 1
    summary = "Reshapes at inputs and outputs are removed; the inputs' and outputs' shapes change."
    keeps_bits = False  # no value changes, but shapes of the ends do: only where it is asked for

    def apply(self, edit: Editor) -> None:
        """Every end, as long as a Reshape stands there."""
        for value in list(edit.graph.inputs):
            while self._input(value, edit):
                pass
        for name in [value.name for value in edit.graph.outputs]:
            while self._output(name or "", edit):
                pass

    def _input(self, value: ir.Value, edit: Editor) -> bool:
        node = only_reader(value, *_RESHAPES)
        if node is None or node.inputs[0] is not value:
            readers = {use.node for use in value.uses()}
            for reader in readers if len(readers) > 1 else ():
                if reader.op_type in _RESHAPES:
                    self.near(reader, f"{value.name} is read elsewhere too")
            return False
        out = node.outputs[0]
        dims = shape(out)
        if dims is None or out.is_graph_output():
            return self.near(node, "it stands between an input and an output of the graph")
        value.shape = ir.Shape(dims)
        edit.redirect(out, value)
        edit.remove(node)
        return self.did("at an input removed")

    def _output(self, name: str, edit: Editor) -> bool:
        value = next(v for v in edit.graph.outputs if v.name == name)
        node = value.producer()
        if node is None or node.op_type not in _RESHAPES:
            return False
        source = node.inputs[0]
        if source is None or source.producer() is None or source.is_graph_output():
            return self.near(node, "what it reshapes is an end of the graph itself")
        if value.uses():
            return self.near(node, "its result is read inside the graph too")
        edit.redirect(value, source)
        edit.remove(node)
        return self.did("at an output removed")


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
    was, now = before.weight_bytes, after.weight_bytes
    return Finding(
        "model-pruned",
        "info",
        "model_pruning",
        f"{channels} channels were removed, and with them {was - now} of {was} bytes of constants "
        f"({human_bytes(was - now)}).",
        cause="Their weights, or all weights that read them, are zero: results stay equal.",
    )
