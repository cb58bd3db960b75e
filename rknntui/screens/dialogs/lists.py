"""Lists to choose from, which typing narrows down: values, themes, fixes of findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual import getters, on
from textual.binding import Binding
from textual.widgets import Input, Static

from engine import Finding, option, sanitize
from rknntui.screens.dialogs.dialogs import Dialog
from rknntui.widgets.entries import TextLine
from rknntui.widgets.line_list import TextRows
from rknntui.widgets.strips import fit
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

    from rknntui.widgets.strips import Line


class ListDialog(Dialog):
    """A line to type over a list that it narrows down; the list's keys work while one types.

    A subclass lists in ``fill`` what fits, and in ``choose`` takes the row under the cursor; Enter
    does so too, unless ``submit`` does something else with what is typed.
    """

    BINDINGS = [
        Binding("down,ctrl+n", "step(1)", "Next", show=False, priority=True),
        Binding("up", "step(-1)", "Previous", show=False, priority=True),
        Binding("pagedown", "step(10)", "Next page", show=False, priority=True),
        Binding("pageup", "step(-10)", "Previous page", show=False, priority=True),
    ]
    AUTO_FOCUS = "Input"
    KEYS_TEXT = "↑↓ choose · Enter select · Esc cancel"

    listed: str | None = None
    """The text that the list is of."""

    line = getters.query_one(Input)
    """What is typed."""

    rows = getters.query_one(TextRows)
    """What fits."""

    def over_list(self, line: Input, *below: Widget) -> ComposeResult:
        """The box with the line, the list, and what is below it."""
        rows = TextRows()
        rows.can_focus = False
        yield self.box(line, rows, *below)

    def fill(self, text: str) -> None:
        """List what fits a text."""
        raise NotImplementedError

    def choose(self) -> None:
        """Take the row under the cursor."""
        raise NotImplementedError

    def submit(self) -> None:
        """Take what is typed."""
        self.choose()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self.narrow()

    def narrow(self) -> None:
        """List what fits what is typed now; of keys in one burst the list may be older."""
        if self.line.value != self.listed:
            self.listed = self.line.value
            self.fill(self.listed)

    def action_step(self, by: int) -> None:
        """Move in the list."""
        self.narrow()
        self.rows.cursor += by

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.narrow()
        self.submit()

    @on(TextRows.Chosen)
    def _clicked(self) -> None:
        self.choose()


class ChoiceDialog(ListDialog):
    """A list to choose from; dismissed with the choice, None for Esc.

    Args:
        title: in the frame.
        choices: to choose from.
        now: the choice that counts now.
        about: a text on each choice, as far as its first semicolon in the list; that of the one
            under the cursor stands whole below it.
        start: the choice that the cursor is on at first; empty for the one that counts now.
    """

    BINDINGS = [
        Binding("home", "step(-9999)", "First", show=False, priority=True),
        Binding("end", "step(9999)", "Last", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    ChoiceDialog #about { color: $text-muted; border-top: solid $panel; min-height: 4; }
    """

    def __init__(
        self,
        title: str,
        choices: Sequence[str],
        now: str,
        about: Mapping[str, str] | None = None,
        start: str = "",
    ) -> None:
        super().__init__()
        self.TITLE_TEXT = title
        self._choices = tuple(choices)
        self._shown: Sequence[str] = ()
        self._now = now
        self._start = start or now
        self._about = about or {}

    def compose(self) -> ComposeResult:
        below = [Static("", id="about", markup=False)] if self._about else []
        yield from self.over_list(TextLine(placeholder="type to search"), *below)

    def on_mount(self) -> None:
        self.narrow()
        self._go_to(self._start)

    def on_resize(self) -> None:
        """Shorten the lines to the new width."""
        self._lay_out()
        self._tell()

    def fill(self, text: str, here: str = "") -> None:
        """List the choices that have the words: those that begin so first, then those about it.

        The cursor is on ``here`` then, else on the first one.
        """
        found = [(_rank(text.lower(), c, self._about.get(c, "")), c) for c in self._choices]
        self._shown = [choice for rank, choice in sorted(found, key=lambda f: f[0]) if rank < _NOT]
        self._lay_out()
        self._go_to(here)

    def _go_to(self, choice: str) -> None:
        self.rows.cursor = self._shown.index(choice) if choice in self._shown else 0
        self._tell()

    def _lay_out(self) -> None:
        room = self.app.size.height - (13 if self._about else 7)
        self.rows.styles.height = max(3, min(len(self._choices), room))
        names = min(self.text_width - 10, max(cell_len(choice) for choice in self._choices))
        lines: list[Line] = []
        for choice in self._shown:
            now = "  (now)" if self.counts(choice) else "       " if self._about else ""
            short = self._about.get(choice, "").partition("; ")[0]
            room = self.text_width - names - 14
            about_rows = wrap(short, room) if room > _LEAST_ABOUT else []
            more = " …" if len(about_rows) > 1 else ""
            line: Line = [(f" {fit(choice, names)}{now} ", "")]
            lines.append([*line, (f"  {about_rows[0]}{more}", "dim")] if about_rows else line)
        self.rows.set_lines(lines or [[("no matches", "dim")]], keep_cursor=True)

    def counts(self, choice: str) -> bool:
        """Whether a choice is the one that counts now."""
        return choice == self._now

    @property
    def here(self) -> str:
        """The choice under the cursor; empty where there is none."""
        return self._shown[self.rows.cursor] if self._shown else ""

    @on(TextRows.Highlighted)
    def _moved(self) -> None:
        self._tell()

    def _tell(self) -> None:
        if self.here:
            self.look_at(self.here)

    def look_at(self, choice: str) -> None:
        """The cursor is on a choice: say all that is known of it."""
        if self._about:
            told = f"{choice}: {self._about.get(choice, '')}".replace(": \n", "\n")
            rows = [row for line in told.splitlines() for row in wrap(line, self.text_width)]
            self.query_one("#about", Static).update("\n".join(rows))

    def choose(self) -> None:
        if self.here:
            self.dismiss(self.answer(self.here))
        else:
            self.app.bell()

    def answer(self, choice: str) -> Any:
        """What it is dismissed with."""
        return choice


