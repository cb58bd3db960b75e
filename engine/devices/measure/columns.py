"""Tables of fixed columns, as C's ``printf("%-22s ")`` writes them, read by the places of their
headings.

A cell that is too long for its column pushes what follows it to the right, and exactly one blank
stays between both. Splitting at blanks cannot read such a table: a cell may be empty.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise


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
        plain, long = self._cut(line)
        if line.isascii():
            return plain
        # C counts bytes, Python characters: what fits the columns better is meant
        octets, longer = self._cut(line.encode("utf-8", "surrogatepass").decode("latin-1"))
        if longer >= long:
            return plain
        return tuple(cell.encode("latin-1").decode("utf-8", "replace") for cell in octets)

    def _cut(self, line: str) -> tuple[tuple[str, ...], int]:
        """The cells, and how many of them are too long for their columns."""
        places = self._places(line)
        ends = (*places[1:], len(line))
        cells = tuple(line[place:end].strip() for place, end in zip(places, ends, strict=True))
        wide = zip(pairwise(places), pairwise(self.starts), strict=True)
        return cells, sum(end - place > next_ - start for (place, end), (start, next_) in wide)

    def joined(self, first: str, second: str) -> str:
        """A line that was broken between two cells, put together: the rest stands in the column
        after the last one that ``first`` has.
        """
        first = first.rstrip()
        following = (place for place in self._places(first) if place >= len(first))
        return first.ljust(next(following, 0)) + second.lstrip()

    def _places(self, line: str) -> list[int]:
        """Where the cell of each column begins in a line; behind its end where it has none."""
        places = [self.starts[0]]
        for start, following in pairwise(self.starts):
            end = places[-1] + following - start
            if line[end - 1 : end].strip():  # too long for its column
                blank = line.find(" ", end)
                end = (len(line) if blank < 0 else blank) + 1
            places.append(end)
        return places


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
    matches = list(re.finditer(rf"(?:{words})(?=\s|$)|\S+", line))
    names = tuple(match.group() for match in matches)
    if not names or names[0] not in frozenset(known):
        return None
    return Columns(names, tuple(match.start() for match in matches))
