"""A form for the parameters of requests, made from their declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from textual.binding import Binding
from textual.containers import Horizontal
from textual.widgets import Input, Label, Static

from engine.wire.flags import PATHS, Param, form_params
from rknntui.screens.dialogs.dialogs import Dialog, ask_user
from rknntui.widgets.entries import ChoiceLine, PathInput, TextLine

if TYPE_CHECKING:
    from textual import events
    from textual.app import App, ComposeResult
    from textual.widget import Widget

_AGAIN = "-again"
"""Ends the name of the line in which a secret is typed once more."""
Choices = Mapping[str, Sequence[str]]
"""Field -> the values that the place knows for it, where the request's type has none."""


@dataclass(frozen=True)
class Form:
    """What a place asks of requests: all of their parameters, but for those that it has itself.

    Attributes:
        title: of the dialog.
        requests: types of the requests, in the order of the lines.
        without: field -> where the place has it from, for who reads this.
    """

    title: str
    requests: tuple[type[Any], ...]
    without: Mapping[str, str] = field(default_factory=dict)

    @property
    def params(self) -> dict[str, Param]:
        """The parameters that have a line, by field."""
        every = (param for request in self.requests for param in form_params(request))
        return {param.path[0]: param for param in every if param.path[0] not in self.without}

    def read(self, now: Sequence[Any], texts: Mapping[str, str]) -> list[Any]:
        """The requests with what the lines say; ValueError says which line is wrong.

        Args:
            now: the requests as they stand.
            texts: field -> the text of its line; one that is left out stays as it is.
        """
        changed = {
            name: param.parse(texts[name]) for name, param in self.params.items() if name in texts
        }
        return [
            replace(one, **{n: value for n, value in changed.items() if hasattr(one, n)})
            for one in now
        ]

    def ask(
        self,
        app: App[None],
        *now: Any,
        then: Callable[[Any], object],
        check: Callable[..., Any] = lambda request: request,
        choices: Choices | None = None,
        title: str = "",
    ) -> None:
        """Show the form.

        Args:
            app: shows it.
            now: the requests as they stand: what the lines have at first.
            then: called with what ``check`` gives, unless the user cancels.
            check: takes the requests and gives what is meant; ValueError says what is wrong.
            choices: values that the place knows.
            title: in the place of the form's own.
        """
        ask_user(app, RequestDialog(self, now, check, choices or {}, title or self.title), then)


