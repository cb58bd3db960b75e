"""``rknntui monitor``: on a pipe, on a terminal, as JSON, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.devices.watch.recording import Recorder
from engine.wire.board import BoardFacts, BoardState, SystemMemory, Temperature
from engine.wire.monitor import BoardNote, BoardSample
from rknntui.cli import output
from rknntui.cli.commands.monitor import command
from tests.devices import verbs
from tests.devices.conftest import Boards
from tests.devices.waiting import processes, until
from tests.safety import ends

STATE = BoardState(
    npu_load=(10.0, 20.0, 30.0),
    npu_clock=1_000_000_000,
    temperatures=(Temperature("npu-thermal", 41.615),),
    memory=SystemMemory(8 << 30, 7 << 30),
)
BARE = BoardState(missing=(("npu_load", "root only"), ("ddr_clock", "root only")))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Of two boards, one of which goes away."""
    path = tmp_path / "a $(touch x).jsonl"
    recorder = Recorder(path, 10.0, force=False)
    recorder.write(BoardFacts("adb:one", "emulated", "rk3588", "A board", cores=3))
    recorder.write(BoardNote("adb:one", "It is slow."))
    for at in (0.1, 0.2):
        recorder.write(BoardSample("adb:one", at, STATE))
    recorder.write(BoardFacts("adb:two", "measured", "rk3566"))
    for at in (0.25, 0.3):
        recorder.write(BoardSample("adb:two", at, BARE))
    recorder.write(BoardSample("adb:two", 0.4, None, "It has gone. Tried again in 1 s."))
    recorder.close(0.5)
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return verbs.run("monitor", *arguments)


def test_a_recording_is_printed(recording: Path) -> None:
    done = run("--replay", str(recording), "--speed", "0")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    looked = "adb:one (emulated)  0.10 s  NPU  10  20  30 %  1000 MHz  41.6 °C  1.00 GiB"
    assert lines[0] == looked
    assert lines[2] == "adb:two (measured)  0.25 s  NPU - %  -  -  -"
    assert lines[4] == "adb:two  0.40 s  It has gone. Tried again in 1 s."
    assert "adb:one: rk3588, A board, 2 samples (emulated)" in lines
    assert "adb:two: rk3566, 2 samples, 1 missed (measured)" in lines
    cells = [line.split() for line in lines]
    assert [*["NPU", "load,", "core", "2,", "%"], "30.0", "30.0", "30.0"] in cells
    assert lines[-1] == "0.50 s"
    assert done.stderr.count("adb:two: no NPU load: root only") == 1
    assert "adb:one: It is slow." in done.stderr


def test_as_json_every_line_is_an_object(recording: Path) -> None:
    done = run("--replay", str(recording), "--speed", "0", "--json")
    assert done.returncode == 0
    found = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [next(key for key in each if key != "label") for each in found]
    assert kinds == ["board", "note", *["sample"] * 2, "board", *["sample"] * 3, "summary"]
    looks = [each for each in found if "sample" in each]
    assert {each.get("label") for each in looks} == {"emulated", "measured", None}
    # what could not be read was not measured
    assert all((each["sample"].get("state") is None) == ("label" not in each) for each in looks)
    assert found[-1]["summary"]["boards"][0]["npu_clock"]["mean"] == 1e9


@pytest.mark.parametrize(
    "arguments",
    [
        ["--replay", "x", "--device", "y"],
        ["--replay", "x", "--record", "y"],
        ["--speed", "2"],
        ["--hz", "11"],
        ["--hz", "0"],
        ["--seconds", "0"],
    ],
)
def test_what_does_not_go_together(arguments: list[str]) -> None:
    assert CliRunner().invoke(command, arguments).exit_code == 2


def test_lines_of_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "3")
    lines = output.LiveLines()
    assert lines.show(["one\x1b[2J", "a line that is too long", "one too many"])
    assert lines.show(["one", "two"], ["for good"])
    first, second = capsys.readouterr().out.split("\x1b[J\n")[:2]
    assert first == "\r\x1b[Kone[2J\n\r\x1b[Ka line that is too…"
    assert second == "\x1b[2A\r\x1b[Kfor good\n\r\x1b[Kone\n\r\x1b[Ktwo"


def workers(home: Path) -> list[int]:
    """Worker processes of this test."""
    return processes(f"HOME={home}", "engine.services")


@pytest.mark.adb
@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_ends_it_with_the_summary(
    board: Boards, number: signal.Signals, own_home: Path, tmp_path: Path
) -> None:
    made = board("rk3588")
    made.set_load((10, 20, 30))
    path = tmp_path / "recording"
    asked = ("--device", made.address, "--hz", "10", "--record", str(path))
    with ends(), verbs.running("monitor", *asked) as process:
        assert process.stdout is not None
        assert "NPU  10  20  30 %  1000 MHz  41.5 °C" in process.stdout.readline()
        process.send_signal(number)
        rest = process.stdout.read()
        assert process.wait() == 0
    assert f"recorded to {path}" in rest
    assert "samples (emulated)" in rest
    until(lambda: not workers(own_home), "the worker has ended")
    until(lambda: not made.alive_orphans(), "no program of ours runs on the board")
    refused = run("--device", made.address, "--record", str(path))
    assert refused.returncode == 11
    assert "--force" in refused.stderr


@pytest.mark.adb
@pytest.mark.long
def test_it_ends_when_nobody_reads(board: Boards, own_home: Path) -> None:
    made = board("rk3588")
    with ends(), verbs.running("monitor", "--device", made.address, "--hz", "10") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait() == 0
    until(lambda: not workers(own_home), "the worker has ended")
    until(lambda: not made.alive_orphans(), "no program of ours runs on the board")


@pytest.mark.adb
@pytest.mark.long
def test_on_a_terminal_there_is_a_line_for_each_board(board: Boards) -> None:
    one, two = board("rk3588"), board("rk1808")
    near, far = pty.openpty()
    devices = ("--device", one.address, "--device", two.address)
    seen = b""
    with ends(), verbs.running("monitor", *devices, stdout=far, stderr=far, text=False) as process:
        os.close(far)
        while seen.count(b"\x1b[2A") < 3:
            seen += os.read(near, 4096)
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # the end of a terminal
            while more := os.read(near, 4096):
                seen += more
        assert process.wait() == 0
    os.close(near)
    assert seen.count(b"no NPU load: the driver of this chip tells no load") == 1
    assert "NPU   0   0   0 %  1000 MHz  41.5 °C".encode() in seen
    assert b"samples (emulated)" in seen


@pytest.mark.adb
@pytest.mark.long
def test_a_board_that_is_not_there(board: Boards) -> None:
    board("rk3588")
    done = run("--device", "adb:nobody", "--seconds", "0.5", "--json")
    assert done.returncode == 13
    first = json.loads(done.stdout.splitlines()[0])
    assert "nobody is not there" in first["sample"]["problem"]
