"""Fit the time model of generation 1 to the published frame rates, and say how good it is.

    python scripts/fit_time_model_gen1.py ZOO RATES [--write]

ZOO is the folder with ``shapes/published``, RATES the table of published rates
(``published_rates.csv``). Every row of RK1808, RV1109 and RV1126 is in the fit; none is dropped.
With ``--write`` the parameters and the widths of the intervals go into the package.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.cost.generation1 import timing
from engine.cost.generation1.lowering import Work, all_works, lower_generation1
from engine.cost.lowering.read import read_graph
from engine.frontends.load import find_source, load_source

PACKAGE = Path(timing.__file__).parent

# name, designs that have one each (or both), value to start from, spread of the prior (in ln),
# unit, reason. The priors say what is physically likely; they decide only where few networks
# tell more.
PRIORS: tuple[tuple[str, str, float, float, str, str], ...] = (
    ("use_1x1", "both", 0.25, 0.7, "of the peak", "1x1 convolutions reuse no pixel"),
    ("use", "both", 0.4, 0.7, "of the peak", "3x3 convolutions use the array best (manual)"),
    ("bandwidth", "rk1808", 4.0, 0.5, "GB/s", "below the 7.4 GB/s of the memory unless cached"),
    ("bandwidth", "rv1126", 4.0, 0.5, "GB/s", "below the 7.4 GB/s of the memory unless cached"),
    ("start", "both", 8000.0, 0.7, "cycles", "start of a layer; 4 to 6 us in the manual's table"),
    ("depthwise_channel", "rk1808", 100.0, 1.0, "cycles", "fixed cost of a channel (manual)"),
    ("depthwise_channel", "rv1126", 100.0, 1.0, "cycles", "fixed cost of a channel (manual)"),
    ("depthwise_macs", "both", 20.0, 0.7, "MAC per cycle", "11 to 30 in the manual's table"),
    ("lookup", "rk1808", 0.3, 0.7, "cycles per element", "SiLU: table lookup and multiplication"),
    ("lookup", "rv1126", 0.3, 0.7, "cycles per element", "SiLU: table lookup and multiplication"),
    ("leaky", "both", 0.7, 0.4, "of SiLU", "one pass less than SiLU"),
    ("hard_swish", "both", 4.0, 0.5, "of SiLU", "not an operator of its own: several passes"),
    ("other_activation", "both", 0.8, 0.3, "of SiLU", "lookup without multiplication"),
    ("elementwise", "both", 1.5, 0.4, "of its bytes", "two inputs through one port"),
    ("pool", "both", 2.0, 0.4, "of its bytes", "windows are read more than once"),
    ("move", "both", 1.2, 0.4, "of its bytes", "a copy"),
    ("program", "both", 100.0, 0.7, "cycles per element", "softmax, powers: the programmable part"),
    ("slow", "both", 1.0, 0.3, "MAC per cycle", "multiplications that the array cannot take"),
    ("slow_matmul", "both", 1.0, 0.4, "of slow", "two features multiplied with each other"),
)


@dataclass(frozen=True)
class Row:
    """A published rate: network, chip, measured time."""

    model: str
    chip: str
    ms: float
    works: tuple[Work, ...]


def read_rows(zoo: Path, rates: Path) -> list[Row]:
    """Every published rate of the three chips, with the work of its network."""
    rows, known = [], {}
    with rates.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            chip, model, dtype = line["chip"], line["model"], line["dtype"]
            if chip not in timing.DESIGNS or not line["graph"] or line["unit"] != "fps":
                continue
            key = (line["graph"], dtype)
            if key not in known:
                source = find_source(zoo / "shapes" / "published" / line["graph"])
                graph = read_graph(load_source(source).graph)
                lowered = lower_generation1(
                    graph, timing.DESIGNS[chip], "int8" if dtype == "int8" else "float16"
                )
                known[key] = all_works(lowered)
            ms = 1000.0 / float(line["fps"])
            rows.append(Row(model, chip, ms, known[key]))
    return rows


def values_of(x: Sequence[float], design: str) -> dict[str, float]:
    """Parameters of a design from the vector that is fitted (natural logarithms)."""
    return {
        prior[0]: math.exp(logarithm)
        for prior, logarithm in zip(PRIORS, x, strict=True)
        if prior[1] in ("both", design)
    }


def predict(rows: Sequence[Row], x: Sequence[float]) -> np.ndarray:
    """Milliseconds of each row; float64, one for each of ``rows``."""
    by_design = {design: values_of(x, design) for design in set(timing.DESIGNS.values())}
    times = []
    for row in rows:
        on = timing.machine(row.chip, values=by_design[timing.DESIGNS[row.chip]])
        times.append(sum(timing.layer_time(layer, on).ms for layer in row.works))
    return np.array(times)


def jacobian(rows: Sequence[Row], x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Of the logarithms, by differences."""
    slopes = np.empty((len(rows), len(x)))
    for column in range(len(x)):
        moved = x.copy()
        moved[column] += 1e-3
        slopes[:, column] = (np.log(predict(rows, moved)) - at) / 1e-3
    return slopes


