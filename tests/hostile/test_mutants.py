"""Damaged ONNX models through the command line: a documented end, within bounds, never code 70."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.graph.models import float_net
from tests.hostile.mutate import mutant
from tests.safety import told_by

MUTANTS = int(os.environ.get("RKNNTUI_MUTANTS", "2000"))


HURT = (20, 80, 1420, 1407, 1825, 11384)
"""What ended with exit code 70, a crash or a hang before it was put right."""


def attacked(folder: Path, root: Path, *numbers: str) -> dict[str, int]:
    words = ("tests.hostile.attack", folder, *numbers)
    *faults, seen = told_by(root, *words, at=folder / "at", RKNNTUI_CACHE_MB="0")
    assert not faults, json.dumps(faults[:5], indent=1)
    told: dict[str, int] = seen
    return told


@pytest.mark.long
def test_mutants_that_hurt_once(tmp_path: Path, repository: Path) -> None:
    """All in one process: making the seeds takes seconds."""
    seen = attacked(tmp_path, repository, *map(str, HURT))
    assert sum(seen.values()) == 2 * len(HURT)  # a look and one command each


@pytest.mark.long
def test_thousands_of_mutants(tmp_path: Path, repository: Path) -> None:
    seen = attacked(tmp_path, repository, f"0:{MUTANTS}")
    print(seen)
    assert seen["done"] > MUTANTS // 20  # the damage does not hide what is behind loading
    assert seen["refused"] > MUTANTS // 20


def test_a_mutant_is_the_same_every_time_and_damaged() -> None:
    seed = float_net(opset=13)
    made = [mutant(seed, number).SerializeToString(deterministic=True) for number in range(60)]
    assert made[7] == mutant(seed, 7).SerializeToString(deterministic=True)
    assert len(set(made)) > 45
