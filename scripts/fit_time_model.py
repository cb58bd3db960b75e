"""Fit the time model of generation 2 to the published frame rates, and write its data files.

    python scripts/fit_time_model.py --facts FACTS --shapes SHAPES [--check]

``FACTS`` holds ``published_rates.csv``, ``SHAPES`` the graphs named there (``published/``). Every
graph goes through the engine's own lowering. Writes ``parameters.csv``, ``intervals.csv`` and
``operators.csv`` of ``engine/cost/timing`` and prints the report of docs/estimates/derivation.md.

Robust regression: log(predicted / published) has a Student t distribution (a few graphs are not
quite what was published), every parameter is positive with a prior on its logarithm. The number of
effective parameters is the trace of the hat matrix with these priors.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.cost.cycles import all_cycles
from engine.cost.lowering import lower, read_graph
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.timing.form import FITTED, Columns, columns_of, layer_terms, speeds_of
from engine.cost.timing.model import less_known, operator_name, stratum_of, widening
from engine.cost.timing.work import LayerWork, layer_work
from engine.facts.npu import npu_profile
from engine.frontends.load import find_source, load_source

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Row = tuple[str, str]
"""A graph and a chip."""

SCALE = 0.033
"""Of a residual of the bulk: about 3 %."""
FREEDOM = 2.0
"""Degrees of freedom of the t distribution: a row that is off by half hardly pulls."""


@dataclass(frozen=True)
class Prior:
    """Of a parameter: expected value, standard deviation of its logarithm, reason."""

    name: str
    value: float
    spread: float
    unit: str
    source: str


def priors() -> tuple[Prior, ...]:
    """All parameters of the model, in the order of the data file."""
    parameters: list[Prior] = []
    why = "of the clock that the vendor's benchmark script sets (rk3566: the compiler's 900 MHz)"
    parameters.append(Prior("clock", 1.0, 0.03, "GHz", why))
    peaks = {"rk3562": 12.5, "rk3566": 8.4, "rk3576": 16.9, "rk3588": 33.8}
    parameters += [
        Prior(
            f"bandwidth.{chip}",
            0.6 * peak,
            0.4,
            "GB/s",
            "0.6 of the peak of its memory at the benchmark's clock",
        )
        for chip, peak in peaks.items()
    ]
    parameters += [
        Prior(f"weights.{chip}", 1.0, 0.25, "of bandwidth", "weights and features: one bus")
        for chip in FITTED
    ]
    why = "so many cycles for an element in the output stage: one, or two elements in a cycle"
    parameters += [
        Prior("lookup.512", 1.0, 0.5, "cycles an element", why),
        Prior("lookup.rk3576", 0.5, 0.5, "cycles an element", why),
        Prior("lookup.rk3588", 0.5, 0.5, "cycles an element", why),
    ]
    shared: tuple[tuple[str, float, float, str, str], ...] = (
        ("activation.leaky", 0.5, 0.4, "of SiLU", "a product, no table"),
        ("activation.hardswish", 2.0, 0.5, "of SiLU", "a table and a product, in two passes"),
        ("activation.add", 0.7, 0.5, "of SiLU", "a second operand is fetched for each element"),
        ("vector", 2.0, 0.7, "cycles", "the accumulator hands each vector of outputs on"),
        ("depthwise", 1.2, 0.2, "of printed cycles", "few channels a cycle, poor reuse"),
        ("strided", 1.2, 0.2, "of printed cycles", "rows that are skipped are read all the same"),
        ("copy", 1.2, 0.3, "of bytes", "short bursts of memory"),
        ("elementwise", 1.6, 0.4, "of bytes", "two streams at once, no reuse"),
        ("pool", 2.0, 0.5, "of bytes", "windows overlap and are read again"),
        ("head", 30.0, 0.7, "us", "an attention head is four tasks"),
        ("score", 5.0, 0.5, "lookups", "exp, sum, reciprocal and product for each score"),
        ("task", 8.0, 0.5, "us", "registers of a task are loaded, an interrupt ends it"),
        ("cpu_start", 30.0, 0.5, "us", "caches are flushed, a thread wakes up"),
        ("cpu_softmax", 20.0, 0.7, "ns an element", "an exponential in float32"),
        ("cpu_reduce", 10.0, 0.7, "ns a byte read", "a scalar loop over a strided layout"),
        ("cpu_transpose", 6.0, 0.7, "ns a byte", "a scalar loop with strided accesses"),
        ("cpu_reshape", 1.2, 0.3, "ns a byte", "rows are copied in their order"),
        ("cpu_other", 3.0, 0.5, "ns a byte", "a copy between layouts"),
    )
    parameters += [Prior(*row) for row in shared]
    parameters.append(
        Prior(
            "average.rk3566",
            2.0,
            1.0,
            "cycles an element",
            "an average pool adds the elements of its windows up one by one",
        )
    )
    speeds = {"rk3562": 1.1, "rk3566": 1.2, "rk3576": 0.45, "rk3588": 0.3}
    for chip in FITTED:
        parameters.append(
            Prior(
                f"cpu.{chip}",
                speeds[chip],
                0.15,
                "of a Cortex-A53 at 2 GHz",
                "its cores by kind and clock: A53, A55, A72, A76",
            )
        )
    return tuple(parameters)


@dataclass(frozen=True)
class Data:
    """All rows, grouped by chip; the order of ``rows`` is that of every vector of rows."""

    rows: tuple[Row, ...]
    published: Floats
    columns: tuple[tuple[str, Columns, npt.NDArray[np.int64]], ...]
    works: dict[Row, tuple[LayerWork, ...]]


def gather(works: dict[Row, tuple[LayerWork, ...]], rates: dict[Row, float]) -> Data:
    """Put the layers of all networks on a chip behind each other."""
    rows: list[Row] = []
    columns = []
    for chip in FITTED:
        mine = [row for row in works if row[1] == chip]
        starts = np.cumsum([0, *(len(works[row]) for row in mine)])[:-1]
        columns.append((chip, columns_of([layer for row in mine for layer in works[row]]), starts))
        rows += mine
    published = np.array([1000 / rates[row] for row in rows])
    return Data(tuple(rows), published, tuple(columns), works)


class Fit:
    """Parameters that explain the published times, as logarithms."""

    def __init__(self, data: Data, known: Sequence[Prior]) -> None:
        self.data = data
        self.names = [prior.name for prior in known]
        self._mean = np.log([prior.value for prior in known])
        self._spread = np.array([prior.spread for prior in known])
        self._target = np.log(data.published)
        self.effective = 0.0
        self.spread = self._spread

    def predict(self, point: Floats) -> Floats:
        """Logarithm of milliseconds of each row."""
        fitted = dict(zip(self.names, np.exp(point).tolist(), strict=True))
        parts = []
        for chip, columns, starts in self.data.columns:
            total = layer_terms(columns, speeds_of(fitted, chip)).total
            parts.append(np.add.reduceat(total, starts))
        return np.asarray(np.log(np.concatenate(parts)), dtype=np.float64)

    def _slopes(self, point: Floats, at: Floats) -> Floats:
        step = 1e-4
        slopes = np.empty((len(at), len(point)))
        for index in range(len(point)):
            moved = point.copy()
            moved[index] += step
            slopes[:, index] = (self.predict(moved) - at) / step
        return slopes

    def _loss(self, at: Floats, point: Floats, used: Flags) -> float:
        residual = ((at - self._target) / SCALE)[used]
        fit = 0.5 * (FREEDOM + 1) * np.log1p(residual**2 / FREEDOM).sum()
        return float(fit + 0.5 * (((point - self._mean) / self._spread) ** 2).sum())

    def run(self, used: Flags, start: Floats | None = None, rounds: int = 40) -> Floats:
        """Levenberg-Marquardt with reweighted residuals, from the priors or ``start``."""
        point = self._mean.copy() if start is None else start.copy()
        damping = 1e-3
        at = self.predict(point)
        loss = self._loss(at, point, used)
        precision = 1 / self._spread**2
        for _ in range(rounds):
            slopes = self._slopes(point, at) / SCALE
            residual = (at - self._target) / SCALE
            weight = used * (FREEDOM + 1) / (FREEDOM + residual**2)
            informed = (slopes * weight[:, None]).T @ slopes
            whole = informed + np.diag(precision)
            slope = slopes.T @ (weight * residual) + (point - self._mean) * precision
            self.effective = float(np.trace(np.linalg.solve(whole, informed)))
            self.spread = np.sqrt(np.diag(np.linalg.inv(whole)))
            better = False
            for _ in range(8):
                step = -np.linalg.solve(whole + damping * np.diag(np.diag(whole)), slope)
                moved = point + np.clip(step, -0.5, 0.5)
                there = self.predict(moved)
                now = self._loss(there, moved, used)
                if now < loss:
                    better = True
                    break
                damping = max(damping * 5, 1e-4)
            if not better:
                break
            gain = loss - now
            point, at, loss = moved, there, now
            damping = max(damping / 5, 1e-7)
            if gain < 1e-3:
                break
        return point

    def leave_out(self, groups: Iterable[frozenset[str]], whole: Floats) -> dict[Row, float]:
        """Logarithm of predicted over published of each row, fitted without its group."""
        errors = {}
        for group in groups:
            out = np.array([row[0] in group for row in self.data.rows])
            at = self.predict(self.run(~out, whole, 6))
            for index in np.flatnonzero(out):
                errors[self.data.rows[index]] = float(at[index] - self._target[index])
        return errors


FAMILIES: tuple[tuple[str, ...], ...] = (
    ("-seg",),
    ("yolov5",),
    ("yolov6",),
    ("yolov7",),
    ("yolov8",),
    ("yolov10", "yolo11"),
    ("yolox",),
    ("ppyoloe",),
    ("yolo_world",),
    ("mobilenetv2", "resnet50"),
    ("clip", "lite-", "mobilesam"),
    ("ppocr", "lprnet"),
    ("ppseg",),
    ("RetinaFace",),
)
"""Networks of one kind, by parts of their names: left out together they say more of networks
never seen, and intervals are made of these errors."""

YOLO = ("yolo",)


def is_yolo(graph: str) -> bool:
    """Whether a network is of the YOLO kind."""
    return "yolo" in graph.lower()


def quantiles(errors: Iterable[float]) -> str:
    """Median, 90 % and worst of the absolute relative errors, in per cent."""
    sizes = np.abs(np.expm1(np.array(list(errors)))) * 100
    over = int((sizes > 10).sum())
    return (
        f"{np.median(sizes):.1f} / {np.quantile(sizes, 0.9):.1f} / {sizes.max():.0f}"
        f" ({len(sizes)} rows, {over} beyond 10 %)"
    )


def summary(errors: dict[Row, float]) -> str:
    """One line for all rows, those of the YOLO kind and the others."""
    yolo = [error for row, error in errors.items() if is_yolo(row[0])]
    others = [error for row, error in errors.items() if not is_yolo(row[0])]
    parts = [f"all {quantiles(errors.values())}"]
    parts += [f"YOLO {quantiles(yolo)}"] if yolo else []
    parts += [f"others {quantiles(others)}"] if others else []
    return "; ".join(parts)


def read_rates(path: Path) -> dict[Row, tuple[float, str]]:
    """Frames a second and dtype of each graph and fitted chip; models without a graph cannot be
    used, and of RK3566 and RK3568, which share a figure, one counts.
    """
    with path.open(encoding="utf-8", newline="") as stream:
        return {
            (row["graph"].removesuffix(".onnx"), row["chip"]): (float(row["fps"]), row["dtype"])
            for row in csv.DictReader(stream)
            if row["graph"] and row["chip"] in FITTED and row["unit"] == "fps"
        }


def lowered_works(
    shapes: Path, rates: dict[Row, tuple[float, str]]
) -> dict[Row, tuple[LayerWork, ...]]:
    """The layers of every graph on every chip, through the engine's own lowering."""
    works: dict[Row, tuple[LayerWork, ...]] = {}
    graphs: dict[str, LoweringGraph] = {}
    for (graph, chip), (_, printed) in rates.items():
        npu = npu_profile(chip)
        if npu is None:
            raise SystemExit(f"no compiler facts of {chip}")
        if graph not in graphs:
            source = find_source(shapes / "published" / f"{graph}.onnx")
            graphs[graph] = read_graph(load_source(source).graph)
        lowered = lower(graphs[graph], npu, "float16" if printed == "fp16" else "int8")
        cycles = [layer.npu for layer in all_cycles(lowered, npu)]
        works[graph, chip] = layer_work(lowered, npu, cycles)
    return works


