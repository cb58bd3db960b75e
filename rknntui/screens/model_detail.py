"""What the detail pane says: lines of text from the worker's plain data."""

from __future__ import annotations

import itertools
import textwrap
from typing import Any

from engine import human_bytes, printable, shape_text
from rknntui.facts import fact_rows
from rknntui.widgets.paint import Line, fit

__all__ = ["histogram", "model_lines", "node_lines", "tensor_lines", "value_lines"]

CANDIDATES = 8
"""So many names are shown of those that suit as inputs or outputs."""

BLOCKS = " ▁▂▃▄▅▆▇█"
SIGNS = {"error": ("✗ ", "bad"), "warning": ("! ", "warn"), "info": ("· ", "dim")}


def _pair(name: str, text: str, style: str = "") -> Line:
    return [(f"{name:<11} ", "dim"), (printable(text, 400), style)]


def model_lines(model: dict[str, Any], which: str, width: int) -> list[Line]:
    """The model as a whole: format, tensors, operators, findings."""
    lines: list[Line] = [
        [(printable(str(model.get("name") or model["path"].rsplit("/", 1)[-1]), 200), "head")],
        _pair("format", str(model["format"])),
        _pair("graph", which),
        _pair("nodes", f"{model['nodes']:,}"),
    ]
    if which == "source":
        size = human_bytes(model["weights_bytes"])
        lines.append(_pair("parameters", f"{model['parameters']:,} ({size})"))
    before = (model.get("preflight") or {}) if which == "source" else {}
    if model.get("vendor"):
        lines += [[], [("Compiled model", "head")], *_facts(model["vendor"], width)]
    for role in ("inputs", "outputs"):
        lines += [[], [(role.capitalize(), "head")]]
        lines += [_tensor(value) for value in model[role]]
        lines += _candidates(before, role, width)
    if which == "source" and model.get("loaded") is False:
        told = "Not converted: the layers are shown as the files tell them. L converts."
        lines += [[], *_wrapped("▸ ", "accent", told, "", width)]
    lines += _findings(model.get("findings") or [], width)
    lines += [[], [("Operators", "head")], *_operators(model, before)]
    if before:
        lines += [[], [("Recognised", "head")], *_recognised(before, width)]
    lines += [[], [("SHA-256 ", "dim"), (str(model.get("sha256", "")), "dim")]]
    return lines


def _recognised(before: dict[str, Any], width: int) -> list[Line]:
    """What the file was recognised as and why, its versions against what is read."""
    seen = before["recognised"]
    lines = [_pair("as", str(seen["format"])), _pair("because", str(seen["why"]))]
    if len(before["files"]) > 1:
        lines.append(_pair("files", ", ".join(before["files"])))
    for name, found, read in before["versions"]:
        lines.append(_pair(name, f"{found} ({read})" if read else found))
    for note in before["notes"]:
        lines += _wrapped("· ", "dim", note, "dim", width)
    return lines


def _candidates(before: dict[str, Any], role: str, width: int) -> list[Line]:
    names = (before.get("candidates") or {}).get(role) or []
    if not names:
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


def _tensor(value: dict[str, Any]) -> Line:
    return [
        (f"{printable(str(value['name']), 200)}  ", ""),
        (f"{shape_text(value['shape'])} {value['dtype']}", "dim"),
    ]


def _findings(findings: list[dict[str, Any]], width: int) -> list[Line]:
    lines: list[Line] = []
    for finding in findings:
        sign, style = SIGNS.get(str(finding.get("severity")), SIGNS["info"])
        lines += _wrapped(sign, style, str(finding["what"]), "", width)
        if finding.get("remedy"):
            lines += _wrapped("  → ", "dim", str(finding["remedy"]), "dim", width)
    return [[], [("Findings", "head")], *lines] if lines else []


def _wrapped(sign: str, sign_style: str, text: str, style: str, width: int) -> list[Line]:
    """A paragraph behind a sign."""
    rows = textwrap.wrap(printable(text, 600), max(20, width - len(sign))) or [""]
    return [
        [(sign if n == 0 else " " * len(sign), sign_style), (row, style)]
        for n, row in enumerate(rows)
    ]


def value_lines(kind: str, value: dict[str, Any]) -> list[Line]:
    """A graph input or output."""
    return [
        [(printable(str(value["name"]), 200), "head")],
        _pair("kind", f"graph {kind}"),
        _pair("shape", shape_text(value["shape"])),
        _pair("type", str(value["dtype"])),
    ]


def node_lines(detail: dict[str, Any]) -> tuple[list[Line], dict[int, str]]:
    """A node, and which of the lines stands for which constant tensor."""
    lines: list[Line] = [
        [(printable(str(detail["name"]), 300), "head")],
        _pair("operator", str(detail["op"]), "accent"),
    ]
    if detail.get("domain"):
        lines.append(_pair("domain", str(detail["domain"])))
    if detail["attributes"]:
        lines += [[], [("Attributes", "head")]]
        lines += [_pair(printable(str(name), 60), str(text)) for name, text in detail["attributes"]]
    constants: dict[int, str] = {}
    for role in ("inputs", "outputs"):
        lines += [[], [(role.capitalize(), "head")]]
        for value in detail[role]:
            if value.get("kind") == "constant":
                constants[len(lines)] = value["name"]
            sign = {"constant": "■ ", "input": "→ "}.get(str(value.get("kind")), "· ")
            lines.append([(sign, "accent"), *_tensor(value)])
            quant = value.get("quant")
            if quant:
                lines.append([("    ", ""), (_quant(quant), "dim")])
    if detail.get("origin"):
        names = ", ".join(str(name) for name in detail["origin"])
        lines += [[], _pair("made from", names)]
    return lines, constants


def _quant(quant: dict[str, Any]) -> str:
    scale, zero = quant["scale"], quant["zero_point"]
    if len(scale) == 1:
        return f"{quant['dtype']} scale {scale[0]:.6g} zero {zero[0]}"
    return f"{quant['dtype']} {len(scale)} scales {min(scale):.4g}..{max(scale):.4g}"


def tensor_lines(data: dict[str, Any], width: int) -> list[Line]:
    """Statistics and histogram of a constant tensor."""
    lines: list[Line] = [
        [],
        [(f"Weights {printable(str(data['name']), 200)}", "head")],
        _pair("shape", f"{shape_text(data['shape'])} {data['dtype']}"),
        _pair("values", f"{data['count']:,}, {data['zeros']:,} of them 0"),
        _pair("range", f"{_number(data['minimum'])} .. {_number(data['maximum'])}"),
        _pair("mean, std", f"{_number(data['mean'])}, {_number(data['std'])}"),
    ]
    if not data.get("finite", True):
        lines.append([("✗ ", "bad"), ("holds values that are not finite", "")])
    channels = data.get("channels")
    if channels:
        spans = [
            abs(h - low) for low, h in zip(channels["minimum"], channels["maximum"], strict=True)
        ]
        narrow, widest = min(spans), max(spans)
        lines.append(_pair("channels", f"{len(spans)}, ranges {narrow:.3g} .. {widest:.3g}"))
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
