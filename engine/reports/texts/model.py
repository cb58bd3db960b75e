"""What a file is and what is in it, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.base.findings import Finding
from engine.base.text import human_bytes, sanitize, shape_text, some_of
from engine.report import summary_text
from engine.reports.files import table_lines
from engine.reports.texts import words
from engine.reports.texts.facts import fact_rows, port_text
from engine.wire.build_tables import SEGMENTS
from engine.wire.formats import DURATION
from engine.wire.model import GraphView, Loaded, ModelView, Preflight, Tensor
from engine.wire.project_tables import GRAPH_NODES
from engine.wire.segments import Segment

_SHOWN = 12
_SEEN = ("kind", "size", "encryption_level", "compiled_from")
"""Facts of an encrypted file of the vendor."""


@words.register
def inspect_lines(
    view: ModelView, loaded: Loaded | None = None, graph: GraphView | None = None
) -> list[str]:
    """The text of a model view, with its pre-flight, load and layers where they are there."""
    text = [f"{sanitize(view.name)}: {sanitize(view.format)}", f"SHA-256 {view.sha256}"]
    if view.preflight:
        text += _recognised(view.preflight)
    facts = view.vendor or {}
    hidden = facts.get("kind") == "encrypted"
    if hidden:  # all else is not known, which is not the same as none
        facts = {name: facts[name] for name in _SEEN if name in facts}
    text += [
        f"{'  ' * depth}{name}:{' ' if fact else ''}{fact}"
        for depth, name, fact in fact_rows(facts)
    ]
    if view.kind != "rknnop" and not hidden:
        text += _content(view)
    if view.segments:
        text += segment_lines(view.segments)
    text += finding_lines(view.findings)
    if loaded is not None:
        text += _load(loaded)
    if graph is not None:
        rows = [GRAPH_NODES.record(node, number=i) for i, node in enumerate(graph.nodes)]
        text += ["", *table_lines(GRAPH_NODES, rows)]
    if view.summary:
        text += ["", summary_text(view.summary)]
    return text


def _content(view: ModelView) -> list[str]:
    """Inputs, outputs, operators and weights."""
    text = []
    for title, tensors in (("inputs", view.inputs), ("outputs", view.outputs)):
        text.append(f"{title}:")
        for tensor in tensors:
            port = port_text(tensor)
            text += [f"  {_tensor(tensor)}", *([f"    {port}"] if port else [])]
    if view.preflight:
        text += _candidates(view, view.preflight)
    weights = human_bytes(view.weights_bytes)
    text.append(f"{view.nodes} layers, {view.parameters} parameters, {weights} of weights")
    text.append("operators: " + _counts(view.operators))
    return text


def _recognised(before: Preflight) -> list[str]:
    seen = before.recognised
    text = [f"file type: detected as {sanitize(seen.format)}: {sanitize(seen.why)}"]
    if len(before.files) > 1:
        text.append("files: " + ", ".join(sanitize(name) for name in before.files))
    for name, version, read in before.versions:
        limit = f" ({sanitize(read)})" if read else ""
        text.append(f"{sanitize(name)}: {sanitize(version)}{limit}")
    return [*text, *(sanitize(note) for note in before.notes)]


def _tensor(tensor: Tensor) -> str:
    shape = shape_text(tensor.shape) if tensor.shape != (-1,) else "?"
    return f"{sanitize(tensor.name)}  {shape}  {tensor.dtype}"


def _candidates(view: ModelView, before: Preflight) -> list[str]:
    """Names that suit as ``--inputs`` and ``--outputs`` where they are not what the file says."""
    text = []
    suited = before.candidates
    for what, names, tensors in (
        ("inputs", suited.inputs, view.inputs),
        ("outputs", suited.outputs, view.outputs),
    ):
        if not set(names) <= {tensor.name for tensor in tensors}:
            shown = some_of([sanitize(name, 100) for name in names], _SHOWN)
            text.append(f"candidates for --{what}: {shown}")
    return text


def _counts(operators: Mapping[str, int]) -> str:
    counts = sorted(operators.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{sanitize(op, 60)} {count}" for op, count in counts)


def finding_lines(findings: Iterable[Finding]) -> list[str]:
    """A line for each finding, and one for its remedy."""
    text = []
    for finding in findings:
        text.append(f"{finding.severity}: {sanitize(finding.where)}: {sanitize(finding.what)}")
        if finding.remedy:
            remedy = finding.remedy.split("\n")
            text.append(f"  fix: {sanitize(remedy[0])}")
            text += [f"  {sanitize(line)}" for line in remedy[1:]]
    return text


def segment_lines(segments: Sequence[Segment], title: str = "") -> list[str]:
    """The segments of a model, one a line."""
    rows = [SEGMENTS.record(one, number=number) for number, one in enumerate(segments)]
    line = f"{len(segments)} segment{'s' * (len(segments) != 1)}"
    return [f"{line} ({title})" if title else line, *table_lines(SEGMENTS, rows)]


def _load(loaded: Loaded) -> list[str]:
    how = "from the cache" if loaded.cached else f"in {DURATION.text(loaded.seconds)}"
    text = ["", f"loaded {how}: {loaded.nodes} nodes, {_counts(loaded.operators)}"]
    text += [f"  input {_tensor(tensor)}" for tensor in loaded.inputs]
    text += [f"  output {_tensor(tensor)}" for tensor in loaded.outputs]
    return [*text, *finding_lines(loaded.findings)]
