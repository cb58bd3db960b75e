"""The command line: a process of its own as for a user, or one command among others in this one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from engine import Worker
from rknntui.cli import root, session
from tests.safety import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ran:
    """What a command left: exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)

    def checked(self, code: int | None, says: str | tuple[str, ...]) -> Self:
        """The same; fails on a traceback, on another exit code where one is given, and where a text
        is missing in what is printed, of a failure in what is told of it.
        """
        assert "Traceback" not in self.out + self.err, self.err
        assert code in (None, self.code), self.err
        for text in (says,) if isinstance(says, str) else says:
            assert text in (self.err if self.code else self.out), self.out + self.err
        return self


Run = Callable[..., Ran]


def start(
    *arguments: str | Path, cwd: Path | None = None, stdin: int | None = None, **variables: str
) -> subprocess.Popen[str]:
    """``rknntui ARGUMENTS``, which runs meanwhile."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "rknntui", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], typed: str | None = None) -> Ran:
    """What a program left that was given a text to read; it is killed where it does not end."""
    with process:
        try:
            out, err = process.communicate(typed, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return Ran(process.returncode, out, err)


def python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program of Python that has run with ours to import."""
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def rknntui(tmp_path: Path) -> Run:
    """Run ``rknntui ARGUMENTS`` in ``tmp_path`` (or ``cwd``); fails on a traceback, on another exit
    code than ``exit`` where that is given, and where it says none of ``says``.
    """

    def run(
        *arguments: str | Path,
        cwd: Path | None = None,
        exit: int | None = None,  # noqa: A002 - of the exit code
        says: str | tuple[str, ...] = (),
    ) -> Ran:
        process = start(*arguments, cwd=cwd or tmp_path, stdin=subprocess.DEVNULL)
        return ended(process).checked(exit, says)

    return run


class _Kept:
    """A worker that stays when a command ends it."""

    def __init__(self, worker: Worker) -> None:
        self.call, self.submit = worker.call, worker.submit

    async def close(self) -> None:
        """Leave the worker running for the next command."""


@pytest.fixture(scope="session")
def kept_worker(session_home: Path) -> Iterator[tuple[asyncio.Runner, Worker]]:
    """One real worker, and its loop, for the commands of all modules."""
    with asyncio.Runner() as runner:
        worker = runner.run(Worker.start())
        yield runner, worker
        runner.run(worker.close())


@pytest.fixture
def commands_share_a_worker(
    kept_worker: tuple[asyncio.Runner, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands in this process ask the worker of the session, whose cache is not the test's."""
    runner, worker = kept_worker

    class Started:
        @staticmethod
        async def start() -> _Kept:
            return _Kept(worker)

    monkeypatch.setattr(session, "Worker", Started)
    monkeypatch.setattr(asyncio, "run", runner.run)


@pytest.fixture
def warm(
    commands_share_a_worker: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Run:
    """As :func:`rknntui`, without its two starts of a process, which take a second a command."""

    def run(
        *arguments: str | Path,
        cwd: Path | None = None,
        exit: int | None = None,  # noqa: A002 - of the exit code
        says: str | tuple[str, ...] = (),
    ) -> Ran:
        monkeypatch.chdir(cwd or tmp_path)
        capfd.readouterr()
        code = root.run([*map(str, arguments)])
        out, err = capfd.readouterr()
        return Ran(code, out, err).checked(exit, says)

    return run
