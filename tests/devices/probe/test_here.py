"""The board's doctor where this machine is the board, itself or by SSH: it is no Rockchip board."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.devices.doctor.diagnose import STEPS, diagnose
from engine.devices.probe.compatibility import ModelFacts
from engine.devices.probe.identify import identify
from engine.devices.probe.reading import read_elf
from engine.devices.probe.state import read_state
from engine.devices.probe.versions import read_versions
from engine.devices.transport import Transport
from engine.devices.transports.local import LocalTransport
from tests.devices.ways import WAYS, way_to


@pytest.fixture(params=[WAYS["sftp"], WAYS["local"]])
def here(request: pytest.FixtureRequest, own_home: Path, tmp_path: Path) -> Iterator[Transport]:
    if request.param == "local":
        with closing(LocalTransport()) as local:
            yield local
        return
    with way_to("sftp", request, own_home, tmp_path) as way:
        yield way.transport


def test_this_machine_is_examined(here: Transport, tmp_path: Path) -> None:
    model = ModelFacts(size=1 << 20)
    found = {check.name: check for check in diagnose(here, model=model, proc=tmp_path)}
    assert set(found) == set(STEPS)
    assert (found["transport"].state, found["agent"].state) == ("ok", "ok")
    assert "free in" in found["room"].found
    identity = identify(here)
    assert (identity.kernel, identity.machine) == (platform.release(), platform.machine())
    assert identity.userland == read_elf(Path("/bin/sh").read_bytes()[:20])
    assert identity.android is None
    assert identity.chip is None or Path("/proc/device-tree").exists()
    memory = read_state(here, identity.chip).memory
    assert memory is not None
    assert memory.total == int(Path("/proc/meminfo").read_text().split()[1]) << 10


def test_what_is_not_here_is_missing_with_its_reason(here: Transport) -> None:
    state = read_state(here, "rk3588")
    absent = {name for name, _ in state.missing}
    assert {name for name in vars(state) if getattr(state, name) is None} == absent
    assert all(why for _, why in state.missing)
    versions = read_versions(here, "rk3588", 2)
    assert all(Path(library.path).exists() for library in versions.libraries)
