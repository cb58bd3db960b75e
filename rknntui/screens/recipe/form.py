"""The recipe's options as a form: a line each, by section; edited in place, checked as typed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.binding import Binding
from textual.containers import Container
from textual.widgets import Input

from engine import OPTIONS, SECTIONS, EngineError, Option, sanitize
from engine.wire.requests import VALIDATE, OfRecipe
from rknntui.screens.base.workspace import Workspace
from rknntui.widgets.entries import TextLine
from rknntui.widgets.line_list import Rows
from rknntui.widgets.strips import fit

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.worker import WorkType

    from rknntui.widgets.strips import Line

PER_LAYER = ("mapping", "ranges")
"""Kinds with an entry for any number of tensors: the form counts them."""
_FIRST = (
    *("model", "dataset", "mean_values", "std_values", "target_platform"),
    *("quantized_dtype", "quantized_algorithm"),
)
"""Options that stand above all sections."""
_NAME_WIDTH = 24
_NOTE_WIDTH = 11
_CHECK_SECONDS = 0.25
_MARKS = {"problem": ("✗", "bad"), "checking": ("…", "dim"), "changed": ("●", "accent")}


class FormRows(Rows):
    """The lines: titles of sections between options; the cursor skips the titles."""

    BINDINGS = [
        Binding("left,h", "turn(-1)", "Previous value", show=False),
        Binding("right,l,space", "turn(1)", "Next value", show=False),
        Binding("delete,backspace", "reset", "Default", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.rows: list[str | Option] = []

    @property
    def place(self) -> Workspace:
        """The workspace, which has the recipe and changes it."""
        return self.query_ancestor(Workspace)

    def show_options(self, fits: Callable[[Option], bool]) -> None:
        """Show the options that fit; the cursor stays on its option, or goes to the first."""
        shown = [option for option in OPTIONS if fits(option)]
        first = [o for name in _FIRST for o in shown if o.name == name]
        own = {
            title: [o for o in shown if o.section == section and o not in first]
            for section, title in SECTIONS.items()
        }
        rows: list[str | Option] = []
        for title, group in {"Essentials": first, **own}.items():
            rows += [title, *group] if group else []
        if rows == self.rows:
            return
        here, self.rows = self.option, rows
        self.rows_changed()
        self.cursor = rows.index(here) if here in rows else min(1, len(rows))
        self.post_message(self.Highlighted(self))

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def reveal(self, index: int) -> None:
        """The title of the first section is seen with the first option."""
        super().reveal(0 if index == 1 else index)

    @property
    def option(self) -> Option | None:
        """The option under the cursor."""
        row = self.rows[self.cursor] if self.cursor < len(self.rows) else None
        return None if isinstance(row, str) else row

    def validate_cursor(self, cursor: int) -> int:
        """Titles are passed over in the direction of the move."""
        cursor = super().validate_cursor(cursor)
        step = 1 if cursor >= self.cursor else -1
        while 0 < cursor < len(self.rows) - 1 and isinstance(self.rows[cursor], str):
            cursor += step
        if self.rows and isinstance(self.rows[cursor], str):
            cursor += 1
        return cursor

    def value_column(self) -> tuple[int, int]:
        """First cell and width of the values."""
        start = 2 + _NAME_WIDTH
        return start, max(8, self.scrollable_content_region.width - start - _NOTE_WIDTH)

    def row_line(self, index: int, width: int) -> Line:
        row = self.rows[index]
        if isinstance(row, str):
            return [(f" {row}", "head")]
        session, here = self.place.session, index == self.cursor
        recipe, name = session.recipe, row.name
        bad, checking = name in session.all_problems, name in session.checking
        given, changed = name in recipe, recipe.get(name) != session.history.saved.get(name)
        note = "set" if given else ""
        note = "problem" if bad else "checking" if checking else "changed" if changed else note
        mark, style = _MARKS.get(note, (" ", ""))
        text = value_text(row, recipe)
        if row.kind in ("bool", "choice") and here and self.has_focus:
            text = f"◂ {text or 'not set'} ▸"
        return [
            ("▸" if here else " ", ""),
            (mark, style),
            (fit(name + " ext" * row.extension, _NAME_WIDTH - 1) + " ", "bad" if bad else ""),
            (fit(text, self.value_column()[1]) + " ", "bad" if bad else "" if given else "dim"),
            (note.rjust(_NOTE_WIDTH - 2) + " ", "dim"),
        ]

    def action_turn(self, step: int) -> None:
        """Take the next or previous value."""
        if (option := self.option) is not None:
            value = self.place.session.recipe.get(option.name, option.default)
            new = option.turned(value, step)
            if new != value:
                self.place.change_recipe({option.name: new})

    def action_reset(self) -> None:
        """Take the default."""
        if (option := self.option) is not None and option.name != "model":
            self.place.change_recipe({option.name: None})


class OptionForm(Container):
    """The lines, and over them the editor of the value under the cursor."""

    BINDINGS = [
        Binding("escape", "leave(0)", "Cancel", show=False),
        Binding("up", "leave(-1)", "Accept, previous", show=False),
        Binding("down,tab", "leave(1)", "Accept, next", show=False),
    ]
    DEFAULT_CSS = """
    OptionForm {
        layers: lines edit; height: 1fr;
        & > FormRows { layer: lines; height: 1fr; }
        & > Input {
            layer: edit; position: absolute; height: 1; border: none; padding: 0; display: none;
            background: $panel;
        }
        &.-editing > Input { display: block; }
        &.-bad > Input { color: $error; }
    }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.rows = FormRows(id="options")
        self._editor = TextLine(select_on_focus=True)
        self._edited: Option | None = None

    def compose(self) -> ComposeResult:
        yield self.rows
        yield self._editor

    @property
    def editing(self) -> bool:
        """Whether the editor is open."""
        return self._edited is not None

    def focus_option(self, name: str) -> None:
        """Put the cursor on an option that is shown, and the focus on the lines."""
        names = [row if isinstance(row, str) else row.name for row in self.rows.rows]
        self.rows.cursor = names.index(name)
        self.rows.focus()

    def edit(self) -> None:
        """Open the editor on the option under the cursor."""
        if (option := self.rows.option) is not None:
            self._edited = option
            self._editor.value = as_typed(option, self.rows.place.session.recipe)
            self._lay_over()
            self.add_class("-editing")
            self._editor.focus()

    def _lay_over(self) -> None:
        start, room = self.rows.value_column()
        self._editor.styles.offset = (start, self.rows.cursor - self.rows.scroll_offset.y)
        self._editor.styles.width = room

    def on_resize(self) -> None:
        """The editor stays over its line."""
        if self.editing:
            self.call_after_refresh(self._lay_over)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """There is nothing to leave where no value is edited."""
        return self.editing

    def action_leave(self, step: int) -> None:
        """Accept and move on, which a text that is no value does not; 0: leave without a change."""
        if not step:
            self.close_editor()
        elif self.accept():
            self.rows.action_move(step)

    def close_editor(self) -> None:
        """Leave the editor; the lines have the focus."""
        option, self._edited = self._edited, None
        self.remove_class("-editing", "-bad")
        self.rows.focus()
        if option is not None:
            self.rows.place.session.set_typed_problem(option.name, None)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        """Tell at once what the text is not, and ask the worker about what it is."""
        event.stop()
        if (option := self._edited) is None:
            return
        value, problem = _parsed(option, event.value)
        self.set_class(bool(problem), "-bad")
        self.rows.place.session.set_typed_problem(option.name, problem)
        if not problem:
            check: WorkType[None] = partial(self._check, option, event.value, value)
            self.run_worker(check, exclusive=True)

    async def _check(self, option: Option, text: str, value: object) -> None:
        """Say what the model makes of a value, once the typing rests."""
        await asyncio.sleep(_CHECK_SECONDS)
        with suppress(EngineError):
            recipe = {**self.rows.place.session.recipe, option.name: value}
            if value is None or value == option.default:
                del recipe[option.name]
            answer = await self.rows.place.bridge.call(VALIDATE, OfRecipe(recipe))
            if (self._edited, self._editor.value) == (option, text):
                told = {problem.option: problem.message for problem in answer.problems}
                self.rows.place.session.set_typed_problem(option.name, told.get(option.name, ""))

    @on(Input.Submitted)
    def accept(self) -> bool:
        """Take the text as the option's value; False where it is none, the editor stays open."""
        if (option := self._edited) is None:
            return True
        value, problem = _parsed(option, self._editor.value)
        if problem:
            self.app.bell()
            return False
        self.close_editor()
        self.rows.place.change_recipe({option.name: value})
        return True


def _parsed(option: Option, text: str) -> tuple[object, str]:
    """(value, why there is none)."""
    try:
        return option.parse(text), ""
    except EngineError as error:
        return None, sanitize(error.what, 300)


def as_typed(option: Option, recipe: Mapping[str, object]) -> str:
    """The value of an option in a recipe, or its default, as a user types it."""
    value = recipe.get(option.name)
    return option.render(option.default if value is None else value)


def value_text(option: Option, recipe: Mapping[str, object]) -> str:
    """The value of an option in a recipe as the form shows it."""
    value = recipe.get(option.name)
    if option.kind in PER_LAYER and isinstance(value, Mapping) and value:
        return f"{len(value)} tensors (Enter: Layers, e: edit as text)"
    return sanitize(as_typed(option, recipe), 300)