def networks_of(works: dict[Row, tuple[LayerWork, ...]]) -> dict[str, set[str]]:
    """Operator -> networks that have it on any chip."""
    nets: dict[str, set[str]] = defaultdict(set)
    for (graph, _), layers in works.items():
        for work in layers:
            if work.part != "nothing":
                nets[operator_name(work)].add(graph)
    return nets


UNSEEN = {"convolution": 2.0, "mixed": 2.75}
"""Factor of the half width. Networks that nobody had looked at were predicted with 1.4 times the
median error and twice the 90 % figure of the networks left out (facts, time_model.md). Of a
reviewer's rows 86 % were inside when the width of ``mixed`` was 0.336: what made the rows left out
better since then says little of others, so that width stays."""
COVERAGE = 0.93
"""Of the rows left out by family that an interval must hold, so that it holds nine in ten networks
that were never seen: those are off by more than the ones that shaped the form."""


@dataclass(frozen=True)
class Miss:
    """A left out row: its absolute error, and what widens its interval."""

    stratum: str
    size: float
    widening: float


def misses(fit: Fit, whole: Floats, errors: dict[Row, float]) -> dict[Row, Miss]:
    """Of every row; operators are counted in the other networks only."""
    fitted = dict(zip(fit.names, np.exp(whole).tolist(), strict=True))
    nets = networks_of(fit.data.works)
    miss_of = {}
    for row, error in errors.items():
        works = fit.data.works[row]
        times = layer_terms(columns_of(works), speeds_of(fitted, row[1])).total.tolist()
        seen = {name: len(graphs - {row[0]}) for name, graphs in nets.items()}
        cpu, rare = less_known(works, times, seen)
        miss_of[row] = Miss(stratum_of(works, rare), abs(error), widening(cpu, rare))
    return miss_of


