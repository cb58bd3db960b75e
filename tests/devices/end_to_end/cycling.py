"""Runs a model on boards again and again, as a process of its own: ``python -m ... MODEL``.

It reads lines ``COUNT ADDRESS...`` and writes ``done`` for each: so many runs on each board, at the
same time. Its memory is that of the program; a process that runs other tests has grown by theirs.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np

from engine.devices.address import Address
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput
from engine.devices.transports import reach
from tests.devices.known_model import IMAGE, SCALE, SCORES, ZERO

EXPECTED = (SCORES.astype(np.float32) - ZERO) * SCALE
SESSION, OPENED = 25, 5
"""Runs of one session with the board, and of one opened model."""


def cycles(address: Address, model: Path, count: int) -> None:
    """Open, run and close a model; the figures have to be right each time."""
    for _ in range(count // SESSION):
        with closing(reach(address)) as board, BoardRuntime(board, chip="rk3588") as runtime:
            for cycle in range(SESSION):
                if cycle % OPENED == 0:
                    runtime.open(model, perf=bool(cycle % 2))
                (output,) = runtime.run([BoardInput(IMAGE)], loops=2).outputs
                np.testing.assert_array_equal(output.array, EXPECTED)


def main() -> None:
    """Do what is asked for until the input ends."""
    model = Path(sys.argv[1])
    for line in sys.stdin:
        count, *names = line.split()
        with ThreadPoolExecutor(len(names)) as all_boards:
            work = [
                all_boards.submit(cycles, Address.parse(name), model, int(count)) for name in names
            ]
            for each in work:
                each.result()
        print("done", flush=True)


if __name__ == "__main__":
    main()
