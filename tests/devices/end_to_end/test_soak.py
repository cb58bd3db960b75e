"""Five hundred runs of a model on boards: nothing grows here or there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.devices.address import Address
from tests.devices.adb_server import AdbServer
from tests.devices.conftest import Libraries, SshBoards
from tests.devices.known_model import answers
from tests.devices.verbs import emulating
from tests.devices.waiting import Held, held, until
from tests.safety import PATIENCE

pytestmark = [pytest.mark.long, pytest.mark.cc]

SETTLED = 50
"""Runs of each board after which nothing may grow any more."""
GROWTH = 4 << 10
"""KiB that allocators may keep in all the cycles that follow: ten for each."""


class Program:
    """The program of :mod:`tests.devices.end_to_end.cycling`, in a process of its own."""

    def __init__(self, model: Path, repository: Path) -> None:
        words = [sys.executable, "-m", "tests.devices.end_to_end.cycling", str(model)]
        self._process = subprocess.Popen(
            words, cwd=repository, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid

    def run(self, count: int, addresses: Sequence[Address]) -> None:
        """So many runs on each board."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join([str(count), *map(str, addresses)]) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as ending:
            ending.communicate(timeout=PATIENCE)
        assert ending.returncode == 0


def grown(processes: dict[str, int], roots: Sequence[Path], soak: Callable[[], object]) -> None:
    """Hold every process and the board's files against what they were before the soak.

    Args:
        processes: name -> pid.
        roots: folders that are the boards' file systems.
        soak: what must not make them grow.
    """
    before = {name: held(pid) for name, pid in processes.items()}
    files = [sorted(str(path) for path in root.rglob("*")) for root in roots]
    soak()
    for name, pid in processes.items():
        old = before[name]

        def settled(pid: int = pid, old: Held = old) -> bool:
            now = held(pid)
            return (
                now.files <= old.files
                and now.threads <= old.threads
                and now.children <= old.children
            )

        until(settled, f"{name}: {old}, and now {held(pid)}")
        print(f"{name}: {old} before, {held(pid)} after")
        assert held(pid).memory - old.memory < GROWTH, name
    assert [sorted(str(path) for path in root.rglob("*")) for root in roots] == files


@pytest.mark.adb
def test_over_adb(adb_server: AdbServer, model: Path, repository: Path) -> None:
    with (
        emulating("rk3588") as (first, facts),
        emulating("rk3588") as (second, more),
        Program(model, repository) as program,
    ):
        roots = [Path(board["root"]) for board in (facts, more)]
        for root in roots:
            answers().into(root / "usr/lib/answers", model)
        addresses = [Address("adb", board["address"]) for board in (facts, more)]
        for address in addresses:
            adb_server.connect(address.name)
        program.run(SETTLED, addresses)
        assert adb_server.process is not None
        processes = {
            "the program": program.pid,
            "a board": first.pid,
            "the other board": second.pid,
            "the adb server": adb_server.process.pid,
        }
        grown(processes, roots, lambda: program.run(500 // len(addresses) - SETTLED, addresses))


@pytest.mark.sshd
def test_over_ssh(
    ssh_board: SshBoards,
    libraries: Libraries,
    model: Path,
    repository: Path,
) -> None:
    made, address = ssh_board("rk3588")
    made.knows(libraries(), answers(), model)
    with Program(model, repository) as program:
        program.run(SETTLED, [address])
        processes = {"the program": program.pid}
        grown(processes, [made.root], lambda: program.run(100, [address]))
