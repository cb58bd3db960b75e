"""A run of the user's board corrects the estimates of its chip, and they say so."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.api.typed import pipeline_of
from engine.base.errors import OutputError, UsageError
from engine.base.paths import state_folder
from engine.devices.measure.benchmark import Cell, CellTimes, Reading, cell_result
from engine.devices.measure.history import MeasuredRun, save_run
from engine.pipeline.calibrated import (
    MeasuredPoint,
    apply,
    calibration,
    forget,
    kept_calibrations,
    measured_of,
    save,
)
from engine.pipeline.costs import calibrate
from engine.wire.cost import Calibrated, ChipEstimate, Interval
from engine.wire.devices import FigureLabel
from engine.wire.measured import Conditions

pytestmark = pytest.mark.usefixtures("own_home")


def estimate(ms: float, chip: str = "rk3588") -> ChipEstimate:
    return ChipEstimate(
        chip, 2, "int8", 1, 1, 1000.0, "fitted",
        time_ms=Interval(ms, ms * 0.9, ms * 1.1),
        fps=Interval(1000 / ms, 900 / ms, 1100 / ms),
    )  # fmt: skip


def point(ms: float) -> MeasuredPoint:
    return MeasuredPoint("run", "net.rknn", "rk3588", ms, 1, 1, 1000.0)


def test_the_ratio_corrects_time_and_rate() -> None:
    found = calibration(point(11.0), estimate(10.0), "net.onnx")
    assert 1.07 < found.factor < 1.1  # nearer to 1 by what may be chance
    assert not found.notes
    save(found)
    told = apply(estimate(20.0), kept_calibrations())
    assert told.time_ms.value == pytest.approx(20 * found.factor)
    assert told.fps.value == pytest.approx(1000 / told.time_ms.value)
    assert told.time_ms.high / told.time_ms.low < 1.1 / 0.9  # a run makes it narrower
    assert told.confidence == "calibrated"
    assert "run" in told.notes[-1]
    other = estimate(20.0, "rk3566")
    assert apply(other, kept_calibrations()) == other


def test_it_is_kept_for_this_user_alone_and_forgotten() -> None:
    save(Calibrated("rk3588", "run", 12.0, 10.0, 1.2))
    file = state_folder() / "calibration.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert forget("rk3588")
    assert not forget("rk3588")
    assert not kept_calibrations()


def test_a_failed_write_leaves_nothing_behind() -> None:
    (state_folder() / "calibration.json").mkdir(parents=True)
    with pytest.raises(OutputError):
        save(Calibrated("rk3588", "run", 12.0, 10.0, 1.2))
    assert [each.name for each in state_folder().iterdir()] == ["calibration.json"]


def test_a_damaged_file_calibrates_nothing() -> None:
    save(Calibrated("rk3588", "run", 12.0, 10.0, 1.2))
    (state_folder() / "calibration.json").write_text('{"chips": {"rk3588": 3}}')
    assert not kept_calibrations()


@pytest.mark.parametrize(
    "wrong",
    [
        '"factor": 0',
        '"factor": -1',
        '"factor": NaN',
        '"factor": 1e300',
        '"factor": 1' + "0" * 400,
        '"factor": 1, "spread": -3',
        '"factor": 1, "spread": NaN',
        '"factor": 1, "measured_ms": 1' + "0" * 400,
        '"factor": 1, "estimated_ms": Infinity',
    ],
)
def test_a_calibration_with_an_impossible_number_is_left_out(wrong: str) -> None:
    usual = '"chip": "rk3588", "run": "r", "measured_ms": 1, "estimated_ms": 1'
    one = f"{{{usual}, {wrong}}}"
    other = f'{{{usual.replace("rk3588", "rk3566")}, "factor": 1.5}}'
    state_folder().mkdir(parents=True, exist_ok=True)
    text = f'{{"chips": {{"rk3588": {one}, "rk3566": {other}}}}}'
    (state_folder() / "calibration.json").write_text(text)
    assert list(kept_calibrations()) == ["rk3566"]


def test_what_is_too_far_apart_is_another_model() -> None:
    with pytest.raises(UsageError, match="too far apart"):
        calibration(point(1000.0), estimate(10.0), "net.onnx")


def test_a_run_of_another_name_is_told() -> None:
    assert "net.rknn" in calibration(point(10.5), estimate(10.0), "other.onnx").notes[0]


def test_without_a_run_there_is_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No measured run") as error:
        measured_of(None, "net")
    assert "perf" in error.value.cause


def measured(ms: float, title: str, label: FigureLabel = "measured") -> str:
    """A run of the history: ten inferences, each a little longer than the one before."""
    times = tuple(1000 * ms * (1 + 0.002 * at) for at in range(10))
    reading = Reading({"NPU": 1_000_000_000})
    where = Conditions("ab" * 32, "rk3588", "adb:1", {}, {"NPU": 1_000_000_000})
    cells = (cell_result(Cell("auto", 1, 1), CellTimes(times, reading, reading)),)
    return save_run(MeasuredRun(1_700_000_000.0, title, where, label, cells))


def test_the_newest_run_of_a_model_calibrates_its_chip(demo: Path) -> None:
    model = next(demo.glob("*.onnx"))
    before = engine.estimate(model, ["rk3588"], use_cache=False).chips[0]
    measured(1.05 * before.time_ms.value, f"{model.stem}.rknn")
    recipe = engine.Recipe.from_values({"model": str(model)})
    found = calibrate(pipeline_of(recipe, None, False, ()))
    assert found.chip == "rk3588"
    assert 1.0 < found.factor < 1.1
    after = engine.estimate(model, ["rk3588", "rk3566"], use_cache=False).chips
    assert after[0].time_ms.value == pytest.approx(before.time_ms.value * found.factor, rel=1e-3)
    assert [each.confidence for each in after] == ["calibrated", "fitted"]


def test_a_run_of_an_emulated_board_calibrates_nothing() -> None:
    run = measured(1.0, "net.rknn", "emulated")
    with pytest.raises(UsageError, match="emulated"):
        measured_of(run, "net")
    with pytest.raises(UsageError, match="No measured run"):
        measured_of(None, "net")
