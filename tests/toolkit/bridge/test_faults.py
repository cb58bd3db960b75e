"""What goes wrong in the toolkit's process, and what is left of it: a clear error, nothing else."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import (
    CompilerError,
    EngineError,
    JobCancelledError,
    OutputError,
    ToolkitError,
)
from engine.base.events import CallbackReporter
from engine.base.leftovers import clear_leftovers
from engine.base.process import ProcessId
from engine.toolkit.bridge.log import LOG_NAME, ToolkitLog
from engine.toolkit.toolkit import RemoteRKNN, Toolkit
from engine.wire.vendor import ToolkitEnvironment
from tests.devices.waiting import until
from tests.safety import small_disk
from tests.toolkit.bridge.conftest import Start

Faulty = Callable[..., Toolkit]
STAGES = (
    "RKNN", "config", "load_onnx", "build", "export_rknn", "load_rknn", "init_runtime",
    "inference", "eval_perf", "release",
)  # fmt: skip


@pytest.fixture
def faulty(start: Start, monkeypatch: pytest.MonkeyPatch) -> Faulty:
    """Starts a process in which a stage goes wrong, such as ``build:hang``."""

    def make(fault: str, **changes: Any) -> Toolkit:
        monkeypatch.setenv("STANDIN_FAULT", fault)
        return start(**changes)

    return make


def loaded(toolkit: Toolkit, source: Path) -> RemoteRKNN:
    rknn = toolkit.rknn()
    rknn.call("load_onnx", source)
    return rknn


def go_through(toolkit: Toolkit, source: Path) -> None:
    """Every stage of a script of the manual."""
    rknn, target = toolkit.rknn(), toolkit.work / "out.rknn"
    rknn.call("config", target_platform=["rk1808"])
    rknn.call("load_onnx", model=source)
    rknn.call("build", do_quantization=False, seconds=30)
    rknn.call("export_rknn", target)
    rknn.call("load_rknn", target)
    rknn.call("init_runtime")
    rknn.call("inference", [memoryview(bytes(144))])
    rknn.call("eval_perf")
    rknn.release()


def named(name: str, folder: Path, python: Path) -> ToolkitEnvironment:
    return ToolkitEnvironment(
        name=name, folder=str(folder), python=str(python), generation=1, managed=True
    )


def check_gone(toolkit: Toolkit, before: ProcessId) -> None:
    """Nothing of it runs, nothing of it is left but the log."""
    toolkit.close()
    assert not before.alive
    assert [path.name for path in toolkit.log.parent.iterdir()] == [LOG_NAME]


@pytest.mark.parametrize(
    "stage",
    [one if one == "build" else pytest.param(one, marks=pytest.mark.long) for one in STAGES],
)
def test_killed_at_every_stage(stage: str, faulty: Faulty, source: Path) -> None:
    toolkit = faulty(f"{stage}:kill")
    process = ProcessId.of(toolkit.pid)
    with pytest.raises(CompilerError) as caught:
        go_through(toolkit, source)
    named = "RKNN()" if stage == "RKNN" else stage
    told = "The process of rknn-toolkit 1.3.2+standin was killed by SIGKILL during "
    assert caught.value.what.startswith(told + named)
    assert "out of memory" in caught.value.cause
    assert str(toolkit.log) in caught.value.remedy
    assert not toolkit.alive
    with pytest.raises(CompilerError, match="killed by SIGKILL"):
        toolkit.rknn()
    check_gone(toolkit, process)


ENDS = {
    "exit": ("build ended the toolkit's program with exit code 3.", "relu_1"),
    "_exit": ("ended with exit code 7 during build, at relu_1.", "relu_1"),
    "abort": ("was killed by SIGABRT during build, at conv_7.", "conv_7' is too wide for the NPU"),
    "raise": ("build of the toolkit raised KeyError: 'a layer'", "KeyError: 'a layer'"),
    "garbage": ("gave no answer that can be read: a line is not JSON during build", "relu_1"),
}


@pytest.mark.parametrize("kind", ENDS)
def test_how_it_ended_is_told(kind: str, faulty: Faulty, source: Path) -> None:
    toolkit = faulty(f"build:{kind}")
    process = ProcessId.of(toolkit.pid)
    with pytest.raises(CompilerError) as caught:
        go_through(toolkit, source)
    what, cause = ENDS[kind]
    assert what in caught.value.what
    assert cause in caught.value.cause
    assert toolkit.alive == (kind in ("exit", "raise"))
    assert not (toolkit.work / "out.rknn").exists()
    check_gone(toolkit, process)


def test_a_hang_is_ended_by_the_time_that_is_given(faulty: Faulty, source: Path) -> None:
    """With the interpreter's lock held: no thread of the far side could end it."""
    toolkit = faulty("build:hang")
    process = ProcessId.of(toolkit.pid)
    rknn = loaded(toolkit, source)
    with pytest.raises(CompilerError) as caught:
        rknn.call("build", do_quantization=False, seconds=0.2)
    assert "build of the toolkit was stopped: it had worked for more than 0.2 s" in str(
        caught.value
    )
    assert "at relu_1" in caught.value.what
    with pytest.raises(CompilerError, match="had worked for more than"):
        rknn.call("release")
    check_gone(toolkit, process)


