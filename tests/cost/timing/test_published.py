"""The published frame rates, each network left out of the fit once."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from engine.cost.timing.form import values

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[3]

Row = tuple[str, str]


@dataclass(frozen=True)
class Fitted:
    """The script's work: the fit, and the errors of what was left out."""

    script: ModuleType
    fit: Any
    point: Any
    effective: float
    spread: Any
    alone: dict[Row, float]
    families: dict[Row, float]


@pytest.fixture(scope="module")
def fitted(zoo: Path) -> Iterator[Fitted]:
    script = _script()
    facts = zoo.parent / "facts"
    if not (facts / "published_rates.csv").is_file():
        pytest.skip(f"there are no facts at {facts}")
    rates = script.read_rates(facts / "published_rates.csv")
    works = script.lowered_works(zoo / "shapes", rates)
    data = script.gather(works, {row: rate for row, (rate, _) in rates.items()})
    fit = script.Fit(data, script.priors())
    point = fit.run(np.ones(len(data.rows), dtype=np.bool_))
    effective, spread = fit.effective, fit.spread
    alone = fit.leave_out(script.groups_of(data), point)
    families = fit.leave_out(script.groups_of(data, families=True), point)
    yield Fitted(script, fit, point, effective, spread, alone, families)
    sys.modules.pop("fit_time_model", None)


def _script() -> ModuleType:
    path = REPOSITORY / "scripts" / "fit_time_model.py"
    spec = importlib.util.spec_from_file_location("fit_time_model", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["fit_time_model"] = module
    spec.loader.exec_module(module)
    return module


def sizes(errors: Iterable[float]) -> Any:
    return np.abs(np.expm1(np.array(list(errors))))


def test_no_row_is_dropped(fitted: Fitted) -> None:
    # 29 networks with a graph on four chips; RK3566 and RK3568 share a figure.
    assert len(fitted.alone) == 29 * 4
    assert set(fitted.alone) == set(fitted.families)


def test_networks_that_were_left_out(fitted: Fitted) -> None:
    found = sizes(fitted.alone.values())
    assert np.median(found) <= 0.03
    assert np.quantile(found, 0.9) <= 0.10
    assert found.max() <= 0.25  # PP-LiteSeg on RK3566, whose average pools LPRNet alone tells


def test_at_most_30_effective_parameters(fitted: Fitted) -> None:
    assert fitted.effective <= 30


def test_families_that_were_left_out(fitted: Fitted) -> None:
    found = sizes(fitted.families.values())
    assert np.median(found) <= 0.04
    assert np.quantile(found, 0.9) <= 0.18


def test_intervals_hold_rows_of_both_kinds(fitted: Fitted) -> None:
    script = fitted.script
    made = script.misses(fitted.fit, fitted.point, fitted.families)
    judged = script.misses(fitted.fit, fitted.point, fitted.alone)
    for errors in (judged, made):
        shares = script.covered(made, errors)
        assert shares["YOLO"] >= 0.85
        assert shares["others"] >= 0.85


def test_what_is_shipped_is_what_the_script_fits(fitted: Fitted) -> None:
    shipped = np.log([values()[name] for name in fitted.fit.names])
    assert np.abs((fitted.point - shipped) / fitted.spread).max() < 1
    assert set(values()) == set(fitted.fit.names)
