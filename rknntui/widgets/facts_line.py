"""The line on top of a view: a few facts side by side, as many as there is room for."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from textual.widget import Widget

from rknntui.widgets.strips import shorten
from rknntui.widgets.wrap import wrap

_BETWEEN = " · "


@dataclass(frozen=True)
class Fact:
    """One fact of the line.

    Attributes:
        text: as it stands where there is room.
        shorter: what stands for it where there is less, from the longest.
        rank: 0 stays; of the others the highest is shortened, then left out first.
    """

    text: str
    shorter: tuple[str, ...] = ()
    rank: int = 0


def fit_facts(facts: tuple[Fact, ...], width: int) -> str:
    """The facts in at most ``width`` cells; what does not fit at all is cut behind a word."""
    forms = [[f.text, *f.shorter, *([""] if f.rank else [])] for f in facts]

    def line() -> str:
        return _BETWEEN.join(form[0] for form in forms if form[0])

    for at in sorted(range(len(facts)), key=lambda at: (-facts[at].rank, -at)):
        while cell_len(line()) > width and len(forms[at]) > 1:
            del forms[at][0]
    text = line()
    if cell_len(text) <= width:
        return text
    first = wrap(text, width - 2)[0]
    return f"{first} …" if text[len(first) :].startswith(" ") else shorten(text, width)


class FactsLine(Widget):
    """Shows facts in one line; it fits them to its width."""

    DEFAULT_CSS = """
    FactsLine { height: 1; padding: 0 1; text-wrap: nowrap; }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id, markup=False)
        self._facts: tuple[Fact, ...] = ()

    def show(self, *facts: Fact | str) -> None:
        """Show other facts; a text is one that stays."""
        as_facts = tuple(Fact(fact) if isinstance(fact, str) else fact for fact in facts)
        if as_facts != self._facts:
            self._facts = as_facts
            self.refresh()

    def render(self) -> str:
        """The line in the width of now."""
        return fit_facts(self._facts, self.content_size.width)
