"""What the detail pane says: lines of text from the worker's plain data."""

from __future__ import annotations

import itertools
from typing import Any

from rich.cells import cell_len

from engine import human_bytes, printable, shape_text
from rknntui.facts import fact_rows, port_text, quant_text
from rknntui.keys.text import key_text, with_keys
from rknntui.screens.model.source import needed_option
from rknntui.widgets.paint import Line, fit
from rknntui.widgets.wrap import wrap

__all__ = ["Described", "histogram", "model_lines", "node_lines", "tensor_lines", "value_lines"]

Described = tuple[list[Line], dict[int, str]]
"""Lines, and which of them stands for which constant tensor."""

CANDIDATES = 8
"""So many names are shown of those that suit as inputs or outputs."""

BLOCKS = " ▁▂▃▄▅▆▇█"
SIGNS = {"error": ("✗ ", "bad"), "warning": ("! ", "warn"), "info": ("· ", "dim")}


def _pair(name: str, text: str, width: int, style: str = "") -> list[Line]:
    """A name and its text, wrapped behind it."""
    return _wrapped(f"{printable(name, 60):<11} ", "dim", text, style, width)


def model_lines(model: dict[str, Any], which: str, width: int) -> list[Line]:
    """The model as a whole: format, tensors, operators, findings."""
    before = (model.get("preflight") or {}) if which == "source" else {}
    package = model.get("kind") == "rknnop"
    lines: list[Line] = [
        [(printable(str(model.get("name") or model["path"].rsplit("/", 1)[-1]), 200), "head")],
        *_pair("format", str(model["format"]), width),
    ]
    if not package:
        lines += _sizes(model, which, width)
    if model.get("vendor"):
        title = "Operator" if package else "Compiled model"
        lines += [[], [(title, "head")], *_facts(model["vendor"], width)]
    for role in ("inputs", "outputs") if not package else ():
        lines += [[], [(role.capitalize(), "head")]]
        for value in model[role]:
            lines += _tensor(value, width)
            if told := port_text(value):
                lines += _wrapped("  ", "", told, "dim", width)
        lines += _candidates(before, model, role, width)
    if which == "source" and model.get("loaded") is False:
        lines += [[], *_wrapped("▸ ", "accent", _next_step(model), "", width)]
    lines += _findings(model.get("findings") or [], width)
    if model["operators"]:
        source_names = before and model.get("loaded") and model.get("kind") != "onnx"
        told = "Operators of the file" if source_names else "Operators"
        lines += [[], [(told, "head")], *_operators(model, before)]
    if before:
        lines += [[], [("File type", "head")], *_recognised(before, width)]
    return [*lines, [], *_pair("SHA-256", str(model.get("sha256", "")), width, "dim")]


def _sizes(model: dict[str, Any], which: str, width: int) -> list[Line]:
    """How much there is: of layers as the file has them, or nodes of the graph, and weights."""
    lines = [
        *_pair("graph", which, width),
        *_pair("layers" if which == "source" else "nodes", f"{model['nodes']:,}", width),
    ]
    if which == "source":
        size = human_bytes(model["weights_bytes"])
        lines += _pair("parameters", f"{model['parameters']:,} ({size})", width)
    return lines


def _next_step(model: dict[str, Any]) -> str:
    """What leads from the layers of the files to a graph."""
    needed = needed_option(model)
    if needed == "custom_ops":
        return with_keys(
            "Not loaded: see custom_ops ({model.option} opens it). "
            "{app.reload} asks again for permission to run its Python."
        )
    if needed:
        leads = f"{key_text('model.option')} opens it in Configure."
        return f"Not loaded: it needs {needed}. {leads}"
    if any(finding["severity"] == "error" for finding in model.get("findings") or ()):
        return "Cannot be loaded: see the findings. Layers as stored in the file."
    converts = f"{key_text('model.load')} converts."
    return f"Not converted: layers as stored in the file. {converts}"


def _recognised(before: dict[str, Any], width: int) -> list[Line]:
    """What the file was recognised as and why, its versions against what is read."""
    seen = before["recognised"]
    lines = _pair("detected as", f"{seen['format']}: {seen['why']}", width)
    if len(before["files"]) > 1:
        lines += _pair("files", ", ".join(before["files"]), width)
    for name, found, read in before["versions"]:
        lines += _pair(name, f"{found} ({read})" if read else found, width)
    for note in before["notes"]:
        lines += _wrapped("· ", "dim", note, "dim", width)
    return lines


def _candidates(before: dict[str, Any], model: dict[str, Any], role: str, width: int) -> list[Line]:
    """Names that suit where the file does not say which they are; none where it does."""
    names = (before.get("candidates") or {}).get(role) or []
    if set(names) <= {str(value["name"]) for value in model[role]}:
        return []
    shown = ", ".join(names[:CANDIDATES])
    more = f" and {len(names) - CANDIDATES} more" if len(names) > CANDIDATES else ""
    return _wrapped("? ", "accent", f"candidates: {shown}{more}", "dim", width)


def _operators(model: dict[str, Any], before: dict[str, Any]) -> list[Line]:
    operators = sorted(model["operators"].items(), key=lambda item: (-item[1], item[0]))
    refused = {op for op, _, why in before.get("operators", ()) if why}
    most = max((count for _, count in operators), default=1)
    lines: list[Line] = []
    for op, count in operators:
        bar = "█" * max(1, round(10 * count / most))
        sign = " ✗ refused" if op in refused else ""
        lines.append([(f"{fit(op, 22)}{count:>6,} ", ""), (bar, "accent"), (sign, "bad")])
    return lines


