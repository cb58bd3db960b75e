"""Tables of a run, in Markdown; the standard library only."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.clock import Figures


class _Figures:
    """Medians over the turns."""

    def __init__(self, rows: Sequence[Figures]) -> None:
        self._rows = [row for row in rows if "failed" not in row]
        self.models = list(dict.fromkeys(row["model"] for row in self._rows))
        whole = [row["stages"] for row in self._rows if row["what"] == "normal" and "stages" in row]
        self.stages = list(dict.fromkeys(stage for stages in whole for stage in stages))

    def rows(self, model: str, who: str, what: str) -> list[Figures]:
        key = {"model": model, "who": who, "what": what}
        return [row for row in self._rows if key.items() <= row.items()]

    def get(self, model: str, who: str, what: str, name: str) -> float | None:
        values = [row[name] for row in self.rows(model, who, what) if name in row]
        return statistics.median(values) if values else None

    def stage(self, model: str, what: str, stage: str, name: str) -> float | None:
        recorded = [row["stages"] for row in self.rows(model, "ours", what) if "stages" in row]
        values = [stages[stage][name] for stages in recorded if stage in stages]
        return statistics.median(values) if values else None

    def without_evaluation(self, model: str, what: str) -> float | None:
        whole = self.get(model, "ours", what, "all_cpu_s")
        spent = self.stage(model, what, "evaluate", "cpu_s")
        return None if whole is None or spent is None else whole - spent


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _ratio(ours: float | None, theirs: float | None) -> str:
    return "-" if ours is None or not theirs else f"{ours / theirs:.2f}"


def _share(ours: float | None, theirs: float | None) -> str:
    return "-" if not ours or theirs is None else f"1/{theirs / ours:.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _builds(figures: _Figures) -> str:
    head = (
        "model", "algorithm", "vendor CPU s", "ours", "ratio", "without evaluation", "ratio",
        "onnxruntime", "vendor MB", "ours", "ratio",
    )  # fmt: skip
    rows = []
    for model in figures.models:
        for what in ("normal", "kl_divergence"):
            theirs = figures.get(model, "vendor", what, "all_cpu_s")
            ours = figures.get(model, "ours", what, "all_cpu_s")
            short = figures.without_evaluation(model, what)
            peer = figures.get(model, "ort", "minmax", "all_cpu_s") if what == "normal" else None
            memory = [
                figures.get(model, who, what, "largest_process_mb") for who in ("vendor", "ours")
            ]
            rows.append(
                (
                    model, what, _number(theirs), _number(ours), _ratio(ours, theirs),
                    _number(short), _ratio(short, theirs), _number(peer),
                    _number(memory[0], 0), _number(memory[1], 0), _ratio(memory[1], memory[0]),
                )
            )  # fmt: skip
    return _table(head, rows)


def _stages(figures: _Figures) -> str:
    head = ("model", "algorithm", *figures.stages, "floats alone", "calibrate / floats", "wall s")
    rows = []
    for model in figures.models:
        floats = figures.get(model, "ours", "floats", "float_cpu_s")
        again = figures.get(model, "ours", "floats", "calibrate_cpu_s")
        for what in ("normal", "kl_divergence", "mmse", "accurate"):
            if not figures.rows(model, "ours", what):
                continue
            normal = what == "normal"
            rows.append(
                (
                    model, what,
                    *(_number(figures.stage(model, what, s, "cpu_s"), 2) for s in figures.stages),
                    _number(floats, 2) if normal else "",
                    _ratio(again, floats) if normal else "",
                    _number(figures.get(model, "ours", what, "all_wall_s")),
                )
            )  # fmt: skip
    return _table(head, rows)


def _slow(figures: _Figures) -> str:
    head = (
        "model", "samples", "vendor `mmse` CPU s", "our `mmse`", "share", "our `accurate`",
        "share", "vendor MB", "`mmse` MB", "`accurate` MB",
    )  # fmt: skip
    rows = []
    for model in figures.models:
        theirs = figures.get(model, "vendor", "mmse", "all_cpu_s")
        mmse, accurate = (figures.without_evaluation(model, w) for w in ("mmse", "accurate"))
        if mmse is None and accurate is None:
            continue
        samples = figures.rows(model, "ours", "mmse")[0]["samples"]
        memory = [
            figures.get(model, who, what, "largest_process_mb")
            for who, what in (("vendor", "mmse"), ("ours", "mmse"), ("ours", "accurate"))
        ]
        rows.append(
            (
                model, str(samples), _number(theirs), _number(mmse), _share(mmse, theirs),
                _number(accurate), _share(accurate, theirs), *(_number(m, 0) for m in memory),
            )
        )  # fmt: skip
    return _table(head, rows)


def _hybrid(figures: _Figures) -> str:
    head = ("model", "vendor's proposal CPU s", "ours", "ratio", "vendor MB", "ours",
            "`propose` CPU s", "search: wall s a layer", "CPU s a layer")  # fmt: skip
    rows = []
    for model in figures.models:
        pair = [figures.get(model, who, "proposal", "all_cpu_s") for who in ("vendor", "ours")]
        memory = [
            figures.get(model, who, "proposal", "largest_process_mb") for who in ("vendor", "ours")
        ]
        layers = [len(row["layers"]) for row in figures.rows(model, "ours", "search")]
        count = layers[0] if layers else 0
        each = [
            None if not count or value is None else value / count
            for value in (
                figures.stage(model, "search", "search", "wall_s"),
                figures.stage(model, "search", "search", "cpu_s"),
            )
        ]
        rows.append(
            (
                model, _number(pair[0]), _number(pair[1]), _ratio(pair[1], pair[0]),
                _number(memory[0], 0), _number(memory[1], 0),
                _number(figures.get(model, "ours", "propose", "all_cpu_s")),
                _number(each[0]), _number(each[1]),
            )
        )  # fmt: skip
    return _table(head, rows)


def report(rows: Sequence[Figures]) -> str:
    """The tables, and what failed."""
    figures = _Figures(rows)
    parts = [
        "Build\n", _builds(figures), "\nStages, CPU s\n", _stages(figures),
        "\n`mmse` and `accurate`, without evaluation\n", _slow(figures),
        "\nHybrid\n", _hybrid(figures),
    ]  # fmt: skip
    parts.extend(
        f"\n{row['who']} {row['what']} {row['model']}: {row['failed']}"
        for row in rows
        if "failed" in row
    )
    return "\n".join(parts)
