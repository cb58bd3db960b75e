"""The tables of `python -m benchmarks.compiled`, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from benchmarks.clock import Figures

__all__ = ["report"]

Rows = Sequence[Figures]


def report(rows: Rows) -> str:
    """All tables of what was measured."""
    parts = [_convolutions(rows), _plan(rows), _agreement(rows), _quantizers(rows)]
    failed = [
        f"{row['table']} {' '.join(row['of'])}: {row['failed']}" for row in rows if "failed" in row
    ]
    return "\n\n".join(part for part in (*parts, *failed) if part)


def _of(rows: Rows, table: str) -> list[Figures]:
    return [row for row in rows if row["table"] == table and "failed" not in row]


def _table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    found = [f"| {' | '.join(str(cell) for cell in line)} |" for line in lines]
    if not found:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *found])


def _convolutions(rows: Rows) -> str:
    lines = []
    for row in _of(rows, "convolutions"):
        others = ", ".join(row["others"]) or "none"
        lines.append([*row["of"], row["layers"], row["convolutions"], others])
    head = ("model", "algorithm", "chip", "layers", "convolutions", "not INT8 on the NPU")
    return _table(head, lines)


def _plan(rows: Rows) -> str:
    lines = []
    for row in _of(rows, "convolutions"):
        if row["of"][1] != "normal":
            continue
        plan = row["plan"]
        sums = [_pair(plan[key]) for key in ("npu", "total", "internal", "weights")]
        lines.append([row["of"][0], row["of"][2], *sums, f"{plan['equal']} of {plan['layers'][0]}"])
    head = ("model", "chip", "NPU cycles", "total cycles", "internal", "weights", "layers equal")
    return _table(head, lines)


def _pair(pair: Sequence[int]) -> str:
    printed, ours = pair
    if printed == ours:
        return f"{printed:,}"
    return f"{printed:,}; ours {100 * (ours - printed) / max(printed, 1):+.1f} %"


def _agreement(rows: Rows) -> str:
    lines = []
    for row in _of(rows, "agreement"):
        cosines = [
            "; ".join(f"{one['cosine']:.6f}" for one in row["whole"][level])
            for level in sorted(row["whole"], key=str)
        ]
        layers = f"{row['unequal']} of {row['values']:,}"
        lines.append([*row["of"], row["layers"], layers, row["largest"], *cosines])
    head = ("model", "algorithm", "layers", "unequal", "largest", "cosine, level 2", "level 3")
    return _table(head, lines)


def _quantizers(rows: Rows) -> str:
    found: dict[str, dict[str, list[float]]] = {}
    for who in ("theirs", "ours"):
        for row in _of(rows, who):
            name, algorithm = row["of"]
            found.setdefault(name, {})[f"{who} {algorithm}"] = row["sqnr"]
    columns = [f"theirs {a}" for a in ("normal", "kl_divergence", "mmse")]
    columns += ["ours normal", "ours accurate"]
    lines: list[list[str]] = []
    gains: dict[str, list[float]] = {"ours normal": [], "ours accurate": []}
    for name, by in found.items():
        lines.append([name, *("; ".join(f"{x:.2f}" for x in by.get(c, [])) for c in columns)])
        for column, gain in gains.items():
            if column in by and columns[0] in by:
                pairs = zip(by[column], by[columns[0]], strict=True)
                gain.append(statistics.mean(one - other for one, other in pairs))
    table = _table(("model", *columns), lines)
    notes = [
        f"{column} against theirs normal, mean over the outputs of a model: median over "
        f"{len(gain)} models {statistics.median(gain):+.2f} dB"
        for column, gain in gains.items()
        if gain
    ]
    return "\n\n".join(part for part in (table, *notes) if part)