def _facts(facts: dict[str, Any], width: int) -> list[Line]:
    """What a vendor's file says of itself; nested facts stand below their name."""
    lines: list[Line] = []
    for depth, name, text in fact_rows(facts):
        title = f"{'  ' * depth}{name}"
        lines += _wrapped(f"{title:<13} ", "dim", text, "", width) if text else [[(title, "dim")]]
    return lines


def _tensor(value: dict[str, Any], width: int, sign: str = "") -> list[Line]:
    """A tensor in a line; where its name leaves no room, its sizes stand below."""
    name = printable(str(value["name"]), 200)
    shape = "?" if value["shape"] == [-1] else shape_text(value["shape"])
    sizes = f"{shape} {value['dtype']}"
    if cell_len(f"{sign}{name}{sizes}") + 2 <= width:
        return [[(sign, "accent"), (f"{name}  ", ""), (sizes, "dim")]]
    return [*_wrapped(sign, "accent", name, "", width), [(" " * len(sign) + "  " + sizes, "dim")]]


def _findings(findings: list[dict[str, Any]], width: int) -> list[Line]:
    lines: list[Line] = []
    for finding in findings:
        sign, style = SIGNS.get(str(finding.get("severity")), SIGNS["info"])
        lines += _wrapped(sign, style, str(finding["what"]), "", width)
        remedy = str(finding.get("remedy") or "").split("\n")
        if remedy[0]:
            lines += _wrapped("  → ", "dim", remedy[0], "dim", width)
        # lines of code stay lines, so that they can be copied
        lines += [[(printable(line, 600), "dim")] for line in remedy[1:]]
    return [[], [("Findings", "head")], *lines] if lines else []


def _wrapped(sign: str, sign_style: str, text: str, style: str, width: int) -> list[Line]:
    """A paragraph behind a sign."""
    rows = wrap(printable(text, 600), max(20, width - cell_len(sign))) or [""]
    return [
        [(sign if n == 0 else " " * len(sign), sign_style), (row, style)]
        for n, row in enumerate(rows)
    ]


def value_lines(kind: str, value: dict[str, Any], width: int) -> list[Line]:
    """A graph input or output."""
    return [
        *_wrapped("", "", str(value["name"]), "head", width),
        *_pair("kind", f"graph {kind}", width),
        *_pair("shape", "?" if value["shape"] == [-1] else shape_text(value["shape"]), width),
        *_pair("type", str(value["dtype"]), width),
    ]


def node_lines(detail: dict[str, Any], width: int) -> Described:
    """A node."""
    lines: list[Line] = [
        *_wrapped("", "", str(detail["name"]), "head", width),
        *_pair("operator", str(detail["op"]), width, "accent"),
    ]
    if detail.get("domain"):
        lines += _pair("domain", str(detail["domain"]), width)
    if detail["attributes"]:
        lines += [[], [("Attributes", "head")]]
        for name, text in detail["attributes"]:
            lines += _pair(str(name), str(text), width)
    constants: dict[int, str] = {}
    for role in ("inputs", "outputs"):
        lines += [[], [(role.capitalize(), "head")]]
        for value in detail[role]:
            if value.get("kind") == "constant":
                constants[len(lines)] = value["name"]
            sign = {"constant": "■ ", "input": "→ "}.get(str(value.get("kind")), "· ")
            lines += _tensor(value, width, sign)
            quant = value.get("quant")
            if quant:
                lines += _wrapped("    ", "", quant_text(quant), "dim", width)
    if detail.get("origin"):
        names = ", ".join(str(name) for name in detail["origin"])
        lines += [[], *_pair("merged from", names, width)]
    return lines, constants


def tensor_lines(data: dict[str, Any], width: int) -> list[Line]:
    """Statistics and histogram of a constant tensor."""
    lines: list[Line] = [
        [],
        *_wrapped("", "", f"Weights {data['name']}", "head", width),
        *_pair("shape", f"{shape_text(data['shape'])} {data['dtype']}", width),
        *_pair("values", f"{data['count']:,}, {data['zeros']:,} of them 0", width),
        *_pair("range", f"{_number(data['minimum'])} .. {_number(data['maximum'])}", width),
        *_pair("mean, std", f"{_number(data['mean'])}, {_number(data['std'])}", width),
    ]
    if not data.get("finite", True):
        lines.append([("✗ ", "bad"), ("contains values that are not finite", "")])
    channels = data.get("channels")
    if channels:
        spans = [
            abs(h - low) for low, h in zip(channels["minimum"], channels["maximum"], strict=True)
        ]
        narrow, widest = min(spans), max(spans)
        lines += _pair("channels", f"{len(spans)}, ranges {narrow:.3g} .. {widest:.3g}", width)
    bins = data.get("histogram")
    if bins and bins["counts"]:
        lines += histogram(bins["counts"], bins["low"], bins["high"], width)
    return lines


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.5g}"


def histogram(
    counts: list[int], low: float, high: float, width: int, height: int = 4
) -> list[Line]:
    """Bars of block characters, ``height`` lines high, over a line with the two ends."""
    width = max(1, min(width, len(counts)))
    shown = _rebin(counts, width)
    most = max(shown) or 1
    lines: list[Line] = []
    levels = [round(count / most * height * 8) or (1 if count else 0) for count in shown]
    for row in range(height - 1, -1, -1):
        text = "".join(BLOCKS[max(0, min(8, level - row * 8))] for level in levels)
        lines.append([(text, "accent")])
    left, right = f"{low:.4g}", f"{high:.4g}"
    lines.append([(left + " " * max(1, width - len(left) - len(right)) + right, "dim")])
    return lines


def _rebin(counts: list[int], width: int) -> list[int]:
    """Sums over ``width`` nearly equal runs of bins."""
    edges = [i * len(counts) // width for i in range(width + 1)]
    return [sum(counts[a:b]) for a, b in itertools.pairwise(edges)]