def widths(all_misses: Iterable[Miss]) -> dict[str, float]:
    """Half width of each stratum: a conformal quantile of its left out rows."""
    strata: dict[str, list[float]] = defaultdict(list)
    for miss in all_misses:
        strata[miss.stratum].append(miss.size / miss.widening)
    half_widths = {}
    for name, sizes in sorted(strata.items()):
        rank = min(len(sizes), int(np.ceil((len(sizes) + 1) * COVERAGE)))
        half_widths[name] = sorted(sizes)[rank - 1] * UNSEEN[name]
    return half_widths


def covered(
    calibrating: dict[Row, Miss], judged: dict[Row, Miss] | None = None
) -> dict[str, float]:
    """Share of rows inside an interval that their own network had no part in.

    Args:
        found: errors that intervals are made of.
        judged: errors that are to be inside, the same where None.
    """
    hits: dict[str, list[bool]] = defaultdict(list)
    for row, miss in (judged or calibrating).items():
        others = widths(other for key, other in calibrating.items() if key[0] != row[0])
        inside = miss.size <= others[miss.stratum] * miss.widening
        hits["YOLO" if is_yolo(row[0]) else "others"].append(inside)
        hits[miss.stratum].append(inside)
    return {name: float(np.mean(inside)) for name, inside in hits.items()}


