"""Help for what has the focus; jump mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Label

from rknntui.compat import bindings_in_reach
from rknntui.keys.actions import REGISTRY, found_by, key_text, with_keys
from rknntui.screens.dialogs.dialogs import TextDialog, paragraphs
from rknntui.session.steps import next_step, steps
from rknntui.widgets.line_list import TextRows
from rknntui.widgets.one_line import SearchLine
from rknntui.widgets.wrap import wrap
from rknntui.workspaces import WORKSPACES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual import events
    from textual.app import App, ComposeResult
    from textual.widget import Widget

    from rknntui.session.state import Session
    from rknntui.shell import Shell
    from rknntui.widgets.strips import Line

_KEYS = 19
"""Cells of the column of keys."""
_MOVES = {
    "app.focus_next": "Move to the next pane.",
    "app.focus_previous": "Move to the previous pane.",
    "screen.copy_text": "Copy the text selected with the mouse.",
}
"""Textual's own actions that are worth a line, in our words."""
_SILENT = ("page_left", "page_right", "scroll_left", "scroll_right", "scroll_home", "scroll_end")
"""Textual's own actions of every list that scrolls, which do nothing here."""


class HelpDialog(TextDialog):
    """All keys that work where the focus is, from the inside outwards; ``/`` filters them.

    Before them stand three lines: what the workspace is for, its main keys, what to do next.

    Args:
        app: has the bindings.
        session: has the next step.
        name: of the workspace.
        about: more of it; ``{model.search}`` stands for an action's key.
        view: of the workspace, that is shown: keys of others are left out.
    """

    BINDINGS = [Binding("slash", "search", "Search", show=False)]
    KEYS_TEXT = "/ search · y copy · Esc close"

    def __init__(self, app: App[None], session: Session, name: str, about: str, view: str) -> None:
        self._words: list[str] = []
        title, first = WORKSPACES[name].title, first_lines(session, name, view)
        groups = _groups(app, bindings_in_reach(app.screen), view)
        super().__init__(
            f"Help: {title}", lambda width: _lines(first, about, groups, self._words, width)
        )

    def compose(self) -> ComposeResult:
        rows = TextRows()
        rows.SHOW_CURSOR = False
        yield self.box(rows, SearchLine("search: words of key or text; Enter keeps, Esc shows all"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a text is typed, ``q`` is a letter of it and Enter ends it."""
        typing = isinstance(self.focused, SearchLine)
        return not (typing and action in ("dismiss", "copy", "search"))

    def action_search(self) -> None:
        """Open the line for the search."""
        self.query_one(SearchLine).open()

    @on(SearchLine.Typed)
    def _typed(self, event: SearchLine.Typed) -> None:
        self._words = event.text.lower().split()
        self._lay_out()
        if event.done:
            self.query_one(TextRows).focus()


def _groups(
    app: App[None], reach: Sequence[tuple[str, list[Binding]]], view: str
) -> dict[str, dict[str, str]]:
    """Heading -> keys -> what they do; keys of the screen and of the workbench are one group."""
    groups: dict[str, dict[str, str]] = {}
    for name, bindings in reach:
        everywhere = name.startswith((type(app).__name__, "Screen"))
        heading = "In this workspace" if "workspace" in name else "In this list"
        keys: dict[str, list[str]] = {}
        for binding in bindings:
            text = _MOVES.get(binding.action) or binding.tooltip or binding.description
            here = binding.id not in REGISTRY or REGISTRY[str(binding.id)].works_in(view)
            if text and here and not binding.system and binding.action not in _SILENT:
                keys.setdefault(text, []).append(app.get_key_display(binding))
        rows = {" ".join(shown): text for text, shown in keys.items()}
        if everywhere:  # the workbench's own first, then Textual's
            groups["Everywhere"] = {**rows, **groups.get("Everywhere", {})}
        else:
            groups.setdefault(heading, {}).update(rows)
    return groups


def first_lines(session: Session, name: str, view: str) -> list[str]:
    """What a workspace is for, its main keys, and the next step; each in a line."""
    main = [action for key in "rexa" for action in REGISTRY.of(name)
            if action.works_in(view) and key in REGISTRY.keys_of(action.id)]  # fmt: skip
    keys = " · ".join(f"{key_text(action.id)} {action.label}" for action in main)
    step = next_step(steps(session))
    to_do = f"{step.name}: {step.does or step.text}"
    if step.action in REGISTRY:
        own = REGISTRY.keys_of(step.action)
        key = key_text(step.action) if own else f"{key_text('go.overview')}, Enter"
        to_do = f"{step.does or step.text} ({key})"
    about, _ = found_by().get(name, ("", ""))
    return [about, keys, f"Next: {to_do}."]


def _lines(
    first: Sequence[str],
    about: str,
    groups: Mapping[str, Mapping[str, str]],
    words: Sequence[str],
    width: int,
) -> list[Line]:
    lines: list[Line] = []
    if not words:
        lines = [[(row, "")] for text in first if text for row in wrap(text, width)]
    for heading, rows in groups.items():
        kept = {k: t for k, t in rows.items() if all(w in f"{k} {t}".lower() for w in words)}
        lines += [[], [(heading, "head")]] if kept else []
        for keys, text in kept.items():
            for number, row in enumerate(wrap(text, width - _KEYS)):
                shown = f"  {keys} " if number == 0 else ""
                lines.append([(shown.ljust(_KEYS), "key"), (row, "")])
    if words:
        return lines[1:] or [[("no matches", "dim")]]
    if about:
        lines += [[], *paragraphs([("More", with_keys(about), "")], width)]
    palette = key_text("app.command-palette")
    for text in (
        f"Mouse: click, wheel. {palette} finds every action, option and layer.",
        "docs/glossary.md explains every word, heading, column and sign of the screens.",
    ):
        lines += [[], *([(row, "dim")] for row in wrap(text, width))]
    return lines


# Jump mode: a letter on every pane; pressing it gives the pane the focus.

LETTERS = "asdfghjklqwertyuiopzxcvbnm"


def jump(app: Shell) -> None:
    """Put a letter on every pane, where no dialog is open; go where the user says."""
    if len(app.screen_stack) > 1:
        return
    panes = [widget for widget in app.screen.focus_chain if widget.region.area]
    keys = {key: name for name in WORKSPACES for key in REGISTRY.keys_of(f"go.{name}")}

    def go(name: str | None) -> None:
        if name:
            app.do(app.show(name))

    app.push_screen(JumpOverlay(panes, keys), go)


class JumpOverlay(ModalScreen[str | None]):
    """Dismissed with the name of a workspace; focusing a pane happens here.

    Any other key closes it.

    Args:
        targets: widgets that can have the focus, in the order of the letters.
        workspaces: key -> name of the workspaces, which have their own keys here too.
    """

    DEFAULT_CSS = """
    JumpOverlay { background: $background 30%; }
    JumpOverlay Label {
        position: absolute; width: auto;
        background: $accent; color: $background; text-style: bold;
    }
    """

    def __init__(self, targets: list[Widget], workspaces: dict[str, str]) -> None:
        super().__init__()
        self._targets = dict(zip(LETTERS, targets, strict=False))
        self._labels = [Label(f" {letter} ", id=f"jump-{letter}") for letter in self._targets]
        self._workspaces = workspaces

    def compose(self) -> ComposeResult:
        yield from self._labels

    def on_mount(self) -> None:
        self._place()

    def on_resize(self) -> None:
        self.call_after_refresh(self._place)

    def _place(self) -> None:
        """Labels follow their panes, also after a resize."""
        for label, widget in zip(self._labels, self._targets.values(), strict=True):
            region = widget.region
            label.display = region.width > 0 and region.height > 0
            label.styles.offset = (region.x, region.y)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        self._go(event.key)

    def on_click(self, event: events.Click) -> None:
        """A click on a letter is its key."""
        self._go((event.widget.id or "").removeprefix("jump-") if event.widget else "")

    def _go(self, key: str) -> None:
        target = self._targets.get(key)
        if target is not None and target.is_attached:
            self.dismiss(None)
            target.focus()
        else:
            self.dismiss(self._workspaces.get(key))
