"""Tables of fixed columns, as C's ``printf("%-22s ")`` writes them, read by the places of their
headings.

A cell that is too long for its column pushes what follows it to the right, and exactly one blank
stays between both. Splitting at blanks cannot read such a table: a cell may be empty.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["Columns", "columns_of"]


@dataclass(frozen=True)
class Columns:
    """The headings of a table.

    Attributes:
        names: the headings, from left to right.
        starts: the first character of each in the line of headings.
    """

    names: tuple[str, ...]
    starts: tuple[int, ...]

    def cells(self, line: str) -> tuple[str, ...]:
        """One text for each column, without the blanks around it; empty where there is none.

        The last column has all that is left of the line.
        """
        cells: list[str] = []
        place = self.starts[0]
        for start, following in zip(self.starts, self.starts[1:], strict=False):
            end = place + following - start
            if line[end - 1 : end].strip():  # too long for its column
                blank = line.find(" ", end)
                end = len(line) if blank < 0 else blank + 1
            cells.append(line[place:end].strip())
            place = end
        return (*cells, line[place:].strip())

    def joined(self, first: str, second: str) -> str:
        """A line that was broken between two cells, put together: the rest stands in the column
        after the last one that ``first`` has.
        """
        place = self.starts[0]
        length = len(first.rstrip())
        for start, following in zip(self.starts, self.starts[1:], strict=False):
            if place >= length:
                break
            end = place + following - start
            if first[end - 1 : end].strip():
                blank = first.find(" ", end)
                end = len(first) if blank < 0 else blank + 1
                place = max(end, length + 1 if blank < 0 else end)
            else:
                place = end
        return first.rstrip().ljust(place) + second.lstrip()


def columns_of(line: str, known: Collection[str]) -> Columns | None:
    """The headings in a line; None where it does not start with a known one.

    Args:
        line: that may be a line of headings.
        known: headings that contain blanks, or that stand one blank after another; others end at
            the first blank.
    """
    if not line.lstrip().startswith(tuple(known)):
        return None
    words = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
    found = list(re.finditer(rf"(?:{words})(?=\s|$)|\S+", line))
    names = tuple(match.group() for match in found)
    if not names or names[0] not in frozenset(known):
        return None
    return Columns(names, tuple(match.start() for match in found))