def table(path: Path, rows: Sequence[dict[str, object]]) -> None:
    """Write a data file of the package."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write(
    folder: Path, fit: Fit, whole: Floats, known: Sequence[Prior], errors: dict[Row, float]
) -> None:
    """The data files of the package."""
    table(
        folder / "parameters.csv",
        [
            {
                "name": prior.name,
                "value": f"{np.exp(value):.5g}",
                "spread": f"{spread:.3f}",
                "prior": f"{prior.value:g}",
                "prior_spread": f"{prior.spread:g}",
                "unit": prior.unit,
                "source": prior.source,
            }
            for prior, value, spread in zip(known, whole, fit.spread, strict=True)
        ],
    )
    table(
        folder / "intervals.csv",
        [
            {"stratum": name, "half_width": f"{width:.3f}"}
            for name, width in widths(misses(fit, whole, errors).values()).items()
        ],
    )
    table(
        folder / "operators.csv",
        [
            {"operator": name, "networks": len(graphs)}
            for name, graphs in sorted(networks_of(fit.data.works).items())
        ],
    )


def groups_of(data: Data, *, families: bool = False) -> list[frozenset[str]]:
    """Networks that are left out together: each alone, or by family."""
    names = list(dict.fromkeys(row[0] for row in data.rows))
    if not families:
        return [frozenset({name}) for name in names]
    return [
        frozenset(name for name in names if any(part in name for part in family))
        for family in FAMILIES
    ]


def report(errors: dict[Row, float]) -> None:
    """Each network's errors on the chips, the worst first."""
    names = dict.fromkeys(row[0] for row in errors)
    worst = {name: max(abs(errors.get((name, c), 0.0)) for c in FITTED) for name in names}
    for name in sorted(names, key=lambda net: -worst[net]):
        cells = [f"{np.expm1(errors.get((name, c), np.nan)) * 100:+6.1f}" for c in FITTED]
        print(f"{name:28s} {' '.join(cells)}")


