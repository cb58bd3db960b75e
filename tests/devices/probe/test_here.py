"""The board's doctor where the program itself runs: on this machine, which is no Rockchip board."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.devices.doctor.diagnose import STEPS, diagnose
from engine.devices.probe.compatibility import ModelFacts
from engine.devices.probe.identify import identify
from engine.devices.probe.state import read_state
from engine.devices.probe.versions import read_versions
from engine.devices.transports.local import LocalTransport


@pytest.fixture
def here() -> Iterator[LocalTransport]:
    way = LocalTransport()
    yield way
    way.close()


def test_this_machine_is_examined(here: LocalTransport, tmp_path: Path) -> None:
    found = tuple(diagnose(here, model=ModelFacts(size=1 << 20), proc=tmp_path))
    assert {check.name for check in found} == set(STEPS)
    assert found[0].state == "ok"
    identity = identify(here)
    assert (identity.kernel, identity.machine) == (platform.release(), platform.machine())
    memory = read_state(here, identity.chip).memory
    assert memory is not None
    assert memory.total is not None
    room = next(check for check in found if check.name == "room")
    assert "free in" in room.found


def test_what_is_not_here_is_missing_with_its_reason(here: LocalTransport) -> None:
    state = read_state(here, "rk3588")
    absent = {name for name, _ in state.missing}
    assert {name for name in vars(state) if getattr(state, name) is None} == absent
    assert all(why for _, why in state.missing)
    versions = read_versions(here, "rk3588", 2)
    assert all(Path(library.path).exists() for library in versions.libraries)
