"""Parts of pages of the docs that scripts write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Part:
    """What stands between two comments of a page.

    Attributes:
        page: its file below ``docs``.
        name: of the part, in the comments.
        script: that writes it, in the first of them.
        text: makes its text.
    """

    page: str
    name: str
    script: str
    text: Callable[[], str]

    @property
    def path(self) -> Path:
        """The page."""
        return REPOSITORY / "docs" / self.page

    def now(self) -> str:
        """The page with this part as the code has it now."""
        start = f"<!-- {self.name}: made by scripts/{self.script}.py -->"
        end = f"<!-- end of {self.name} -->"
        before, _, rest = self.path.read_text(encoding="utf-8").partition(start)
        _, _, after = rest.partition(end)
        return f"{before}{start}\n\n{self.text()}\n\n{end}{after}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table in Markdown."""
    lines = [" | ".join(map(str, row)) for row in (head, *rows)]
    return [f"| {lines[0]} |", "|" + "---|" * len(head), *(f"| {line} |" for line in lines[1:])]


def write(parts: Iterable[Part]) -> None:
    """Write the pages."""
    for part in parts:
        part.path.write_text(part.now(), encoding="utf-8")
        print(f"wrote docs/{part.page}")
