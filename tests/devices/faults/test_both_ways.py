"""Each fault of a board over adb, by an old adbd and over SSH: what is told, and what stays.

fault: where it is tried beside this file
    cable pulled while pushing, running: test_transports.py
    reboot, adb server restarted: adb/test_faults.py
    disk full, read-only: test_transports.py, adb/test_faults.py, test_layout.py
    no agent for it: test_agents.py, board/test_faults.py
    no runtime library, one too old, one cut off: test_layout.py, agent/test_errors.py
    wrong chip, other generation: board/test_runtime.py, test_board.py, test_layout.py
    a hang: board/test_faults.py, agent/test_errors.py
    two clients at once: board/test_faults.py; test_layout.py (those of other machines, dead ones)
    a transfer that is cancelled: test_transports.py, board/test_faults.py
    a slow link: ssh/test_files.py, adb/test_faults.py
    hostile strings from the board: board/test_lies.py, probe/test_hostile.py
    names with quotes, blanks and $(...): every model here has one; ssh/test_run.py
    two boards with one serial, no permission on USB: adb/test_twins.py, against a stand-in of the
        adb server
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.base.errors import (
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    RuntimeLibraryError,
)
from engine.devices.board.results import RunProgress
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput
from engine.devices.doctor.diagnose import diagnose
from engine.devices.probe.identify import identify
from tests.devices.conftest import Libraries
from tests.devices.faults.conftest import Way
from tests.devices.known_model import IMAGE, OLD_IMAGE, answers, first_answers
from tests.devices.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.cc]

Ways = Callable[..., Way]


def told(error: DeviceError) -> bool:
    """Whether an error says what happened, why, and what to do."""
    assert "\x1b" not in str(error)
    return bool(error.what and error.cause and error.remedy)


def image(way: Way) -> BoardInput:
    return BoardInput(OLD_IMAGE if way.old else IMAGE)


def large(tmp_path: Path, size: int) -> Path:
    """A model that takes a while to be sent; an emulated board takes containers of ours."""
    path = tmp_path / "large; $(touch x) 'model'.rknn"
    with path.open("wb") as stream:
        stream.write(b"RKNN" + bytes(20) + b"OPENMODL")
        stream.truncate(size)
    return path


def test_the_agent_does_all_that_it_is_asked_for(way: Way) -> None:
    transport = way.open()
    assert transport.converses != way.old  # one request at a time by an old adbd
    with BoardRuntime(transport) as runtime:
        opened = runtime.open(way.model, perf=True)
        assert opened.library == way.made.image.library
        assert opened.api_version.startswith("1.7.5" if way.old else "2.3.2")
        way.check_results(runtime)
        assert "Conv:conv1" in str(runtime.run([image(way)]).perf)
        if way.old:
            assert opened.memory is None
            with pytest.raises(RuntimeLibraryError, match="not available on this runtime"):
                runtime.memory()
        else:
            assert runtime.memory() == opened.memory
        files = runtime.read(["/proc/meminfo", "/sys/class/thermal/*/type", "/nothing"])
        assert "MemTotal" in str(files["/proc/meminfo"])
        assert files["/sys/class/thermal/thermal_zone0/type"] == "soc-thermal\n"
        assert files["/nothing"] is None
        looks = list(runtime._session.watch(["/proc/loadavg"], interval=0.02, count=2))
        load = "0.10 0.05 0.01 1/120 321\n"
        assert [look.values["/proc/loadavg"] for look in looks] == [load] * 2
        (node,) = way.made.root.glob("sys/class/devfreq/*npu*/governor")
        path = f"/{node.relative_to(way.made.root)}"
        assert runtime.fix_clocks([(path, "userspace")]).changed == (path,)
        assert runtime.read([path]) == {path: "userspace\n"}
        assert runtime.restore_clocks().changed == (path,)
        # the model is not sent again
        sent = (way.made.root / "userdata/rknntui").glob("model-*")
        before = [file.stat().st_mtime_ns for file in sent]
        runtime.open(way.model)
        sent = (way.made.root / "userdata/rknntui").glob("model-*")
        assert [file.stat().st_mtime_ns for file in sent] == before
    way.check()


def test_a_cable_pulled_while_a_model_is_pushed(way: Way, tmp_path: Path) -> None:
    sent: list[int] = []

    def pull(done: int, _all: int) -> None:
        sent.append(done)
        if done > 1 << 20:
            way.cut()

    with BoardRuntime(way.open(), chip="") as runtime:
        with pytest.raises(DeviceLostError) as caught:
            runtime.open(large(tmp_path, 32 << 20), moved=pull)
        assert told(caught.value)
        assert 0 < sent[-1] < 32 << 20
    way.wait()
    assert not [name for name in way.names() if name.startswith("model") and ".part" not in name]
    for part in (way.made.root / "userdata/rknntui").glob("*.part"):
        part.unlink()  # it is removed once it is an hour old: see test_layout.py
    way.check()


@pytest.mark.parametrize("how", ["cut", "reboot"])
def test_a_board_that_goes_while_it_runs(way: Way, how: str) -> None:
    cut_while_it_runs(way, getattr(way, how))
    way.wait()
    way.check()


def cut_while_it_runs(way: Way, cut: Callable[[], object]) -> None:
    """Have a run cut off."""
    runs = False

    def check() -> None:
        # nothing is heard of a run in one-shot mode: its program is there, and hangs
        if runs and way.old and way.alive():
            cut()

    def heard(_progress: RunProgress) -> None:
        cut()

    runtime = BoardRuntime(way.open(), check=check)
    runtime.open(way.model)
    if way.old:
        way.settings("HANG=run")
    runs = True
    with pytest.raises(DeviceLostError) as caught:
        runtime.run([image(way)], loops=100_000, progress=heard)
    runs = False
    assert told(caught.value)
    way.settings("")
    runtime.close()


def test_an_npu_that_hangs(way: Way) -> None:
    with BoardRuntime(way.open()) as runtime:
        runtime.open(way.model)
        way.settings("HANG=run")
        with pytest.raises(DeviceTimeoutError, match="did not answer `run`") as caught:
            runtime.run([image(way)], seconds=1)
        assert told(caught.value)
        until(lambda: not way.alive(), "its program has ended")
        way.settings("HANG=init")
        with pytest.raises(DeviceTimeoutError, match="did not load") as caught:
            runtime.open(way.model, seconds=1)
        assert caught.value.remedy == "Restart the board."
    way.settings("")
    way.check()


HOSTILE = "\x1b]0;owned\x07 $(touch x) `id` '\"; reboot \u202e\n\r\udcff"


def test_hostile_strings_from_the_board(
    ways: Ways, kind: str, libraries: Libraries, tmp_path: Path
) -> None:
    way = ways(model=f"rk3588{HOSTILE}", serial=HOSTILE)
    known = first_answers if way.old else answers
    way.library(libraries(1 if way.old else 2), known(custom=HOSTILE.replace("\n", " ")))
    way.made.image.clocks  # noqa: B018
    before = set(Path.cwd().iterdir())
    transport = way.open()
    found = tuple(diagnose(transport))
    shown = [f"{c.name} {c.found} {c.remedy} {' '.join(c.commands)}" for c in found]
    identity = identify(transport)
    shown += [identity.model, identity.serial, identity.system]
    with BoardRuntime(transport) as runtime:
        opened = runtime.open(way.model)
        shown += [opened.api_version, *opened.notes]
        assert runtime.run([image(way)]).outputs
    for text in shown:
        assert text.isprintable(), text
    assert set(Path.cwd().iterdir()) == before
    assert not list(way.made.root.rglob("x"))