def test_a_long_silence_is_told_with_what_to_do(
    faulty: Faulty, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.toolkit.toolkit._SILENT_SECONDS", 0.1)
    told: list[str] = []
    toolkit = faulty(
        "build:hang",
        reporter=CallbackReporter(lambda event: told.append(getattr(event, "text", ""))),
    )
    rknn = loaded(toolkit, source)
    with pytest.raises(CompilerError, match="had worked for more than"):
        rknn.call("build", do_quantization=False, seconds=1.0)
    still = [text for text in told if "still works on build" in text]
    assert 1 <= len(still) <= 4  # each after twice the time
    assert "has printed nothing for" in still[0]
    assert "--seconds" in still[0]


def test_cancel_ends_it_and_what_it_started(faulty: Faulty, source: Path) -> None:
    asked: list[float] = []

    def cancelled() -> bool:
        asked.append(time.monotonic())
        return toolkit.log.stat().st_size > 0 and len(asked) > 3

    toolkit = faulty("build:hang", reporter=CallbackReporter(lambda _: None, cancelled))
    process = ProcessId.of(toolkit.pid)
    rknn = loaded(toolkit, source)
    with pytest.raises(JobCancelledError):
        rknn.call("build", do_quantization=False)
    with pytest.raises(ToolkitError, match="was stopped"):
        toolkit.rknn()
    check_gone(toolkit, process)


@pytest.mark.long
def test_a_runaway_printer_fills_no_disk(
    faulty: Faulty, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.toolkit.bridge.log._HEAD", 1 << 20)
    lines = 0

    def told(_event: object) -> None:
        nonlocal lines
        lines += 1

    toolkit = faulty("build:flood", reporter=CallbackReporter(told))
    rknn = loaded(toolkit, source)
    mark = toolkit.mark
    assert rknn.call("build", do_quantization=False) == 0
    assert toolkit.mark - mark > 80 << 20
    assert len(toolkit.since(mark)) < 3 << 20
    assert "line 199999 " in toolkit.since(mark)
    assert "line 5 " in toolkit.since(mark)
    toolkit.close()
    assert toolkit.log.stat().st_size < 3 << 20
    assert lines < 21_000
    assert "bytes are left out" in toolkit.log.read_text()


@pytest.mark.long
def test_memory_beyond_the_limit_is_an_error_of_its_own(faulty: Faulty, source: Path) -> None:
    toolkit = faulty("build:memory", memory=256 << 20)
    with pytest.raises(CompilerError, match="build of the toolkit raised MemoryError"):
        go_through(toolkit, source)
    assert toolkit.alive


def test_no_room_is_told_as_such(
    start: Start, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", "build:disk")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, before[1]))
    try:
        toolkit = start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with pytest.raises(OutputError, match="build could not write a file: File too large") as caught:
        go_through(toolkit, source)
    assert "TMPDIR" in caught.value.remedy
    assert not (toolkit.work / "out.rknn").exists()


def test_a_full_disk_is_named(
    standin: ToolkitEnvironment, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", "build:disk")
    with small_disk(tmp_path / "disk", "3m") as disk:
        with Toolkit(standin, disk, reads=[source]) as toolkit:
            with pytest.raises(OutputError, match="No space left on device"):
                go_through(toolkit, source)
            rknn = toolkit.rknn()
            assert rknn.call("build") == -1
            assert f"disk of {disk}" in toolkit.refused("build", 0).cause
        assert [path.name for path in disk.iterdir()] == [LOG_NAME]
        (disk / "fill").write_bytes(bytes((3 << 20) - (toolkit.log.stat().st_size + 8192)))
        with pytest.raises(OutputError, match="No space left"), Toolkit(standin, disk) as toolkit:
            toolkit.rknn().call("inference", [memoryview(bytes(8 << 20))])
        assert {path.name for path in disk.iterdir()} <= {LOG_NAME, "fill"}


def test_the_environment_is_removed_under_it(
    start: Start, standin: ToolkitEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "environment"
    shutil.copytree(standin.folder, folder, symlinks=True)
    moved = named("moved", folder, folder / "bin" / "python")
    early, late = start(moved), start(moved)
    rknn = late.rknn()
    monkeypatch.setenv("STANDIN_FAULT", "config:abort")
    shutil.rmtree(folder)
    with pytest.raises(ToolkitError) as caught:
        early.rknn()
    assert f"environment {folder} is not there any more" in caught.value.cause
    os.kill(late.pid, signal.SIGSEGV)
    with pytest.raises(CompilerError, match="SIGSEGV") as crashed:
        rknn.call("config")
    assert f"environment {folder} is not there any more" in crashed.value.cause
    with pytest.raises(ToolkitError, match="is not there") as gone:
        start(moved)
    assert "rknntui vendor" in gone.value.remedy


BROKEN = {
    "no program": (None, "could not be started"),
    "ends at once": ("exit 9", "ended with exit code 9"),
    "prints": ("echo no JSON; sleep 60", "gave no answer that can be read"),
    "says nothing": ("sleep 60", "had worked for more than 0.3 s"),
    "prints without end": ("exec yes", "gave no answer that can be read"),
}


@pytest.mark.parametrize(
    "kind",
    [
        one if one in ("prints", "no program") else pytest.param(one, marks=pytest.mark.long)
        for one in BROKEN
    ],
)
def test_a_python_that_is_none(kind: str, tmp_path: Path, start: Start) -> None:
    script, words = BROKEN[kind]
    python = tmp_path / "python"
    python.write_text("neither" if script is None else f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    broken = named("broken", tmp_path, python)
    with pytest.raises(EngineError, match=words) as caught:
        start(broken).rknn(seconds=0.3)
    assert isinstance(caught.value, ToolkitError)
    assert caught.value.remedy
    assert not list(tmp_path.rglob(".toolkit.*"))


def near_side(environment: ToolkitEnvironment, *folders: Path) -> subprocess.Popen[str]:
    """A near side of its own, which asks for a build and closes nothing."""
    words = [sys.executable, "-c", NEAR, environment.folder, environment.python]
    return subprocess.Popen([*words, *map(str, folders)], stdout=subprocess.PIPE, text=True)


NEAR = """
import sys, time
from pathlib import Path
from engine.toolkit.environments.registry import environment_of
from engine.toolkit.environments.registry import Entry
from engine.toolkit.toolkit import Toolkit
folder, python, kept, source = sys.argv[1:]
environment = environment_of(Entry("s", folder, python, generation=1))
toolkit = Toolkit(environment, Path(kept), reads=[Path(source)])
print(toolkit.pid, toolkit.run_folder, flush=True)
rknn = toolkit.rknn()
rknn.call("load_onnx", source)
rknn.call("build", do_quantization=False)
"""


def test_one_that_nobody_closed_goes_with_the_interpreter(
    standin: ToolkitEnvironment, kept: Path, source: Path
) -> None:
    near = near_side(standin, kept, source)
    pid, _, folder = near.communicate()[0].strip().partition(" ")
    assert near.returncode == 0
    assert not ProcessId.of(int(pid)).alive
    assert not Path(folder).exists()
    assert [path.name for path in kept.iterdir()] == [LOG_NAME]


def test_it_ends_with_the_near_side_however_that_ends(
    standin: ToolkitEnvironment, kept: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill -9 of the near side, in a call that keeps the interpreter's lock."""
    monkeypatch.setenv("STANDIN_FAULT", "build:hang")
    near = near_side(standin, kept, source)
    assert near.stdout is not None
    pid, _, folder = near.stdout.readline().strip().partition(" ")
    far = ProcessId.of(int(pid))
    assert far.alive
    log = kept / LOG_NAME
    try:
        until(lambda: "relu_1" in log.read_text(), "the call begins")
    finally:
        near.kill()
        near.wait()
        near.stdout.close()
    until(lambda: not far.alive, "the far side ends")
    assert Path(folder).is_dir()
    clear_leftovers()
    assert [path.name for path in kept.iterdir()] == [LOG_NAME]


def test_a_log_on_a_full_disk_loses_its_middle(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        log = ToolkitLog(disk / LOG_NAME, None)
        for number in range(20_000):
            log.add(b"line %d\n" % number)
        text = log.since(0)
        assert text.startswith("line 0\nline 1\n")
        assert text.endswith("line 19999\n")
        log.close()
