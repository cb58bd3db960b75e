"""Kept runs, as a front end lists and compares them."""

from __future__ import annotations

import pytest

from engine.base.errors import UsageError
from engine.devices.measure.history import LayerTable, MeasuredRun, measured_folder, save_run
from engine.services import measured
from engine.wire.devices import LayerTime
from engine.wire.measured import Conditions

MODEL = "ab" * 32


def kept(at: float, us: float, device: str = "adb:1", chip: str = "rk3588") -> str:
    table = LayerTable(
        "generation 2, from 1.6",
        us,
        "operators",
        (LayerTime(0, name="Conv:conv", op="Conv", target="NPU", microseconds=us, id="conv"),),
    )
    where = Conditions(MODEL, chip, device, {"runtime": "2.3.2"}, {"NPU": 1_000_000_000})
    return save_run(MeasuredRun(at, "net\x1b[2J.rknn", where, "emulated", table=table))


def test_runs_are_listed_the_newest_first_with_damaged_ones() -> None:
    first, second = kept(1_700_000_000.0, 10.0), kept(1_700_000_100.0, 12.0)
    bad = kept(1_700_000_200.0, 12.0)
    (measured_folder() / f"{bad}.json").write_bytes(b"{}\n")
    runs = measured.list({})["runs"]
    assert [each["id"] for each in runs] == [bad, second, first]
    assert runs[0]["damaged"]
    assert (runs[1]["label"], runs[1]["layers"], runs[1]["chip"]) == ("emulated", 1, "rk3588")
    assert "\x1b" not in runs[1]["title"]


def test_those_of_a_board_by_any_form_of_its_address() -> None:
    wanted = kept(1_700_000_000.0, 10.0, "adb:127.0.0.1:5555")
    kept(1_700_000_100.0, 12.0)
    for device in ("127.0.0.1:5555", "adb:127.0.0.1:5555"):
        assert [each["id"] for each in measured.list({"device": device})["runs"]] == [wanted]
    with pytest.raises(UsageError):
        measured.list({"device": "adb:; reboot"})


def test_two_are_compared() -> None:
    first, second = kept(1_700_000_000.0, 10.0), kept(1_700_000_100.0, 12.0, chip="rk3576")
    found = measured.compare({"first": first, "second": second})
    assert "chip: rk3588, rk3576" in found["differs"]
    assert found["layers"][0] == {"layer": "conv", "before": 10.0, "after": 12.0}
    assert tuple(found["labels"]) == ("emulated", "emulated")
    with pytest.raises(UsageError, match="no measured run"):
        measured.compare({"first": first, "second": "x"})