class RequestDialog(Dialog):
    """A line for each parameter of a form; dismissed with what is asked for, None for Esc."""

    # before the field has them: a field that is typed right after is the next one already
    BINDINGS = [
        Binding("down", "field(1)", "Next", show=False, priority=True),
        Binding("up", "field(-1)", "Before", show=False, priority=True),
        Binding("enter", "accept", "Accept", show=False, priority=True),
        Binding("f2", "pick", "Choose a path", show=False, priority=True),
    ]
    AUTO_FOCUS = "Input, ChoiceLine"
    KEYS_TEXT = "↑↓ field · Enter accept · Esc cancel"
    DEFAULT_CSS = """
    RequestDialog Horizontal { height: 1; background: $background; }
    RequestDialog Label { background: $background; }
    RequestDialog Input { width: 20; }
    RequestDialog Input.-wide { width: 1fr; }
    RequestDialog .hint {
        width: 1fr; color: $text-muted; padding-left: 1; text-wrap: nowrap; text-overflow: ellipsis;
    }
    RequestDialog .pick { width: auto; color: $text-muted; padding-left: 1; }
    RequestDialog #problem { display: block; min-height: 1; }
    """

    def __init__(
        self,
        form: Form,
        now: Sequence[Any],
        check: Callable[..., Any],
        choices: Choices,
        title: str,
    ) -> None:
        super().__init__()
        self.TITLE_TEXT = title
        self._form, self._now, self._check, self._choices = form, now, check, choices
        self._params = form.params
        if any(param.flag.kind in PATHS for param in self._params.values()):
            self.KEYS_TEXT = f"↑↓ field · F2 choose path{self.KEYS_TEXT.removeprefix('↑↓ field')}"

    def compose(self) -> ComposeResult:
        width = max(len(param.label) for param in self._params.values()) + 1
        lines = []
        for name, param in self._params.items():
            value = next(getattr(one, name) for one in self._now if hasattr(one, name))
            lines.append(self._line(param.label, width, self._entry(name, param, value), param))
            if param.flag.kind == "secret":
                again = self._entry(f"{name}{_AGAIN}", param, value)
                lines.append(self._line("again", width, again, param))
        yield self.box(*lines)

    def _line(self, label: str, width: int, entry: Input | ChoiceLine, param: Param) -> Horizontal:
        shown = Label(label, markup=False)
        shown.styles.width = width
        path = isinstance(entry, PathInput)
        known = " or ".join(self._choices.get(param.path[0], ())) or param.hint
        hint = Label("F2" if path else known, classes="pick" if path else "hint", markup=False)
        entry.set_class(path or param.pairs, "-wide")
        hint.display = not param.pairs
        return Horizontal(shown, entry, hint)

    def _entry(self, name: str, param: Param, value: Any) -> Input | ChoiceLine:
        """What a parameter is typed or chosen in."""
        values = self._choices.get(name, param.choices)
        if param.of is bool:
            values = ("no", "yes")
        text = param.text(value)
        if values:
            unset = [] if param.default in values or param.of is bool else [""]
            words = {"": param.unset, "no": "[ ]", "yes": "[x]"} if param.of is bool else {}
            shown = {one: words.get(one, one or param.unset) for one in (*unset, *values)}
            return ChoiceLine(shown, text, id=name)
        kind = PathInput if param.flag.kind in PATHS and not param.many else TextLine
        secret = param.flag.kind == "secret"
        return kind(text, id=name, select_on_focus=True, placeholder=param.unset, password=secret)

    def _value(self, name: str) -> str:
        value: str = cast("Any", self.query_one(f"#{name}")).value
        return value

    @property
    def _param(self) -> Param | None:
        """That of the line with the focus."""
        focused = self.focused
        return (
            None if focused is None else self._params.get((focused.id or "").removesuffix(_AGAIN))
        )

    def action_field(self, by: int) -> None:
        """Go to the next field, or the one before."""
        (self.focus_next if by > 0 else self.focus_previous)("Input, ChoiceLine")

    def on_descendant_focus(self) -> None:
        """Say below the lines what the one with the focus is for, in full."""
        if (param := self._param) is not None:
            self.query_one("#problem", Static).update(param.flag.help)

    def on_click(self, event: events.Click) -> None:
        """A click on the F2 behind a path is that key, on its line."""
        if event.widget is not None and event.widget.has_class("pick"):
            self.set_focus(cast("Widget", event.widget.parent).query_one(PathInput))
            self.action_pick()

    def action_pick(self) -> None:
        """Choose the path of the line with the focus in the picker."""
        from rknntui.screens.dialogs.picker import PathPicker

        param, entry = self._param, self.focused
        if param is None or param.flag.kind not in PATHS or not isinstance(entry, Input):
            return

        def chosen(path: str) -> None:
            entry.value = f"{entry.value} {path}".strip() if param.many else path

        start = "" if param.many else entry.value
        said, new = param.flag.help.lower(), "-o" in param.names
        folders = param.flag.kind == "folder" or "folder" in said
        suffixes = [s for s in (".rknn", ".txt") if s in said and not new]
        dialog = PathPicker(param.label, start, folders=folders, new=new, suffixes=suffixes)
        ask_user(self.app, dialog, chosen)

    def action_accept(self) -> None:
        """Go on where every text is a value."""
        try:
            for name, param in self._params.items():
                secret = param.flag.kind == "secret"
                if secret and self._value(name) != self._value(f"{name}{_AGAIN}"):
                    raise ValueError(f"{param.label}: that is another one than the first time.")
            texts = {name: self._value(name) for name in self._params}
            request = self._check(*self._form.read(self._now, texts))
        except ValueError as error:
            self.query_one("#problem", Static).update(f"✗ {error}")
            self.app.bell()
        else:
            self.dismiss(request)
