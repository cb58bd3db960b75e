"""Damaged files for each reader of our own, and a fifth as many for each whole job: a clear error
or an answer, within bounds. The files are the same at every run; ``RKNNTUI_MUTANTS=2000`` takes
more of them, as after a change of a reader.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.handlers import HANDLERS
from tests.fuzz.mutate import mutant
from tests.fuzz.readers import READERS
from tests.safety import told_by

MUTANTS = int(os.environ.get("RKNNTUI_MUTANTS", "600"))
JOBS = MUTANTS // 5
MEGABYTES = 1000
SHARES = {"remade": 2, "step2": 10}  # each mutant is run or built


def attacked(reader: str, count: int, tmp_path: Path, zoo: Path, root: Path) -> dict[str, Any]:
    folder = tmp_path / "files"
    folder.mkdir()
    words = (reader, count, folder, zoo)
    seen: dict[str, Any] = told_by(root, "tests.fuzz.attack", *words, at=tmp_path / "progress")[-1]
    print(reader, seen)
    assert not seen["faults"], json.dumps(seen["faults"], indent=1)
    assert seen["loaded"] + seen["refused"] == count
    assert seen["grown_mb"] < MEGABYTES
    return seen


@pytest.mark.long
@pytest.mark.parametrize("reader", READERS)
def test_damaged_files(reader: str, tmp_path: Path, zoo: Path, repository: Path) -> None:
    count = MUTANTS // SHARES.get(reader, 1)
    seen = attacked(reader, count, tmp_path, zoo, repository)
    assert seen["refused"] > count // 20  # the damage reaches what is read


@pytest.mark.long
@pytest.mark.parametrize("handler", HANDLERS)
def test_damaged_files_in_whole_jobs(
    handler: str, tmp_path: Path, zoo: Path, repository: Path
) -> None:
    assert attacked(handler, JOBS, tmp_path, zoo, repository)["loaded"]


def test_a_mutant_is_the_same_every_time_and_damaged() -> None:
    seed = bytes(range(256)) * 8
    assert mutant(seed, 7) == mutant(seed, 7)
    assert len({mutant(seed, number) for number in range(200)}) > 190
