"""A form generated from options: a line each, by section; edited in place, checked as typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.message import Message
from textual.widgets import Input

from engine import EngineError, sanitize
from rknntui.widgets.line_list import Rows
from rknntui.widgets.strips import Line, fit

if TYPE_CHECKING:
    from engine import Option

_NAME_WIDTH = 24
_NOTE_WIDTH = 11
_SHORT_KINDS = ("bool", "choice")

PER_LAYER = ("mapping", "ranges")
"""Kinds with an entry for any number of tensors: a form counts them."""


@dataclass(frozen=True)
class RowState:
    """What a line shows beside the option: its value, and how it came to be.

    Attributes:
        text: the value as text; of an unset option the default's.
        given: whether the recipe names it.
        changed: whether it differs from the recipe's file.
        problem: why it cannot be built; empty where it can.
    """

    text: str
    given: bool
    changed: bool
    problem: str


class FormRows(Rows):
    """The lines: titles of sections between options; the cursor skips the titles.

    Args:
        sections: name -> title.
        options: in their order.
        state_of: what a line shows.
        first: names of options that stand above all sections.
        id: of the widget.
    """

    BINDINGS = [
        Binding("left,h", "turn(-1)", "Previous value", show=False),
        Binding("right,l,space", "turn(1)", "Next value", show=False),
        Binding("delete,backspace", "reset", "Default", show=False),
    ]

    class Turned(Message):
        """The next or previous value of a choice was asked for."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    class Reset(Message):
        """The default was asked for."""

    def __init__(
        self,
        sections: Mapping[Any, str],
        options: tuple[Option, ...],
        state_of: Callable[[Option], RowState],
        *,
        first: tuple[str, ...] = (),
        id: str,  # noqa: A002 - Textual's own name
    ) -> None:
        super().__init__(id=id)
        self._first = first
        self._sections = sections
        self._options = options
        self._state_of = state_of
        self.rows: list[str | Option] = []
        self.show_options(lambda _: True)

    def show_options(self, fits: Callable[[Option], bool]) -> None:
        """Show the options that fit; the cursor stays on its option, or goes to the first."""
        shown = [option for option in self._options if fits(option)]
        essential = [o for name in self._first for o in shown if o.name == name]
        rows: list[str | Option] = ["Essentials", *essential] if essential else []
        for section, title in self._sections.items():
            own = [o for o in shown if o.section == section and o not in essential]
            if own:
                rows += [title, *own]
        if rows == self.rows:
            return
        here = self.option.name if self.rows and self.option is not None else ""
        self.rows = rows
        if self.is_mounted:
            self.rows_changed()
            names = [row if isinstance(row, str) else row.name for row in rows]
            self.cursor = names.index(here) if here in names else min(1, len(rows))
            self.post_message(self.Highlighted(self, self.cursor))

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def on_mount(self) -> None:
        self.rows_changed()

    def on_resize(self) -> None:
        """The line under the cursor stays in view, also when the first layout comes after it."""
        if self.cursor < self.size.height:
            self.scroll_to(y=0, animate=False, force=True)
        else:
            self.reveal(self.cursor)

    @property
    def option(self) -> Option | None:
        """The option under the cursor."""
        row = self.rows[self.cursor] if self.cursor < len(self.rows) else None
        return None if isinstance(row, str) else row

    def index_of(self, name: str) -> int:
        """The line of an option; ValueError where there is none."""
        for index, row in enumerate(self.rows):
            if not isinstance(row, str) and row.name == name:
                return index
        raise ValueError(name)

    def validate_cursor(self, cursor: int) -> int:
        """Titles are passed over in the direction of the move."""
        cursor = super().validate_cursor(cursor)
        step = 1 if cursor >= self.cursor else -1
        while 0 < cursor < len(self.rows) - 1 and isinstance(self.rows[cursor], str):
            cursor += step
        if self.rows and isinstance(self.rows[cursor], str):
            cursor += 1
        return cursor

    def watch_cursor(self, old: int, new: int) -> None:
        super().watch_cursor(old, new)
        if new == 1:
            self.scroll_to(y=0, animate=False, force=True)

    def value_column(self) -> tuple[int, int]:
        """First cell and width of the values."""
        width = self.scrollable_content_region.width
        start = 2 + _NAME_WIDTH
        return start, max(8, width - start - _NOTE_WIDTH)

    def row_line(self, index: int, width: int) -> Line:
        row = self.rows[index]
        if isinstance(row, str):
            return [(f" {row}", "head")]
        state = self._state_of(row)
        room = self.value_column()[1]
        mark = "✗" if state.problem else "●" if state.changed else " "
        mark_style = "bad" if state.problem else "accent" if state.changed else ""
        text = state.text
        if row.kind in _SHORT_KINDS and index == self.cursor and self.has_focus:
            text = f"◂ {text or 'not set'} ▸"
        style = "bad" if state.problem else "" if state.given else "dim"
        note = "problem" if state.problem else "changed" if state.changed else ""
        if not note:
            note = "set" if state.given else ""
        name = row.name + (" ext" if row.extension else "")
        here = "▸" if index == self.cursor else " "
        return [
            (here, ""),
            (mark, mark_style),
            (fit(name, _NAME_WIDTH - 1), "bad" if state.problem else ""),
            (" ", ""),
            (fit(text, room), style),
            (" ", ""),
            (note.rjust(_NOTE_WIDTH - 2) + " ", "dim"),
        ]

    def action_turn(self, step: int) -> None:
        """Ask for the next or previous value."""
        self.post_message(self.Turned(step))

    def action_reset(self) -> None:
        """Ask for the default."""
        self.post_message(self.Reset())


