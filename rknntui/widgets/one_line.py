"""Widgets of one line: facts that fit its width, the names of views, a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from rknntui.widgets.entries import TextLine
from rknntui.widgets.strips import Line, Painted, cells, shorten
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from textual import events
    from textual.widgets import Input

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
    """The facts in at most ``width`` cells; what does not fit at all is cut behind a
    word, else in its middle: a long path is no reason to say nothing.
    """
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
    word = text[len(first) :].startswith(" ") and width - cell_len(first) < 20
    return f"{first} …" if word else shorten(text, width)


class FactsLine(Widget):
    """Shows facts in one line; it fits them to its width."""

    DEFAULT_CSS = """
    FactsLine { height: 1; padding: 0 1; text-wrap: nowrap; }
    """

    _facts: tuple[Fact, ...] = ()

    def show(self, *facts: Fact | str) -> None:
        """Show other facts; a text is one that stays."""
        as_facts = tuple(Fact(fact) if isinstance(fact, str) else fact for fact in facts)
        if as_facts != self._facts:
            self._facts = as_facts
            self.refresh()

    def render(self) -> Content:
        """The line in the width of now."""
        return Content(fit_facts(self._facts, self.content_size.width))


# One line that names the views of a pane and marks the one that is shown.


class ViewBar(Painted):
    """Names of views; a click or :meth:`step` chooses another one."""

    DEFAULT_CSS = """
    ViewBar { height: 1; }
    """

    class Changed(Message):
        """Another view is to be shown."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, names: Sequence[str], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.names = tuple(names)
        self.current = self.names[0]
        self._note = ""

    def choose(self, name: str) -> None:
        """Mark a view and tell."""
        self.current = name
        self.refresh()
        self.post_message(self.Changed(name))

    def step(self, by: int) -> None:
        """Choose the view that many places further."""
        at = self.names.index(self.current)
        self.choose(self.names[(at + by) % len(self.names)])

    def set_note(self, text: str) -> None:
        """Show a text at the right end."""
        if text != self._note:
            self._note = text
            self.refresh()

    def render_line(self, y: int) -> Strip:
        line: Line = []
        for name in self.names:
            here = name == self.current
            line.append((f"[{name}]" if here else f" {name} ", "head" if here else "dim"))
        width = self.size.width
        gap = width - cells(line) - len(self._note) - 1
        if gap > 0:
            line += [(" " * gap, ""), (self._note, "dim")]
        return self.paint(line, width)

    def on_click(self, event: events.Click) -> None:
        """Choose the name under the pointer."""
        x = 0
        for name in self.names:
            x += len(name) + 2
            if event.x < x:
                self.choose(name)
                return


# A line for searching or filtering as one types.


class SearchLine(TextLine):
    """Hidden until it is opened. Enter keeps the text, Esc drops it; both hide the line."""

    BINDINGS = [
        Binding("escape", "drop", "Cancel", show=True),
        Binding("enter", "keep", "Keep", show=True),
    ]
    DEFAULT_CSS = """
    SearchLine {
        dock: bottom; display: none; height: 1;
        border: none; padding: 0; background: $surface;
    }
    SearchLine:focus { border: none; background: $surface; }
    SearchLine.-open { display: block; }
    """

    class Typed(Message):
        """The text changed; ``done`` when the line was closed."""

        def __init__(self, line: SearchLine, text: str, done: bool = False) -> None:
            super().__init__()
            self.line = line
            self.text = text
            self.done = done

        @property
        def control(self) -> SearchLine:
            """The line, for ``@on`` selectors."""
            return self.line

    def __init__(self, placeholder: str, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(placeholder=placeholder, id=id)

    def open(self) -> None:
        """Show the line and give it the focus."""
        self.add_class("-open")
        self.value = ""
        self.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.has_class("-open"):
            self.post_message(self.Typed(self, event.value))

    def action_keep(self) -> None:
        """Close and keep the text."""
        self._close(self.value)

    def action_drop(self) -> None:
        """Close and drop the text."""
        self._close("")

    def _close(self, text: str) -> None:
        self.remove_class("-open")
        self.post_message(self.Typed(self, text, done=True))
