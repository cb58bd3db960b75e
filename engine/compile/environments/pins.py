"""Versions of packages that work together, as files: one for each toolkit and Python.

``pinned/rknn-toolkit2-2.3.2-py3.11.txt`` has the requirements of two steps of pip, those of the
second below the line ``# without dependencies ...``. Its first comment says what was tried.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.base.errors import ToolkitError
from engine.base.text import did_you_mean

__all__ = ["TESTED", "Pins", "all_pins", "pins_of"]

TESTED = "2.3.2"
"""The toolkit that is made where no version is named: all figures of the docs are of it."""

_FOLDER = Path(__file__).with_name("pinned")
_NAME = re.compile(r"rknn-toolkit2-([0-9.]+)-py(3\.\d+)\.txt")
_SECOND = "# without dependencies"
# what a Python is preferred by: the first has been used most
_ORDER = ("3.11", "3.10", "3.12", "3.9", "3.8")


@dataclass(frozen=True)
class Pins:
    """Requirements that work together.

    Attributes:
        toolkit: version of rknn-toolkit2.
        python: ``3.11``.
        first: ``name==version`` of what pip installs with its dependencies.
        second: what it installs then without them.
    """

    toolkit: str
    python: str
    first: tuple[str, ...]
    second: tuple[str, ...]

    @property
    def all(self) -> dict[str, str]:
        """Package -> version, of both steps."""
        rows = (one.partition("==") for one in (*self.first, *self.second))
        return {name: version for name, _, version in rows}

    @property
    def key(self) -> str:
        """What a finished environment was made from."""
        return hashlib.sha256(
            "\n".join([self.python, *self.first, *self.second]).encode()
        ).hexdigest()


@cache
def all_pins() -> tuple[Pins, ...]:
    """All of them: toolkits by version, newest first, Pythons by preference."""
    rank = {python: at for at, python in enumerate(_ORDER)}
    found = sorted(_read(), key=lambda one: rank.get(one.python, len(rank)))
    return tuple(sorted(found, key=lambda one: _numbers(one.toolkit), reverse=True))


def pins_of(version: str | None) -> tuple[Pins, ...]:
    """Those of a toolkit, the preferred Python first.

    Raises:
        ToolkitError: no versions are known to work with it.
    """
    wanted = version or TESTED
    found = tuple(one for one in all_pins() if one.toolkit == wanted)
    if not found:
        versions = sorted({one.toolkit for one in all_pins()}, key=_numbers)
        raise ToolkitError(
            f"rknn-toolkit2 {wanted} cannot be installed by this program.",
            cause=did_you_mean(wanted, versions)
            or "Which versions of its packages work together is not known here.",
            remedy=f"Known are {' and '.join(versions)}; an environment that you made yourself is "
            "taken by `rknntui vendor adopt PYTHON`.",
        )
    return found


def _read() -> Iterator[Pins]:
    for path in _FOLDER.iterdir():
        if named := _NAME.fullmatch(path.name):
            steps = path.read_text("utf-8").partition(_SECOND)
            yield Pins(named[1], named[2], _lines(steps[0]), _lines(steps[2]))


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.splitlines() if "==" in line and not line.startswith("#"))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
