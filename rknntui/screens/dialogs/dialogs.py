"""Small questions and answers over the workbench: text, error, confirmation, a line to type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.style import Style
from textual.widgets import Input, Static

from engine import sanitize
from rknntui.links import GoToOption
from rknntui.shell import InShell
from rknntui.widgets.entries import TextLine
from rknntui.widgets.line_list import TextRows
from rknntui.widgets.wrap import wrap, wrap_line

if TYPE_CHECKING:
    from textual import events
    from textual.app import App, ComposeResult

    from rknntui.shell import Shell
    from rknntui.widgets.strips import Line


_KEYS = {"esc": "escape", "/": "slash", "↑↓": "down"}
"""Names of keys below a dialog that the terminal calls otherwise."""


class Dialog(InShell, ModalScreen[Any]):
    """A framed box in the middle; Esc closes it with None.

    Its keys stand in the frame: a click on one presses it.
    """

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
    Dialog #problem { color: $error; display: none; }
    Dialog.-bad > Vertical { border: round $error; }
    """

    TITLE_TEXT = ""
    KEYS_TEXT = "Esc close"

    @property
    def text_width(self) -> int:
        """Cells for text inside the box, beside a list's scroll bar."""
        return min(71, max(20, self.app.size.width * 96 // 100 - 5))

    def box(self, *children: Any) -> Vertical:
        """The frame around the children and a line for a problem, with title and keys."""
        frame = Vertical(*children, Static("", id="problem", markup=False))
        frame.border_title = Content(self.TITLE_TEXT)
        frame.border_subtitle = Content(" · ").join(
            Content.styled(part, Style.from_meta({"@click": f"screen.press({_key(part)!r})"}))
            for part in self.KEYS_TEXT.split(" · ")
        )
        return frame

    def action_press(self, key: str) -> None:
        """Do what a key of the frame does."""
        # from the application: what the frame sends itself would end there
        self.app.call_later(self.app.simulate_key, key)

    def say(self, problem: str) -> None:
        """Show below the rest what is wrong, or nothing."""
        pane = self.query_one("#problem", Static)
        pane.update(f"✗ {problem}")
        pane.display = bool(problem)


def _key(text: str) -> str:
    """The key that a text such as ``Esc close`` begins with."""
    name = text.split()[0].lower()
    return _KEYS.get(name, name)


def ask_user(app: App[Any] | Shell, dialog: Dialog, then: Callable[[Any], object]) -> None:
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

        kind = str(getattr(error, "kind", "internal"))
        super().__init__("Error" if kind == "error" else f"Error: {kind}", self._report)
        self.add_class("-bad")
        self.error = error
        self._parts = error_parts(error)
        # what another file says is nothing that the open recipe could mend
        of_file = " cannot be used: " in self._parts["what"]
        message = f"{self._parts['what']} {self._parts['remedy']}"
        self.option = "" if of_file else named_option(message) or ""

    def compose(self) -> ComposeResult:
        if self.option and self.workbench.session.recipe:
            self.KEYS_TEXT = f"Enter go to {self.option} · {self.KEYS_TEXT}"
        yield from super().compose()

    def _report(self, width: int) -> list[Line]:
        what, cause, remedy = (
            "\n".join(sanitize(row, 2000) for row in text.splitlines())
            for text in self._parts.values()
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


def error_dialog(error: Exception) -> ErrorDialog:
    """The dialog of an error: a known one as it is; one of this program is logged."""
    from engine import EngineError

    if isinstance(error, EngineError):
        return ErrorDialog(error)
    shown = EngineError(
        f"Internal error in the workbench: {type(error).__name__}: {error}.",
        cause=f"This is a bug in rknntui; please report it. {crash_line(error)}",
        remedy="The workbench continues; the last action may have failed.",
    )
    return ErrorDialog(shown)


def crash_line(error: BaseException) -> str:
    """Log a mistake of this program; one line that says where."""
    from engine import log_crash

    try:
        return f"Details: {log_crash(error)}"
    except OSError as failure:
        return f"Its details could not be written: {failure}."


def error_parts(error: Exception) -> dict[str, str]:
    """``what``, ``cause`` and ``remedy`` of an error; of one that has none what it says."""
    parts = {name: str(getattr(error, name, "")) for name in ("what", "cause", "remedy")}
    return parts | {"what": parts["what"] or str(error)}


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
        parts = [Static(self._question, markup=False)] if self._question else []
        yield self.box(*parts, TextLine(self._value, password=self._hidden))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the text, or say what is wrong with it and let it be corrected."""
        if problem := self._problem(event.value):
            self.say(problem)
            self.app.bell()
        else:
            self.dismiss(event.value)
