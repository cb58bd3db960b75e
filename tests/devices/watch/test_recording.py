"""Recordings: whole after a crash, the same when shown again, and never believed."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.base.errors import JobCancelledError, OutputError, OutputExistsError, UsageError
from engine.base.events import CallbackReporter
from engine.devices.watch.board_watch import Told
from engine.devices.watch.recording import Recorder, Recording
from engine.devices.watch.watch import replay_recording
from engine.wire.board import BoardFacts, BoardState, SystemMemory, Temperature
from engine.wire.monitor import BoardNote, BoardSample, ReplayParams, WatchParams
from tests.devices.probe.boards import rk1808
from tests.devices.watch.watching import Heard, hears, watching

STATE = BoardState(
    npu_load=(1.0, 2.5, 100.0),
    npu_clock=1_000_000_000,
    npu_governor="rknpu_ondemand",
    cpu_clocks=(("policy0", 1_800_000_000),),
    temperatures=(Temperature("npu-thermal", 41.615),),
    memory=SystemMemory(8 << 30, 7 << 30),
    missing=(("ddr_clock", "root only"),),
)
TOLD: list[Told] = [
    BoardFacts("adb:x", "emulated", "rk3588", "A board", "1234", "Debian", "5.10.160", 3),
    BoardNote("adb:x", "It is slow."),
    BoardSample("adb:x", 0.1, STATE),
    BoardSample("adb:y", 0.15, None, "There is no such board."),
    BoardSample("adb:x", 0.2, STATE),
]


def recorded(path: Path, *, end: bool = True) -> Path:
    """A recording of what is above."""
    recorder = Recorder(path, 10.0, force=False)
    for told in TOLD:
        assert recorder.write(told) == ""
    if end:
        recorder.close(0.25)
    return path


def read(path: Path) -> tuple[list[Told], Recording]:
    with Recording(path) as recording:
        return list(recording), recording


def test_what_was_told_comes_back(tmp_path: Path) -> None:
    found, recording = read(recorded(tmp_path / "a"))
    assert found == TOLD
    assert (recording.hertz, recording.seconds, recording.note) == (10.0, 0.25, "")


def test_a_watch_that_was_killed_loses_nothing_that_was_told(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a", end=False)
    found, recording = read(path)
    assert found == TOLD
    assert (recording.seconds, "interrupted" in recording.note) == (0.2, True)
    with path.open("ab") as stream:
        stream.write(b'{"sample": {"device": "ad')
    found, recording = read(path)
    assert found == TOLD
    assert "cut off" in recording.note


def test_a_file_that_is_there_is_replaced_only_with_force(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a")
    before = path.read_bytes()
    with pytest.raises(OutputExistsError):
        Recorder(path, 1.0, force=False)
    assert path.read_bytes() == before
    recorder = Recorder(path, 2.0, force=True)
    assert read(path)[0] == []
    recorder.close(1.0)
    assert read(path)[1].hertz == 2.0
    with pytest.raises(OutputError):
        Recorder(tmp_path / "none" / "a", 1.0, force=True)
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_ends_the_recording_and_not_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    write, room = os.write, [3000]

    def limited(handle: int, data: bytes) -> int:
        if Path(f"/proc/self/fd/{handle}").readlink() != path:
            return write(handle, data)
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(handle, data[: room[0]])
        room[0] -= done
        return done

    monkeypatch.setattr(os, "write", limited)
    params = WatchParams(("adb:x",), hertz=10, record=str(path))
    with watching(params, lambda _: rk1808()) as heard:
        hears(heard, lambda: heard.warnings() and len(heard.answered()) > 8, "the disk is full")
    assert heard.result is not None
    assert "No space left" in heard.result.notes[0]
    assert heard.warnings() == [*heard.result.notes]
    found, recording = read(path)
    assert len(found) > 2
    assert "no end" in recording.note, "no line is cut off"


def test_a_recorded_watch_is_shown_again_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "it's a $(touch x).jsonl"
    params = WatchParams(("adb:x",), hertz=10, record=str(path))
    with watching(params, lambda _: rk1808()) as heard:
        hears(heard, lambda: len(heard.answered()) > 4, "it told")
    again = Heard()
    found = replay_recording(ReplayParams(str(path), speed=0), again.reporter)
    assert again.samples() == heard.samples()
    assert again.boards() == heard.boards()
    assert again.notes() == heard.notes()
    assert heard.result is not None
    assert found.boards == heard.result.boards
    assert found.seconds == heard.result.seconds
    assert heard.result.recorded == str(path)


def test_the_pace(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a")
    begun = time.monotonic()
    replay_recording(ReplayParams(str(path)), Heard().reporter)
    assert time.monotonic() - begun >= 0.2
    begun = time.monotonic()
    replay_recording(ReplayParams(str(path), speed=0.5), Heard().reporter)
    assert time.monotonic() - begun >= 0.4


def test_pausing_stops_the_clock_of_a_replay(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a")
    go_on = threading.Event()
    times: list[float] = []

    def paused() -> bool:
        if times and not go_on.is_set():
            threading.Timer(0.5, go_on.set).start()
            go_on.wait()
            times.append(time.monotonic())
        return False

    reporter = CallbackReporter(lambda _: times.append(time.monotonic()), paused)
    replay_recording(ReplayParams(str(path), speed=0.5), reporter)
    assert times[-1] - times[0] >= 0.85, "the pause and the recording, one after the other"


def test_a_replay_is_cancelled_and_finished(tmp_path: Path) -> None:
    path = tmp_path / "a"
    recorder = Recorder(path, 1.0, force=False)
    for at in (0.0, 1000.0):
        recorder.write(BoardSample("adb:x", at, STATE))
    recorder.close(2000.0)
    found = replay_recording(
        ReplayParams(str(path)), CallbackReporter(lambda _: None, finish=lambda: True)
    )
    assert found.seconds == 0.0
    heard = Heard()
    reporter = CallbackReporter(heard.events.append, lambda: bool(heard.samples()))
    with pytest.raises(JobCancelledError):
        replay_recording(ReplayParams(str(path)), reporter)


HEADER = '{"format":"rknntui-monitor","version":1,"hertz":10}\n'
BOARD = json.dumps({"board": {"device": "adb:x", "label": "measured"}}) + "\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is no recording"),
        ("\x7fELF", "is no recording"),
        ("[" * 60_000, "is no recording"),
        ('{"format": "else"}\n', "is no recording"),
        (HEADER.replace('"version":1', '"version":2'), "has version 2"),
        (HEADER.replace('"version":1', '"version":"\\u001b[2J"'), "has version"),
        (HEADER.replace('"hertz":10', '"hertz":-1'), "looks a second"),
        (HEADER.replace('"hertz":10', '"hertz":NaN'), "looks a second"),
        (HEADER + "x" * 70_000, "Line 2 .* more than 65536 bytes"),
        (HEADER + "[" * 60_000 + "\n", "Line 2 .* nested too deeply"),
        (HEADER + BOARD + "hello\n", "Line 3 "),
        (HEADER + "\xff\n", "Line 2 "),
        (HEADER + "[]\n", "Line 2 .* no object"),
        (HEADER + "{}\n", "Line 2 .* not one key"),
        (HEADER + '{"what": {}}\n', "Line 2 .* no 'what'"),
        (HEADER + '{"board": {"device": "x"}}\n', "Line 2 .* label"),
        (HEADER + BOARD.replace("measured", "guessed"), "Line 2 .* guessed"),
        (HEADER + BOARD.replace('"adb:x"', "[" * 20 + "]" * 20), "nested too deeply"),
        (HEADER + '{"sample": {"device": "x", "at": -1}}\n', "its time cannot be"),
        (HEADER + '{"sample": {"device": "x", "at": 1e12}}\n', "its time cannot be"),
        (HEADER + '{"sample": {"device": "x", "at": NaN}}\n', "a number in it cannot be"),
        (HEADER + '{"sample": {"device": "x", "at": 1e999}}\n', "a number in it cannot be"),
        (HEADER + '{"sample": {"device": "x", "at": %s}}\n' % ("9" * 5000), "Line 2 "),
        (HEADER + '{"sample": {"device": "x", "at": %s}}\n' % ("9" * 400), "cannot be"),
        (HEADER + '{"sample": {"device": "x", "at": 1, "more": %s}}\n' % ([0] * 300), "a list"),
        (HEADER + '{"end": {"seconds": -1}}\n', "its time cannot be"),
        (HEADER + '{"end": 3}\n', "its time cannot be"),
        (HEADER + '{"end": {"seconds": 1}}\n' + BOARD, "follows the end"),
        (HEADER + BOARD * 10_001, "more than 10000"),
    ],
)
def test_damaged_and_hostile_files_are_refused(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(UsageError, match=told) as caught:
        read(path)
    assert "\x1b" not in str(caught.value)
    assert len(caught.value.what) < 1000


def test_too_many_boards(tmp_path: Path) -> None:
    path = tmp_path / "a"
    lines = [BOARD.replace("adb:x", f"adb:{number}") for number in range(65)]
    path.write_text(HEADER + "".join(lines))
    with pytest.raises(UsageError, match="64 boards"):
        replay_recording(ReplayParams(str(path), 0), Heard().reporter)


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "none", ""):
        with pytest.raises(UsageError, match="could not be read"):
            Recording(tmp_path / name)


def test_texts_of_a_recording_are_fit_to_be_shown(tmp_path: Path) -> None:
    path = tmp_path / "a"
    facts: dict[str, Any] = {"device": "adb:\x1b]0;x\x07", "label": "measured", "model": "\u202ea"}
    path.write_text(HEADER + json.dumps({"board": facts}) + "\n")
    (found,), _ = read(path)
    assert isinstance(found, BoardFacts)
    assert (found.device, found.model) == ("adb:]0;x", "a")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.data())
def test_a_damaged_recording_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "whole"
    if not path.exists():
        recorded(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        match data.draw(st.sampled_from(("cut", "flip", "put in", "take out"))):
            case "cut":
                del content[at:]
            case "flip" if content:
                content[at] ^= 1 << data.draw(st.integers(0, 7))
            case "put in":
                content[at:at] = data.draw(st.binary(max_size=8))
            case "take out":
                del content[at : at + data.draw(st.integers(1, 40))]
    damaged = tmp_path / "damaged"
    damaged.write_bytes(content)
    try:
        found, recording = read(damaged)
    except UsageError:
        return
    assert len(found) <= len(TOLD) + 40
    assert 0 <= recording.seconds <= 1e9
    for told in found:
        if isinstance(told, BoardSample):
            assert 0 <= told.at <= 1e9
            assert told.problem.isprintable()
        assert told.device.isprintable()
