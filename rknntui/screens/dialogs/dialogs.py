"""Small questions and answers over the workbench: error, confirmation, text, a remedy applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from rich.cells import cell_len
from textual import on
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from engine import Finding, option, sanitize
from rknntui.links import GoToOption
from rknntui.widgets.line_list import TextRows
from rknntui.widgets.strips import fit
from rknntui.widgets.wrap import wrap, wrap_line

if TYPE_CHECKING:
    from textual import events
    from textual.app import App, ComposeResult

    from rknntui.shell import Shell
    from rknntui.widgets.strips import Line


class Dialog(ModalScreen[Any]):
    """A framed box in the middle; Esc closes it with None."""

    BINDINGS = [Binding("escape", "dismiss(None)", "Close", show=False)]
    AUTO_FOCUS = "Rows, Input"

    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 60%; }
    Dialog > Vertical {
        width: 76; max-width: 96%; height: auto; max-height: 92%;
        border: round $primary; background: $background; padding: 0 1;
        border-title-style: bold; border-subtitle-color: $text-muted;
    }
    Dialog TextRows { height: auto; max-height: 100%; background: $background; }
    Dialog Static { height: auto; background: $background; }
    Dialog.-bad > Vertical { border: round $error; }
    """

    TITLE_TEXT = ""
    KEYS_TEXT = "Esc close"

    @property
    def workbench(self) -> Shell:
        """The application, typed."""
        return cast("Shell", self.app)

    @property
    def text_width(self) -> int:
        """Cells for text inside the box, beside a list's scroll bar."""
        return min(71, max(20, self.app.size.width * 96 // 100 - 5))

    def box(self, *children: Any) -> Vertical:
        """The frame around the children, with title and keys."""
        frame = Vertical(*children)
        frame.border_title = self.TITLE_TEXT
        frame.border_subtitle = self.KEYS_TEXT
        return frame


def ask_user(app: App[Any], dialog: Dialog, then: Callable[[Any], object]) -> None:
    """Show a dialog; ``then`` is called with what it is dismissed with, unless that is None."""

    def answered(answer: Any) -> None:
        if answer is not None:
            then(answer)

    app.push_screen(dialog, answered)


def paragraphs(parts: list[tuple[str, str, str]], width: int) -> list[Line]:
    """Wrapped lines of (heading, text, style) parts; empty texts are left out."""
    lines: list[Line] = []
    for heading, text, style in parts:
        if not text:
            continue
        if lines:
            lines.append([])
        if heading:
            lines.append([(heading, "head")])
        for paragraph in text.splitlines():
            indent = len(paragraph) - len(paragraph.lstrip())
            hang = " " * (indent + 2) if indent else ""  # a line of code goes on deeper
            lines += [[(row, style)] for row in wrap(paragraph, width, hang) or [""]]
    return lines


class TextDialog(Dialog):
    """Lines to read; arrows scroll, ``y`` copies them."""

    BINDINGS = [
        Binding("y", "copy", "Copy", show=False),
        Binding("q,enter", "dismiss(None)", "Close", show=False, priority=True),
    ]
    KEYS_TEXT = "y copy · Esc close"

    def __init__(self, title: str, lines: Sequence[Line] | Callable[[int], list[Line]]) -> None:
        """Show lines, or what makes them for a width in cells; longer ones are wrapped."""
        super().__init__()
        self.TITLE_TEXT = title
        self._lines = lines

    def compose(self) -> ComposeResult:
        rows = TextRows()
        rows.SHOW_CURSOR = False
        yield self.box(rows)

    def on_mount(self) -> None:
        self._lay_out()

    def on_resize(self) -> None:
        """Wrap anew; the place in the text stays."""
        self._lay_out()

    def _lay_out(self) -> None:
        width, rows = self.text_width, self.query_one(TextRows)
        content = self._lines(width) if callable(self._lines) else self._lines
        lines = [row for line in content for row in wrap_line(line, width)]
        rows.styles.height = max(1, min(len(lines), self.app.size.height - 6))
        rows.set_lines(lines, keep_cursor=True)

    def action_copy(self) -> None:
        """Copy the text."""
        self.workbench.output.copy(self.query_one(TextRows).text())


class ErrorDialog(TextDialog):
    """What happened, the likely cause and the remedy of an error."""

    KEYS_TEXT = "y copy report · Esc close"

    BINDINGS = [Binding("c,enter", "option", "Go to the option", show=False, priority=True)]

    def __init__(self, error: Exception) -> None:
        from engine import named_option

        super().__init__(_kind(error), self._report)
        self.add_class("-bad")
        self.error = error
        what = str(getattr(error, "what", ""))
        # what another file says is nothing that the open recipe could mend
        of_file = " cannot be used: " in what
        message = f"{what} {getattr(error, 'remedy', '')}"
        self.option = "" if of_file else named_option(message) or ""

    def compose(self) -> ComposeResult:
        if self.option and self.workbench.session.recipe:
            self.KEYS_TEXT = f"Enter go to {self.option} · {self.KEYS_TEXT}"
        yield from super().compose()

    def _report(self, width: int) -> list[Line]:
        from engine import sanitize

        what, cause, remedy = (
            "\n".join(sanitize(row, 2000) for row in str(text).splitlines())
            for text in (
                getattr(self.error, "what", str(self.error)),
                getattr(self.error, "cause", ""),
                getattr(self.error, "remedy", ""),
            )
        )
        parts = [("", what, ""), ("Likely cause", cause, ""), ("Fix", remedy, "good")]
        return paragraphs(parts, width)

    def action_copy(self) -> None:
        """Copy the report as it was told: lines of code stay lines."""
        self.workbench.output.copy(str(self.error))

    def action_option(self) -> None:
        """Go to the option that the error names, where a recipe is open; else close."""
        self.dismiss(None)
        if self.option and self.workbench.session.recipe:
            self.app.post_message(GoToOption(self.option))


def _kind(error: Exception) -> str:
    kind = str(getattr(error, "kind", "internal"))
    return "Error" if kind == "error" else f"Error: {kind}"


class ConfirmDialog(Dialog):
    """A question with answers by key; dismissed with the key's value, None for Esc.

    Args:
        title: in the frame.
        question: what is asked.
        answers: (key, label, value); the first one also answers to Enter.
    """

    def __init__(
        self,
        title: str,
        question: str,
        answers: list[tuple[str, str, Any]],
    ) -> None:
        super().__init__()
        self.TITLE_TEXT = title
        self._question = question
        self._answers = answers
        self.KEYS_TEXT = " · ".join(f"{key} {label}" for key, label, _ in answers)

    def compose(self) -> ComposeResult:
        yield self.box(Static("", markup=False))

    def on_resize(self) -> None:
        """Wrap the question."""
        self.query_one(Static).update("\n".join(wrap(self._question, self.text_width)))

    def on_key(self, event: events.Key) -> None:
        for index, (key, _, value) in enumerate(self._answers):
            if event.key == key.lower() or (index == 0 and event.key == "enter"):
                event.stop()
                self.dismiss(value)
                return


class PromptDialog(Dialog):
    """Asks for one line of text; dismissed with it, None for Esc.

    Args:
        title: of the dialog.
        question: above the line.
        value: that the line has at first.
        problem: tells why a text cannot be taken; empty where it can.
        hidden: whether dots stand for what is typed, as for a key.
    """

    KEYS_TEXT = "Enter accept · Esc cancel"
    DEFAULT_CSS = "PromptDialog #prompt-problem { color: $error; display: none; }"

    def __init__(
        self,
        title: str,
        question: str = "",
        value: str = "",
        problem: Callable[[str], str] = lambda _: "",
        *,
        hidden: bool = False,
    ) -> None:
        super().__init__()
        self._hidden = hidden
        self._problem = problem
        self.TITLE_TEXT = title
        self._question = question
        self._value = value

    def compose(self) -> ComposeResult:
        parts: list[Any] = [Static(self._question, markup=False)] if self._question else []
        entry = Input(self._value, compact=True, password=self._hidden)
        entry.cursor_blink = False
        yield self.box(*parts, entry, Static("", id="prompt-problem", markup=False))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the text, or say what is wrong with it and let it be corrected."""
        if problem := self._problem(event.value):
            label = self.query_one("#prompt-problem", Static)
            label.update(f"✗ {problem}")
            label.display = True
            self.app.bell()
        else:
            self.dismiss(event.value)


class ChoiceDialog(Dialog):
    """A list to choose from; dismissed with the choice, None for Esc. Typing narrows it down.

    Args:
        title: in the frame.
        choices: to choose from.
        now: the choice that counts now.
        about: a text on each choice, as far as its first semicolon in the list; that of the one
            under the cursor stands whole below it.
        start: the choice that the cursor is on at first; empty for the one that counts now.
    """

    KEYS_TEXT = "type to search · ↑↓ choose · Enter select · Esc cancel"
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
        self._shown = self._choices
        self._words = ""
        self._now = now
        self._start = start or now
        self._about = about or {}

    def compose(self) -> ComposeResult:
        below = [Static("", id="about", markup=False)] if self._about else []
        yield self.box(TextRows(), *below)

    def on_mount(self) -> None:
        rows = self.query_one(TextRows)
        self._lay_out()
        if self._start in self._choices:
            rows.cursor = self._choices.index(self._start)
        self._tell(rows.cursor)

    def on_resize(self) -> None:
        """Shorten the lines to the new width."""
        self._lay_out()
        self._tell(self.query_one(TextRows).cursor)

    def on_key(self, event: events.Key) -> None:
        """Search as one types: before the keys of the list; Backspace and Esc take it back."""
        letter = event.character if event.is_printable else ""
        if letter and (self._words or letter != " "):
            self._search(self._words + letter)
        elif event.key == "backspace" and len(self._words) > 1:
            self._search(self._words[:-1])
        elif event.key in ("backspace", "ctrl+u", "escape") and self._words:
            self._search("", self._here())
        else:
            return
        event.stop()

    def _search(self, words: str, here: str = "") -> None:
        """Show the choices that have the words: those that begin so first, then those about it.

        The cursor is on ``here`` then, else on the first one.
        """
        found = [(_rank(words.lower(), c, self._about.get(c, "")), c) for c in self._choices]
        shown = tuple(choice for rank, choice in sorted(found, key=lambda f: f[0]) if rank < _NOT)
        if words and not shown:
            self.app.bell()
            return
        self._words, self._shown = words, shown
        title = f"{self.TITLE_TEXT}: {words}" if words else self.TITLE_TEXT
        self.query_one(Vertical).border_title = title
        self._lay_out()
        at = shown.index(here) if here in shown else 0
        self.query_one(TextRows).cursor = at
        self._tell(at)

    def _lay_out(self) -> None:
        rows = self.query_one(TextRows)
        room = self.app.size.height - (12 if self._about else 6)
        rows.styles.height = max(3, min(len(self._choices), room))
        names = min(self.text_width - 10, max(cell_len(choice) for choice in self._choices))
        lines: list[Line] = []
        for choice in self._shown:
            now = "  (now)" if self._counts(choice) else "       " if self._about else ""
            short = self._about.get(choice, "").partition("; ")[0]
            room = self.text_width - names - 14
            about_rows = wrap(short, room) if room > _LEAST_ABOUT else []
            more = " …" if len(about_rows) > 1 else ""
            line: Line = [(f" {fit(choice, names)}{now} ", "")]
            lines.append([*line, (f"  {about_rows[0]}{more}", "dim")] if about_rows else line)
        rows.set_lines(lines, keep_cursor=True)

    def _counts(self, choice: str) -> bool:
        """Whether a choice is the one that counts now."""
        return choice == self._now

    def _here(self) -> str:
        """The choice under the cursor; empty where there is none."""
        at = self.query_one(TextRows).cursor
        return self._shown[at] if at < len(self._shown) else ""

    @on(TextRows.Highlighted)
    def _moved(self, event: TextRows.Highlighted) -> None:
        self._tell(self.query_one(TextRows).cursor)

    def _tell(self, index: int) -> None:
        if self._about and index < len(self._shown):
            choice = self._shown[index]
            told = f"{choice}: {self._about.get(choice, '')}".replace(": \n", "\n")
            rows = [row for line in told.splitlines() for row in wrap(line, self.text_width)]
            self.query_one("#about", Static).update("\n".join(rows))

    @on(TextRows.Chosen)
    def _take(self, event: TextRows.Chosen) -> None:
        self.dismiss(self._answer(self._shown[event.index]))

    def _answer(self, choice: str) -> Any:
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


# Applying what a finding advises, wherever findings are listed.


def remedies(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that a change of the recipe remedies."""
    return [finding for finding in findings if finding.changes]


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

    def _answer(self, choice: str) -> Any:
        return self._findings[choice]
