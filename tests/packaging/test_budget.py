"""The counter of code lines: what it counts is what its first lines say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

PYTHON = '''"""A module.

Of three lines."""
import os
from a import (
    b,
)

# A comment.
TEXT = """one
two"""


class A:
    """A class."""

    field: int = 0
    """What it is."""

    def f(self):  # counted
        """Nothing."""

        return (
            1
        )
'''
C = """/* A file
   of code. */
#include "a.h"

int f(void) { /* counted */
    return 1; // counted
}
// not counted
"""


def test_code_lines_are_counted(repository: Path) -> None:
    counter = runpy.run_path(str(repository / "tools" / "count_lines.py"))
    assert counter["python_lines"](PYTHON) == 8
    assert counter["c_lines"](C) == 4


@pytest.mark.long  # it reads all code; .ci/run has both as steps, too
def test_every_room_has_a_budget(repository: Path) -> None:
    counter = runpy.run_path(str(repository / "tools" / "count_lines.py"))
    lines, _ = counter["counted"]()
    budget = counter["tomllib"].loads((repository / "pyproject.toml").read_text())["tool"]["budget"]
    assert set(lines) == set(budget["lines"])


@pytest.mark.long  # it reads all code; .ci/run has both as steps, too
def test_classes_that_share_fields_have_a_reason(repository: Path) -> None:
    finder = runpy.run_path(str(repository / "tools" / "shared_fields.py"))
    assert finder["unexplained"](finder["pairs"]()) == []
    strange = [(5, "engine/a.py:1 Option", "engine/b.py:1 Finding")]
    told = finder["unexplained"](strange)
    assert told[0] == "no reason is given: engine/a.py:1 Option = engine/b.py:1 Finding"
    assert "no other class of its row shares fields with it: More" in told
