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

    def checked(self, code: int | None) -> Self:
        """The same; fails on a traceback, and on another exit code where one is given."""
        assert "Traceback" not in self.out + self.err, self.err
        assert code in (None, self.code), self.err
        return self


Run = Callable[..., Ran]


@pytest.fixture
def rknntui(tmp_path: Path) -> Run:
    """Run ``rknntui ARGUMENTS`` in ``tmp_path`` (or ``cwd``); fails on a traceback, and on another
    exit code than ``exit`` where that is given.
    """

    def run(
        *arguments: str | Path,
        cwd: Path | None = None,
        timeout: float = 120,
        exit: int | None = None,  # noqa: A002 - of the exit code
    ) -> Ran:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "rknntui", *map(str, arguments)],
            cwd=cwd or tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr).checked(exit)

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
    ) -> Ran:
        monkeypatch.chdir(cwd or tmp_path)
        capfd.readouterr()
        code = root.run([*map(str, arguments)])
        out, err = capfd.readouterr()
        return Ran(code, out, err).checked(exit)

    return run
