"""The sentences of a page: what a reader reads, without code and the addresses of links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_LEFT_OUT = re.compile(
    r"^ *```.*?^ *```|<!--.*?-->|^ *\|[-:| ]+\|$|^#+ .*?$", re.DOTALL | re.MULTILINE
)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`\n]*`")
_CODES = re.compile(r"\bcode(?:,\s+code)+")  # an enumeration of names is one thing
_ITEM = re.compile(r"^ *(?:[-*]|\d+\.) +", re.MULTILINE)
_END = re.compile(r"(?<=[.!?:;→])[*_)]* +(?=\S)")
_SHORT = ("e.g.", "i.e.", "vs.", "No.")


@dataclass(frozen=True)
class Sentence:
    line: int
    text: str

    @property
    def words(self) -> int:
        """A path, a number with its unit and a piece of code are one word each."""
        return len([word for word in self.text.split() if re.search(r"\w", word)])


def sentences(path: Path) -> Iterator[Sentence]:
    """Every sentence of a page; a cell of a table and an item of a list end one, too."""
    text = path.read_text(encoding="utf-8")
    text = _LEFT_OUT.sub(lambda found: "\n" * found[0].count("\n"), text)
    text = _CODES.sub("code", _CODE.sub("code", _LINK.sub(r"\1", text)))
    line = 1
    for part in re.split(r"(\n(?= *\n)|\n(?= *(?:[-*] |\d+\. |\|))|(?<=\|)\n|\|)", text):
        words = " ".join(_ITEM.sub("", part).split())
        if words.strip("|"):
            first = line + len(part) - len(part.lstrip("\n"))
            for one in _split(words):
                yield Sentence(first, one)
        line += part.count("\n")


def _split(words: str) -> Iterator[str]:
    start = 0
    for found in _END.finditer(words):
        if not words[: found.start()].endswith(_SHORT):
            yield words[start : found.start()]
            start = found.end()
    yield words[start:]
