"""The tables in the package are those that the script makes of the facts."""

from __future__ import annotations

import csv
import runpy
from importlib import resources
from pathlib import Path

import pytest


def packaged(name: str) -> list[list[str]]:
    text = resources.files("engine.facts").joinpath(name).read_text(encoding="utf-8")
    return list(csv.reader(text.splitlines()))[1:]


def test_tables_are_those_of_the_facts(zoo: Path, repository: Path) -> None:
    facts = zoo.parent / "facts" / "ops"
    if not facts.is_dir():
        pytest.skip(f"there are no facts at {facts}")
    made = runpy.run_path(str(repository / "scripts" / "make_limit_tables.py"))
    read = made["read"]
    assert made["limits"](read(facts / "npu_limits.csv")) == packaged("npu_limits.csv")
    assert made["operators"](read(facts / "cpu_ops.csv")) == packaged("cpu_operators.csv")
    assert made["support"](read(facts / "op_support.csv")) == packaged("support.csv")
