"""Five hundred runs of a model on boards: nothing grows here or there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from engine.devices.address import Address
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput
from engine.devices.emulator.emulator import BoardEmulator
from engine.devices.reach import reach
from tests.devices.adb_server import AdbServer
from tests.devices.known_model import IMAGE, SCALE, SCORES, ZERO, answers
from tests.devices.test_commands import emulating
from tests.devices.waiting import alive, until

pytestmark = [pytest.mark.long, pytest.mark.cc]

EXPECTED = (SCORES.astype(np.float32) - ZERO) * SCALE
SESSION, OPENED = 25, 5
"""Runs of one session with the board, and of one opened model."""
SETTLED = 50
"""Runs of each board after which nothing may grow any more."""
GROWTH = 4 << 10
"""KiB that allocators may keep in all the cycles that follow: ten for each."""


@dataclass(frozen=True)
class Held:
    """What a process has, and what is on the board."""

    memory: int
    files: int
    threads: int
    children: int


def held(pid: int | str) -> Held:
    place = Path(f"/proc/{pid}")
    facts = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    children = [
        child
        for task in (place / "task").iterdir()
        for child in (task / "children").read_text().split()
        if alive(int(child))  # what serves SSH has ended, and is waited for at the end
    ]
    return Held(
        int(facts["VmRSS"].split()[0]),
        len(list((place / "fd").iterdir())),
        int(facts["Threads"]),
        len(children),
    )


def cycles(address: Address, model: Path, count: int) -> None:
    """Open, run and close a model; the figures have to be right each time."""
    for _ in range(count // SESSION):
        with closing(reach(address)) as board, BoardRuntime(board, chip="rk3588") as runtime:
            for cycle in range(SESSION):
                if cycle % OPENED == 0:
                    runtime.open(model, perf=bool(cycle % 2))
                (output,) = runtime.run([BoardInput(IMAGE)], loops=2).outputs
                np.testing.assert_array_equal(output.array, EXPECTED)


def grown(
    processes: dict[str, int | str], roots: Sequence[Path], soak: Callable[[], object]
) -> None:
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

        def settled(pid: int | str = pid, old: Held = old) -> bool:
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
def test_over_adb(adb_server: AdbServer, model: Path) -> None:
    with emulating("rk3588") as (first, facts), emulating("rk3588") as (second, more):
        roots = [Path(board["root"]) for board in (facts, more)]
        for root in roots:
            answers().into(root / "usr/lib/answers", model)
        addresses = [Address("adb", board["address"]) for board in (facts, more)]
        for address in addresses:
            adb_server.connect(address.name)

        def run(count: int) -> None:
            with ThreadPoolExecutor(len(addresses)) as both:
                list(both.map(lambda address: cycles(address, model, count), addresses))

        run(SETTLED)
        assert adb_server.process is not None
        processes: dict[str, int | str] = {
            "this program": "self",
            "a board": first.pid,
            "the other board": second.pid,
            "the adb server": adb_server.process.pid,
        }
        grown(processes, roots, lambda: run(500 // len(addresses) - SETTLED))


@pytest.mark.sshd
def test_over_ssh(
    ssh_board: Callable[..., tuple[BoardEmulator, Address]],
    libraries: Callable[..., Path],
    model: Path,
) -> None:
    made, address = ssh_board("rk3588")  # in this process: what grows there grows here
    made.image.install_runtime(libraries())
    answers().into(made.root / "usr/lib/answers", model)
    cycles(address, model, SETTLED)
    grown({"this program": "self"}, [made.root], lambda: cycles(address, model, 100))
