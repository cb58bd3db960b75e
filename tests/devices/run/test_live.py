"""A model that is measured for a time, and what is told of it meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import JobCancelledError
from engine.base.events import CallbackReporter, Event, NullReporter
from engine.devices.board.layout import find_folder
from engine.devices.measure import performance
from engine.devices.measure.benchmark import Cell, CellTimes
from engine.devices.measure.history import list_runs
from engine.devices.measure.layer_times import LayerTimes
from engine.devices.measure.performance import measure_performance
from engine.devices.model_source import ModelSource
from engine.wire.devices import PERF_LOOK, BoardAnswer, PerfLook, PerfParams
from rknntui_emulator.runtime.answers import input_digest
from tests.devices.known_model import SCORES, answers
from tests.devices.run.conftest import MakeBoard


@pytest.mark.cc
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_measurement_tells_while_it_goes_on_and_keeps_what_it_had(
    here: MakeBoard,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cancelled: bool,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    board = here(answers(results={input_digest([bytes(48)]): (SCORES.tobytes(),)}))
    looks: list[PerfLook] = []
    asked = 0

    def layers() -> None:
        nonlocal asked
        asked += 1

    def take(event: Event) -> None:
        if (look := PERF_LOOK.of(event)) is not None:
            looks.append(look)

    def enough() -> bool:
        return len(looks) >= 3

    reporter = (
        CallbackReporter(take, cancelled=enough)
        if cancelled
        else CallbackReporter(take, finish=enough)
    )
    source = ModelSource(model, layers=layers)
    params = PerfParams(str(model), device="local", seconds=3600.0, layers=True)
    if cancelled:
        with pytest.raises(JobCancelledError):
            measure_performance(params, source, reporter)
    else:
        found = measure_performance(params, source, reporter)
        assert "It was ended before its time." in found.notes
        assert found.points[0].count == looks[-1].count
    assert [look.at for look in looks] == sorted({look.at for look in looks})
    first, last = looks[0], looks[-1]
    assert (last.label, last.device, last.chip) == ("emulated", "local", "rk3588")
    assert [row.name for row in first.layers] == ["Conv:conv1"], "timed at once, then seldom"
    assert not looks[1].layers
    assert 0 < last.median <= last.p90 <= last.p99
    assert last.frames_per_second > 0
    (kept,) = list_runs()
    assert (kept.points, kept.label) == (1, "emulated")
    assert find_folder(board).runs() == ()


def test_a_soak_times_the_layers_a_tenth_of_its_time(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(performance, "read_layer_times", lambda *_: LayerTimes())
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(performance.time, "monotonic", lambda: next(clock))
    head = BoardAnswer(label="emulated", device="local", chip="rk3588", runtime="2")
    live = performance._Live(lambda: "", head, ModelSource(model), NullReporter())
    cell = Cell("auto", 1, 1)
    at = [
        second
        for second in range(1, 60)
        if live.tell(cell, CellTimes([1.0] * second, elapsed=second * 1e6))
    ]
    assert at == [1, 21, 41], "two seconds each: not every five"
