"""What a model takes on a board, and what is told of a board."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.events import NullReporter
from engine.devices.doctor.examine import about_board
from engine.devices.model_source import ModelSource
from engine.devices.run.on_board import memory_on_board
from engine.wire.board import AboutParams, MemoryParams, MemoryReport, VersionRow
from tests.container.vendor import build as vendor
from tests.devices.run.conftest import MakeBoard


def report(model: Path) -> MemoryReport:
    asked = MemoryParams(str(model), device="local")
    return memory_on_board(asked, ModelSource(model), NullReporter())


@pytest.mark.cc
def test_memory_by_kind_and_of_the_system(here: MakeBoard, model: Path) -> None:
    here()
    found = report(model)
    assert found.memory is not None
    kinds = (found.memory.weight, found.memory.internal, found.memory.other, found.memory.total)
    assert kinds == (3698688, 1756160, 484352, 5939200)
    assert (found.label, found.reason) == ("emulated", "")
    assert "Memory Profile Info Dump (emulated)" in found.text
    assert "Weight Memory: 3.53 MiB" in found.text
    assert found.model_bytes == model.stat().st_size
    assert found.system is not None
    assert found.system.total


@pytest.mark.cc
def test_what_is_told_of_a_board(here: MakeBoard, model: Path, tmp_path: Path) -> None:
    board = here()
    board.files |= {
        "/proc/device-tree/model": b"Board \x1b[31mA\0",
        "/sys/kernel/debug/rknpu/version": b"RKNPU driver: v0.9.8\n",
        "/usr/lib/librknnrt.so": b"\x7fELF librknnrt version: 2.3.2 (429f97ae6b@2025)\n",
    }
    found = about_board(AboutParams("local"))
    facts = found.facts
    assert (facts.device, facts.label, facts.chip, facts.cores) == (
        "local",
        "emulated",
        "rk3588",
        3,
    )
    assert "\x1b" not in facts.model
    assert found.fit == ()
    assert found.versions[0] == VersionRow(
        "driver", "0.9.8", "/sys/kernel/debug/rknpu/version", "rknpu"
    )
    (same,) = about_board(AboutParams("local", chip="rk3588")).fit
    assert (same.name, same.state) == ("recipe", "ok")
    (differs,) = about_board(AboutParams("local", chip="rv1106")).fit
    assert (differs.state, "set target_platform to rk3588" in differs.remedy) == ("note", True)
    assert "is for rv1106, and the board has rk3588" in differs.found
    fits = about_board(AboutParams("local", str(model), chip="rv1106"))
    assert [check.name for check in fits.fit][:2] == ["model", "versions"]
    assert fits.fit[0].state == "ok"
    assert fits.versions[-1].name == "toolkit"
    other = tmp_path / "first.rknn"
    other.write_bytes(vendor.precompiled())
    (check,) = about_board(AboutParams("local", str(other))).fit
    assert (check.name, check.state) == ("model", "bad")
    (check,) = about_board(AboutParams("local", str(tmp_path / "none.rknn"))).fit
    assert (check.state, bool(check.remedy)) == ("bad", True)