class Editor(Input):
    """The value under the cursor while it is edited."""

    BINDINGS = [
        Binding("escape", "give_up", "Cancel", show=False),
        Binding("up", "leave(-1)", "Accept, previous", show=False),
        Binding("down,tab", "leave(1)", "Accept, next", show=False),
    ]

    def action_give_up(self) -> None:
        """Leave without a change."""
        self.query_ancestor(OptionForm).close_editor()

    def action_leave(self, step: int) -> None:
        """Accept and move on; stays where the text is no value."""
        form = self.query_ancestor(OptionForm)
        if form.accept(self.value):
            form.rows.action_move(step)


class OptionForm(Container):
    """The lines and the editor over them."""

    DEFAULT_CSS = """
    OptionForm {
        layers: lines edit; height: 1fr;
        & > FormRows { layer: lines; height: 1fr; }
        & > Editor {
            layer: edit; position: absolute; height: 1; border: none; padding: 0; display: none;
            background: $panel;
        }
        &.-editing > Editor { display: block; }
        &.-bad > Editor { color: $error; }
    }
    """

    class Changed(Message):
        """The user gave an option a value (None: the default)."""

        def __init__(self, option: Option, value: Any) -> None:
            super().__init__()
            self.option, self.value = option, value

    class Typed(Message):
        """The text in the editor changed.

        ``problem`` says why it is no value, empty where it is one. After the editor was left,
        ``text`` is None.
        """

        def __init__(self, option: Option, text: str | None, problem: str, value: Any) -> None:
            super().__init__()
            self.option, self.text, self.problem, self.value = option, text, problem, value

    def __init__(self, rows: FormRows, text_of: Callable[[Option], str], *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self.rows = rows
        self._text_of = text_of
        self._editor = Editor(compact=True, select_on_focus=True)
        self._editor.cursor_blink = False
        self._edited: Option | None = None

    def compose(self) -> ComposeResult:
        yield self.rows
        yield self._editor

    @property
    def editing(self) -> bool:
        """Whether the editor is open."""
        return self._edited is not None

    def focus_option(self, name: str) -> None:
        """Put the cursor on an option and the focus on the lines."""
        self.rows.cursor = self.rows.index_of(name)
        self.rows.focus()

    def edit(self) -> None:
        """Open the editor on the option under the cursor."""
        option = self.rows.option
        if option is None:
            return
        self._edited = option
        self._editor.value = self._text_of(option)
        self._place()
        self.add_class("-editing")
        self._editor.focus()

    def _place(self) -> None:
        start, room = self.rows.value_column()
        self._editor.styles.offset = (start, self.rows.cursor - self.rows.scroll_offset.y)
        self._editor.styles.width = room

    def on_resize(self) -> None:
        """The editor stays over its line."""
        if self.editing:
            self.call_after_refresh(self._place)

    def close_editor(self) -> None:
        """Leave the editor; the lines have the focus."""
        option, self._edited = self._edited, None
        self.remove_class("-editing", "-bad")
        self.rows.focus()
        self.rows.refresh()
        if option is not None:
            self.post_message(self.Typed(option, None, "", None))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Check as typed."""
        event.stop()
        option = self._edited
        if option is None:
            return
        value, problem = _parsed(option, event.value)
        self.set_class(bool(problem), "-bad")
        self.post_message(self.Typed(option, event.value, problem, value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Accept with Enter."""
        event.stop()
        self.accept(event.value)

    def accept(self, text: str) -> bool:
        """Take the text as the option's value; False where it is none, the editor stays open."""
        option = self._edited
        if option is None:
            return True
        value, problem = _parsed(option, text)
        if problem:
            self.app.bell()
            return False
        self.close_editor()
        self.post_message(self.Changed(option, value))
        return True


def _parsed(option: Option, text: str) -> tuple[Any, str]:
    """(value, why there is none)."""
    try:
        return option.parse(text), ""
    except EngineError as error:
        return None, sanitize(error.what, 300)


def value_text(option: Option, recipe: Mapping[str, object]) -> str:
    """The value of an option in a recipe as a form shows it."""
    value = recipe.get(option.name)
    if option.kind in PER_LAYER and isinstance(value, Mapping) and value:
        return f"{len(value)} tensors (Enter: Layers, e: edit as text)"
    shown = option.render(option.default if value is None else value)
    return sanitize(shown, 300) if cell_len(shown) else ""
