"""Damaged files for each reader of our own, and a fifth as many for each whole job: a clear error
or an answer, within bounds. The files are the same at every run; ``RKNNTUI_MUTANTS=2000`` takes
more of them, as after a change of a reader.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.handlers import HANDLERS
from tests.fuzz.mutate import mutant
from tests.fuzz.readers import READERS

MUTANTS = int(os.environ.get("RKNNTUI_MUTANTS", "600"))
JOBS = MUTANTS // 5
MEGABYTES = 1000
SHARES = {"remade": 2, "step2": 10}  # each mutant is run or built


def attacked(reader: str, count: int, tmp_path: Path, zoo: Path, root: Path) -> dict[str, Any]:
    folder = tmp_path / "files"
    folder.mkdir()
    command = [sys.executable, "-m", "tests.fuzz.attack", reader, str(count), str(folder), str(zoo)]
    ran = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=1500, check=False
    )
    progress = tmp_path / "progress"
    at = progress.read_text() if progress.exists() else "the seed"
    assert ran.returncode == 0, f"ended with {ran.returncode} at {at}:\n{ran.stderr[-3000:]}"
    seen: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return seen


def holds(seen: dict[str, Any], count: int) -> None:
    assert not seen["faults"], json.dumps(seen["faults"], indent=1)
    assert seen["loaded"] + seen["refused"] == count
    assert seen["refused"] > count // 20  # the damage reaches what is read
    assert seen["grown_mb"] < MEGABYTES


@pytest.mark.long
@pytest.mark.parametrize("reader", READERS)
def test_damaged_files(reader: str, tmp_path: Path, zoo: Path, repository: Path) -> None:
    count = MUTANTS // SHARES.get(reader, 1)
    seen = attacked(reader, count, tmp_path, zoo, repository)
    print(reader, seen)
    holds(seen, count)


@pytest.mark.long
@pytest.mark.parametrize("handler", HANDLERS)
def test_damaged_files_in_whole_jobs(
    handler: str, tmp_path: Path, zoo: Path, repository: Path
) -> None:
    seen = attacked(handler, JOBS, tmp_path, zoo, repository)
    print(handler, seen)
    assert not seen["faults"], json.dumps(seen["faults"], indent=1)
    assert seen["loaded"] + seen["refused"] == JOBS
    assert seen["loaded"]
    assert seen["grown_mb"] < MEGABYTES


def test_a_mutant_is_the_same_every_time_and_damaged() -> None:
    seed = bytes(range(256)) * 8
    assert mutant(seed, 7) == mutant(seed, 7)
    assert len({mutant(seed, number) for number in range(200)}) > 190
