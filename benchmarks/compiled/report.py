"""The tables of `python -m benchmarks.compiled`, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from benchmarks.clock import Figures

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
    rows = [f"| {' | '.join(str(cell) for cell in line)} |" for line in lines]
    if not rows:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *rows])


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
    by_model: dict[str, dict[str, list[float]]] = {}
    for who in ("theirs", "ours"):
        for row in _of(rows, who):
            name, algorithm = row["of"]
            by_model.setdefault(name, {})[f"{who} {algorithm}"] = row["sqnr"]
    columns = [f"theirs {a}" for a in ("normal", "kl_divergence", "mmse")]
    columns += ["ours normal", "ours accurate"]
    lines: list[list[str]] = []
    for name, by in by_model.items():
        lines.append([name, *("; ".join(f"{x:.2f}" for x in by.get(c, [])) for c in columns)])
    notes = []
    for column in ("ours normal", "ours accurate"):
        for other in columns[:3]:
            gains = [
                statistics.mean(one - two for one, two in zip(by[column], by[other], strict=True))
                for by in by_model.values()
                if column in by and other in by
            ]
            if gains:
                notes.append(
                    f"{column} against {other}, mean over the outputs of a model: median over "
                    f"{len(gains)} models {statistics.median(gains):+.2f} dB"
                )
    return "\n\n".join([_table(("model", *columns), lines), *notes]) if lines else ""
