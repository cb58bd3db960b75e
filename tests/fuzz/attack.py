"""Throw damaged files at one reader: ``python -m tests.fuzz.attack READER COUNT FOLDER ZOO``.

Runs in a process of its own, so that a crash of native code is seen and memory is measured. Prints
one line of JSON: how many loaded and how many were refused, the slowest, the peak of memory above
what the seeds take, and everything else that happened.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.base.errors import EngineError, InternalError
from tests.fuzz.handlers import HANDLERS
from tests.fuzz.mutate import mutant
from tests.fuzz.readers import READERS, Attack
from tests.safety import ends

SECONDS = 60
SHOWN = 5


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def attempt(read: Callable[[], object], what: str, seen: dict[str, Any]) -> None:
    begun = time.perf_counter()
    try:
        with ends(SECONDS):
            read()
        seen["loaded"] += 1
    except BaseException as error:  # noqa: BLE001 - whatever else comes out is what is looked for
        if isinstance(error, EngineError) and not isinstance(error, InternalError):
            seen["refused"] += 1
        else:
            seen["wrong"] += 1
            if len(seen["faults"]) < SHOWN:
                where = traceback.format_exc().strip().split("\n")[-7:]
                seen["faults"].append([what, repr(error)[:300], where])
    seconds = time.perf_counter() - begun
    if seconds > seen["slowest"][0]:
        seen["slowest"] = [round(seconds, 3), what]


def attack(aim: Attack, count: int, folder: Path) -> dict[str, Any]:
    """Read ``count`` mutants of the seeds in turn, one damaged file at a time."""
    seen: dict[str, Any] = {"loaded": 0, "refused": 0, "wrong": 0, "faults": [], "slowest": [0, ""]}
    for case in aim.cases:
        for name, (content, _) in case.files.items():
            (folder / name).write_bytes(content)
        aim.read(folder / case.main)  # the seed itself loads
    before = peak_mb()
    targets = [(case, name) for case in aim.cases for name in case.files]
    progress = folder.parent / "progress"
    for number in range(count):
        case, name = targets[number % len(targets)]
        content, text = case.files[name]
        path = folder / name
        path.write_bytes(mutant(content, number, text=text))
        progress.write_text(f"{name} {number}")  # where a crash of native code happened
        attempt(lambda case=case: aim.read(folder / case.main), f"{name} {number}", seen)
        path.write_bytes(content)
    seen["grown_mb"] = round(peak_mb() - before, 1)
    return seen


def main() -> None:
    reader, count, folder, zoo = sys.argv[1:5]
    aim = {**READERS, **HANDLERS}[reader](Path(zoo))
    print(json.dumps(attack(aim, int(count), Path(folder))))


if __name__ == "__main__":
    main()