def fit(rows: Sequence[Row], start: np.ndarray | None = None, steps: int = 20) -> np.ndarray:
    """Least squares of the log ratio with Huber's weights and the priors (Gauss-Newton)."""
    mean = np.log([prior[2] for prior in PRIORS])
    width = np.array([prior[3] for prior in PRIORS])
    measured = np.log([row.ms for row in rows])
    noise, knee = 0.1, 1.5

    def cost(at: np.ndarray, x: np.ndarray) -> float:
        ratio = np.abs((at - measured) / noise)
        huber = np.where(ratio < knee, 0.5 * ratio**2, knee * (ratio - 0.5 * knee))
        return float(huber.sum() + 0.5 * (((x - mean) / width) ** 2).sum())

    x = mean.copy() if start is None else start.copy()
    at = np.log(predict(rows, x))
    now, damping = cost(at, x), 1e-2
    for _ in range(steps):
        slope = jacobian(rows, x, at)
        error = at - measured
        weight = np.minimum(1.0, knee / np.maximum(np.abs(error / noise), 1e-9)) / noise**2
        matrix = (slope.T * weight) @ slope + np.diag(1 / width**2)
        gradient = (slope.T * weight) @ error + (x - mean) / width**2
        for _ in range(6):
            step = np.linalg.solve(matrix + damping * np.diag(np.diag(matrix)), -gradient)
            tried = x + np.clip(step, -1, 1)
            there = np.log(predict(rows, tried))
            if (then := cost(there, tried)) < now:
                break
            damping *= 4
        else:
            return x
        done = now - then < 1e-3
        x, at, now, damping = tried, there, then, damping / 3
        if done:
            return x
    return x


def leave_one_out(rows: Sequence[Row], start: np.ndarray) -> np.ndarray:
    """ln(predicted / measured) of each row by a fit without its network."""
    left = np.zeros(len(rows))
    for model in sorted({row.model for row in rows}):
        held = [at for at, row in enumerate(rows) if row.model == model]
        x = fit([row for row in rows if row.model != model], start, steps=6)
        there = predict([rows[at] for at in held], x)
        left[held] = np.log(there / np.array([rows[at].ms for at in held]))
    return left


def stratum_of(row: Row) -> str:
    """Which width of interval a row has, as the package decides it."""
    share = timing.known_share(row.works, timing.machine(row.chip))
    return timing.stratum(share)


def width_of(errors: Mapping[str, list[float]]) -> float:
    """Factor that holds nine rows in ten, counted by network: rows of one are not independent.

    Fewer than nine networks cannot tell nine in ten: then half as much again as the worst of them,
    in logarithms.
    """
    worst = sorted(max(map(abs, each)) for each in errors.values())
    rank = math.ceil(0.9 * (len(worst) + 1))
    return math.exp(worst[rank - 1] if rank <= len(worst) else 1.5 * worst[-1])


def widths(rows: Sequence[Row], left: np.ndarray, without: str = "") -> dict[str, float]:
    """Widths of the intervals of each stratum, as factors."""
    strata: dict[str, dict[str, list[float]]] = {each: {} for each in timing.STRATA}
    for row, error in zip(rows, left, strict=True):
        if row.model != without:
            strata[stratum_of(row)].setdefault(row.model, []).append(float(error))
    return {each: width_of(errors) for each, errors in strata.items()}


def report(
    rows: Sequence[Row], fitted: np.ndarray, left: np.ndarray, say: Callable[[str], None]
) -> None:
    """Errors per chip, the worst rows, and how often the interval held."""
    error = np.abs(np.exp(left) - 1)
    inside = np.abs(np.exp(fitted) - 1)
    for chip in ("rk1808", "rv1109", "rv1126", ""):
        own = [at for at, row in enumerate(rows) if chip in ("", row.chip)]
        say(
            f"{chip or 'all'}: {len(own)} rows, fitted median {np.median(inside[own]):.1%},"
            f" leave one out median {np.median(error[own]):.1%},"
            f" 90 % {np.quantile(error[own], 0.9):.1%}, max {error[own].max():.1%}"
        )
    held: dict[str, list[bool]] = {}
    for at, row in enumerate(rows):
        wide = widths(rows, left, without=row.model)[stratum_of(row)]
        held.setdefault(stratum_of(row), []).append(abs(left[at]) <= math.log(wide))
    for name, each in held.items():
        say(f"interval, {name}: holds {sum(each)} of {len(each)} rows left out")
    for at in np.argsort(-error)[:15]:
        say(f"  {rows[at].model} {rows[at].chip}: {np.exp(left[at]) - 1:+.0%} ({fitted[at]:+.2f})")


def effective(rows: Sequence[Row], x: np.ndarray) -> np.ndarray:
    """How much of each parameter the data decided: 1 all, 0 the prior alone."""
    slope = jacobian(rows, x, np.log(predict(rows, x))) / 0.1
    width = np.array([prior[3] for prior in PRIORS])
    return 1 - np.diag(np.linalg.inv(slope.T @ slope + np.diag(1 / width**2))) / width**2


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("zoo", type=Path)
    parser.add_argument("rates", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    rows = read_rows(arguments.zoo, arguments.rates)
    x = fit(rows)
    measured = np.log([row.ms for row in rows])
    left = leave_one_out(rows, x)
    decided = effective(rows, x)
    if arguments.write:
        with (PACKAGE / "parameters.csv").open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(["name", "design", "value", "unit", "from_data", "reason"])
            for prior, logarithm, share in zip(PRIORS, x, decided, strict=True):
                out.writerow(
                    [
                        prior[0],
                        prior[1],
                        f"{math.exp(logarithm):.5g}",
                        prior[4],
                        f"{share:.2f}",
                        prior[5],
                    ]
                )
        timing.parameters.cache_clear()
    for prior, logarithm, share in zip(PRIORS, x, decided, strict=True):
        print(f"{prior[0]:20} {prior[1]:7} {math.exp(logarithm):10.4g} {prior[4]:20} {share:.2f}")
    print(f"{len(PRIORS)} parameters, {decided.sum():.1f} effective, {len(rows)} rows")
    if arguments.write:
        with (PACKAGE / "spread.csv").open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(["stratum", "factor"])
            out.writerows(
                (name, f"{logarithm:.3f}") for name, logarithm in widths(rows, left).items()
            )
    report(rows, np.log(predict(rows, x)) - measured, left, print)


if __name__ == "__main__":
    main()