_NOT = 3
_LEAST_ABOUT = 16
"""Cells beside the longest choice below which nothing is said there."""


def _rank(words: str, choice: str, about: str) -> int:
    """How well a choice fits what is typed; 3 for not at all."""
    name = choice.lower()
    fits = (name.startswith(words), words in name, words in about.lower())
    return fits.index(True) if any(fits) else _NOT


class ThemeDialog(ChoiceDialog):
    """The names of the themes.

    The cursor shows each, Enter keeps it, Esc takes the old one back.
    """

    KEYS_TEXT = "↑↓ preview · Enter apply · Esc cancel"
    DEFAULT_CSS = """
    ThemeDialog { align: right middle; background: $background 0%; & > Vertical { width: 44; } }
    """

    def __init__(self, names: Sequence[str], current: str) -> None:
        super().__init__("Theme", names, current)

    def look_at(self, choice: str) -> None:
        self.workbench.theming.use(choice)

    async def action_dismiss(self, result: object = None) -> None:
        """Esc: the colours of before."""
        self.workbench.theming.use(self._now)
        self.dismiss(None)


# Applying what a finding advises, wherever findings are listed.


def changed_names(changes: Mapping[str, object]) -> str:
    """Changes of a recipe as a short text: ``mean_values = 127.5; quant_img_RGB2BGR = yes``."""
    return "; ".join(f"{name} = {_value(name, value)}" for name, value in changes.items())


def _value(name: str, value: object) -> str:
    if isinstance(value, Mapping) and len(value) > 2:
        return f"{len(value)} entries"
    return sanitize(option(name).render(value) if value is not None else "default", 60)


class RemedyDialog(ChoiceDialog):
    """The findings that have a remedy; dismissed with the one whose remedy is wanted, or None."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self._findings = {sanitize(f"{f.where}: {f.what}"): f for f in findings}
        about = {
            text: f"\nFix: {sanitize(f.remedy)}\nSets {changed_names(f.changes)}"
            for text, f in self._findings.items()
        }
        super().__init__("Apply a fix", tuple(about), "", about)

    def answer(self, choice: str) -> Any:
        return self._findings[choice]
