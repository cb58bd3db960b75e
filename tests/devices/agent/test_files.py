"""Files of the board: read, watched, digested; clocks are changed and come back."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.devices.agent.conftest import Agent, compiled
from tests.safety import PATIENCE, ends


@pytest.fixture
def agent(tmp_path: Path, native: Path, starting: Callable[..., Agent]) -> Agent:
    return starting([str(native)], tmp_path, tmp_path)


pytestmark = pytest.mark.cc


def zones(folder: Path) -> list[str]:
    for number, text in enumerate((b"41000\n", b"52\xff")):
        zone = folder / f"thermal_zone{number}"
        zone.mkdir()
        (zone / "temp").write_bytes(text)
    return [str(folder / f"thermal_zone{number}" / "temp") for number in (0, 1)]


def test_read(agent: Agent, tmp_path: Path) -> None:
    first, second = zones(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    odd = [str(tmp_path / name) for name in ("pipe", "loop", "none", "no*thing")]
    pattern = str(tmp_path / "thermal_zone*" / "temp")
    found = agent.result("read", paths=[pattern, *odd, str(tmp_path)])
    assert found == {first: "41000\n", second: "52\xff"} | dict.fromkeys([*odd, str(tmp_path)])
    assert agent.result("read", paths=[first], limit=2) == {first: "41"}
    assert "MemTotal" in agent.result("read", paths=["/proc/meminfo"])["/proc/meminfo"]
    # signs of one to four bytes, the first and the last of each; they travel escaped
    signs = [f"/none{sign}" for sign in "\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff"]
    assert agent.result("read", paths=signs) == dict.fromkeys(signs)
    for wrong in (["relative"], [7], "/proc"):
        assert agent.error("read", paths=wrong)["kind"] == "device"


def test_watch_until_it_is_cancelled(agent: Agent, tmp_path: Path) -> None:
    first, _second = zones(tmp_path)
    call = agent.start("watch", paths=[first], interval=0.02)
    agent.hears(lambda: len(agent.steps) > 2)
    Path(first).write_text("43000")
    agent.hears(lambda: agent.steps[-1]["values"] == {first: "43000"})
    agent.child.peer.cancel(call)
    with ends():
        assert agent.child.peer.wait(call)["error"]["kind"] == "cancelled"
    times = [step["at"] for step in agent.steps]
    assert times == sorted(times)
    agent.steps.clear()
    assert agent.result("watch", paths=[first], interval=0.02, count=4) == {"samples": 4}
    assert len(agent.steps) == 4


def test_there_is_an_end_to_what_is_watched_at_a_time(agent: Agent, tmp_path: Path) -> None:
    calls = [agent.start("watch", paths=["/proc/uptime"]) for _ in range(9)]
    agent.hears(lambda: any(call.answer for call in calls))
    (refused,) = [call.answer for call in calls if call.answer]
    assert "More than 8 requests" in refused["error"]["what"]


def test_digest(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / 'it\'s a $(touch x) "model".rknn'
    path.write_bytes(content := os.urandom(3_000_000))
    digest = hashlib.sha256(content).hexdigest()
    assert agent.result("digest", path=str(path)) == {"sha256": digest, "size": 3_000_000}
    assert agent.error("digest", path="/nowhere")["kind"] == "device storage"
    assert agent.error("digest")["kind"] == "device"


class Board:
    """Nodes of clocks, as files, with their first values."""

    def __init__(self, folder: Path) -> None:
        self.governor, self.frequency = folder / "governor", folder / "set_freq"
        self.keep = folder / "clocks.json"
        self.governor.write_text("rknpu_ondemand\n")
        self.frequency.write_text("500000000\n")
        self.missing = folder / "dmc"

    def values(self) -> list[str]:
        return [path.read_text().strip() for path in (self.governor, self.frequency)]

    @property
    def request(self) -> dict[str, Any]:
        pairs = [(self.governor, "userspace"), (self.frequency, "1000000000"), (self.missing, "1")]
        return {"values": [[str(path), text] for path, text in pairs], "keep": str(self.keep)}


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


BEFORE, FIXED = ["rknpu_ondemand", "500000000"], ["userspace", "1000000000"]


def test_clocks_are_written_and_restored(agent: Agent, board: Board) -> None:
    done = agent.result("write_clocks", **board.request)
    assert done["changed"] == [str(board.governor), str(board.frequency)]
    assert done["refused"] == [[str(board.missing), "it cannot be read"]]
    assert not board.missing.exists()
    assert board.values() == FIXED
    assert json.loads(board.keep.read_text()) == [
        [str(board.governor), BEFORE[0]],
        [str(board.frequency), BEFORE[1]],
    ]
    # a second change does not take the first one for what was there before
    agent.result("write_clocks", **board.request)
    back = agent.result("restore_clocks", keep=str(board.keep))
    assert back == {"changed": done["changed"][::-1], "refused": []}
    assert board.values() == BEFORE
    assert not board.keep.exists()
    assert agent.result("restore_clocks", keep=str(board.keep)) == {"changed": [], "refused": []}


def test_what_cannot_be_restored_stays_on_record(agent: Agent, board: Board) -> None:
    agent.result("write_clocks", **board.request)
    board.governor.unlink()
    back = agent.result("restore_clocks", keep=str(board.keep))
    assert [path for path, _reason in back["refused"]] == [str(board.governor)]
    assert json.loads(board.keep.read_text()) == [[str(board.governor), BEFORE[0]]]
    board.governor.write_text("userspace\n")
    agent.result("restore_clocks", keep=str(board.keep))
    assert board.values() == BEFORE


@pytest.mark.parametrize("way", ["end of the input", "signal"])
def test_clocks_are_restored_at_the_end(agent: Agent, board: Board, way: str) -> None:
    agent.result("write_clocks", **board.request)
    if way == "signal":
        agent.child.process.send_signal(signal.SIGHUP)
    else:
        agent.child.peer.hang_up()
    assert agent.child.process.wait(PATIENCE) == (0 if way != "signal" else 128 + signal.SIGHUP)
    assert board.values() == BEFORE
    assert not board.keep.exists()


def test_clocks_do_not_change_where_nothing_can_be_kept(agent: Agent, board: Board) -> None:
    request = board.request | {"keep": "/proc/none/keep"}
    assert agent.error("write_clocks", **request)["kind"] == "device storage"
    assert board.values() == BEFORE
    assert agent.error("write_clocks", values=[["a"]], keep=str(board.keep))["kind"] == "device"
    board.keep.write_text("no json")
    assert agent.result("restore_clocks", keep=str(board.keep))["changed"] == []


# -- against files that behave as the kernel's do

GOVERNORS = {"cpu/governor": "ondemand", "npu/governor": "rknpu_ondemand"}


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """Governors, and the frequency of a CPU."""
    for name, text in GOVERNORS.items():
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(f"{text}\n")
    (tmp_path / "cpu" / "setspeed").write_text("<unsupported>\n")
    return tmp_path


@pytest.fixture
def behaving(kernel: Path, native: Path, starting: Callable[..., Agent]) -> Agent:
    """An agent to which they do."""
    source = Path(__file__).with_name("kernel.c")
    behaves = compiled(kernel / "kernel.so", "-shared", "-fPIC", source)
    return starting([str(native)], kernel, kernel, LD_PRELOAD=str(behaves))


def test_a_frequency_that_appears_with_its_governor_is_written_and_restored(
    behaving: Agent, kernel: Path
) -> None:
    values = [
        ["cpu/governor", "userspace"],
        ["cpu/setspeed", "1800000"],
        ["npu/governor", "userspace"],
        ["npu/userspace/set_freq", "1000000000"],
    ]
    pairs = [[str(kernel / name), text] for name, text in values]
    early = behaving.result("write_clocks", values=pairs[1:2], keep=str(kernel / "early.json"))
    assert early["refused"] == [[pairs[1][0], "Invalid argument"]]  # it behaves so
    keep = str(kernel / "clocks.json")
    done = behaving.result("write_clocks", values=pairs, keep=keep)
    assert done == {"changed": [path for path, _ in pairs], "refused": []}
    assert (kernel / "cpu/setspeed").read_text() == "1800000\n"
    assert (kernel / "npu/userspace/set_freq").read_text() == "1000000000\n"
    assert behaving.result("restore_clocks", keep=keep)["refused"] == []
    assert {name: (kernel / name).read_text().strip() for name in GOVERNORS} == GOVERNORS
    assert not (kernel / "clocks.json").exists()


def test_what_an_earlier_change_left_stays_on_record(behaving: Agent, kernel: Path) -> None:
    keep = kernel / "clocks.json"
    left = [[str(kernel / "dmc" / "governor"), "dmc_ondemand"]]
    keep.write_text(json.dumps(left))
    pair = [left[0][0], "userspace"]
    done = behaving.result("write_clocks", values=[pair], keep=str(keep))
    assert done["refused"] == [[pair[0], "it cannot be read"]]
    assert json.loads(keep.read_text()) == left
