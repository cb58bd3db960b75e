"""The facts beside the zoo: tables that the vendor's compiler printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cost.against_compiler.facts import Build, Row, read_builds


@pytest.fixture(scope="session")
def builds(zoo: Path) -> dict[Build, list[Row]]:
    """Every printed table."""
    facts = zoo.parent / "facts"
    if not (facts / "cost").is_dir():
        pytest.skip(f"there are no facts of the compiler at {facts / 'cost'}")
    return read_builds(facts)