def main() -> None:
    """Fit, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=Path, required=True)
    parser.add_argument("--shapes", type=Path, required=True)
    parser.add_argument("--check", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    rates = read_rates(arguments.facts / "published_rates.csv")
    works = lowered_works(arguments.shapes, rates)
    data = gather(works, {row: rate for row, (rate, _) in rates.items()})
    known = priors()
    fit = Fit(data, known)
    whole = fit.run(np.ones(len(data.rows), dtype=np.bool_))
    effective, spread = fit.effective, fit.spread
    print(f"{len(data.rows)} rows, {len(known)} parameters, {effective:.1f} effective")
    at = fit.predict(whole)
    target = np.log(data.published)
    print("in sample:", summary(dict(zip(data.rows, (at - target).tolist(), strict=True))))
    errors = fit.leave_out(groups_of(data), whole)
    fit.spread = spread
    print("leave one out:", summary(errors))
    report(errors)
    strange = fit.leave_out(groups_of(data, families=True), whole)
    print("leave a family out:", summary(strange))
    family_misses = misses(fit, whole, strange)
    print(
        "half widths:",
        {name: round(width, 3) for name, width in widths(family_misses.values()).items()},
    )
    print("covered:", {name: round(share, 3) for name, share in covered(family_misses).items()})
    inside = covered(family_misses, misses(fit, whole, errors))
    print("covered, left out alone:", {name: round(share, 3) for name, share in inside.items()})
    if not arguments.check:
        folder = Path(__file__).resolve().parents[1] / "engine" / "cost" / "timing"
        write(folder, fit, whole, known, strange)


if __name__ == "__main__":
    main()
