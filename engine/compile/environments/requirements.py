"""Requirements and versions as packages write them down, as far as this room needs them.

The forms are those of the packaging specifications (packaging.python.org, "Dependency specifiers"
and "Version specifiers"); what is not understood here constrains nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Requirement", "normal_name", "parse"]

_FORM = re.compile(
    r"\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,100})\s*(?:\[[^\]]*\])?\s*"
    r"\(?(?P<specs>[^;()]*)\)?\s*(?:;(?P<marker>.*))?"
)
_SPEC = re.compile(r"\s*(===|==|~=|!=|<=|>=|<|>)\s*([0-9A-Za-z.*+!_-]{1,60})\s*")
_CLAUSE = re.compile(r"\s*([a-z_]+)\s*(==|!=|<=|>=|<|>)\s*[\"']([^\"']*)[\"']\s*")


def normal_name(name: str) -> str:
    """A package's name as all its spellings have it in common: ``ruamel-yaml``."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class Requirement:
    """A package that another one needs.

    Attributes:
        name: normalized.
        specs: (comparison, version), all of which hold.
        marker: when it is needed at all; empty for always.
    """

    name: str
    specs: tuple[tuple[str, str], ...] = ()
    marker: str = ""

    def __str__(self) -> str:
        return self.name + ",".join(map("".join, self.specs))

    def takes(self, version: str) -> bool:
        """Whether a version fits."""
        return all(_holds(version, sign, other) for sign, other in self.specs)

    def applies(self, facts: Mapping[str, str]) -> bool:
        """Whether it is needed where markers have these values; what cannot be told is not."""
        if not self.marker.strip():
            return True
        clauses = [_CLAUSE.fullmatch(part) for part in self.marker.split(" and ")]
        for clause in clauses:
            if clause is None or clause[1] not in facts:
                return False
            if not _compares(facts[clause[1]], clause[2], clause[3]):
                return False
        return True


def parse(text: str) -> Requirement | None:
    """A requirement; None where it has another form."""
    found = _FORM.fullmatch(text[:2000])
    if found is None:
        return None
    parts = map(_SPEC.fullmatch, found["specs"].split(","))
    specs = [(part[1], part[2]) for part in parts if part is not None]
    return Requirement(normal_name(found["name"]), tuple(specs), found["marker"] or "")


def _compares(value: str, sign: str, other: str) -> bool:
    if value[:1].isdigit():
        return _holds(value, sign, other)
    return {"==": value == other, "!=": value != other}.get(sign, False)


def _holds(version: str, sign: str, other: str) -> bool:
    if sign in ("==", "!=") and other.endswith(".*"):
        size = other.count(".")
        equal = _release(version, size)[:size] == _release(other[:-2], size)[:size]
        return equal == (sign == "==")
    mine, theirs = _order(version), _order(other)
    if sign == "~=":
        size = other.count(".")
        return mine >= theirs and _release(version, size)[:size] == _release(other, size)[:size]
    return {
        "==": mine == theirs,
        "===": version == other,
        "!=": mine != theirs,
        "<=": mine <= theirs,
        ">=": mine >= theirs,
        "<": mine < theirs,
        ">": mine > theirs,
    }[sign]


_NUMBERS = re.compile(r"v?(?:\d+!)?(\d{1,9}(?:\.\d{1,9}){0,9})(.*)")


def _release(version: str, size: int = 0) -> tuple[int, ...]:
    found = _NUMBERS.match(version)
    numbers = tuple(map(int, found[1].split("."))) if found else ()
    return numbers + (0,) * (size - len(numbers))


def _order(version: str) -> tuple[tuple[int, ...], int]:
    """Versions in their order; local parts (``+cpu``) do not count."""
    found = _NUMBERS.match(version.partition("+")[0])
    rest = found[2].lstrip("._-").lower() if found else ""
    numbers = list(_release(version))
    while numbers and not numbers[-1]:
        numbers.pop()
    stage = -1 if rest.startswith(("a", "b", "c", "rc", "dev", "pre")) else int(bool(rest))
    return tuple(numbers), stage
