"""Header (what is open, what runs, workspaces) and footer (keys)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.geometry import Region
from textual.strip import Strip

from engine import sanitize
from rknntui.keys.actions import REGISTRY
from rknntui.widgets.strips import Line, Painted, cells, fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.screen import Screen

    from rknntui.shell import Shell

_BRAND: Line = [(" RKNN TUI ", "head")]
KEYS_AT_80 = 8
_ROOMY = 100
"""Cells from which on the line of keys has room for more than the most needed."""
_ALSO = ("app.open", "app.undo", "app.quit")
"""Keys of the workbench that are shown there."""
TAB_SHORT = 4


class TopBar(Painted):
    """Line 1: model, recipe and job. Line 2: the workspaces with their keys."""

    DEFAULT_CSS = """
    TopBar { dock: top; height: 2; background: $surface; color: $foreground; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._tabs: list[tuple[int, int, str]] = []
        self._drawn: list[Line] = [[], []]
        self._notices: list[tuple[str, str]] = []

    def tell(self, text: str, style: str, seconds: float) -> bool:
        """Show a notice in the first line for so long; False where there is no room for it."""
        text = sanitize(text)
        if not self.display or cells([(text, "")]) > self._notice_room():
            return False
        notice = (text, style)
        self._notices.append(notice)
        self.set_timer(seconds, partial(self._told, notice))
        self.update()
        return True

    def _told(self, notice: tuple[str, str]) -> None:
        self._notices.remove(notice)
        self.update()

    def _notice_room(self) -> int:
        return self.size.width - cells(_BRAND) - cells(self._job()) - 4

    def _noticed(self) -> Line:
        """The notices, the newest last; older ones as long as there is room."""
        line: Line = []
        for text, style in reversed(self._notices):
            part: Line = [(text, style), *([("  ·  ", "dim")] if line else [])]
            if cells([*part, *line]) > self._notice_room():
                break
            line = [*part, *line]
        return line

    def update(self) -> None:
        """Repaint the lines that say something else now."""
        width = self.size.width
        for y, line in enumerate((self._status(width), self._tab_line(width))):
            if line != self._drawn[y]:
                self.refresh(Region(0, y, width, 1))

    @property
    def workbench(self) -> Shell:
        """The application, typed."""
        return cast("Shell", self.app)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        line = self._status(width) if y == 0 else self._tab_line(width)
        self._drawn[y] = line
        return self.paint(line, width)

    def _status(self, width: int) -> Line:
        session = self.workbench.session
        right = self._job()
        noticed = self._noticed()
        left: Line = list(_BRAND)
        if session.path:
            name = sanitize(session.path.rsplit("/", 1)[-1], 80)
            left += [(" ", ""), (name, "accent")]
        if session.recipe_path and session.recipe_path != session.path:
            left += [("  ", ""), (sanitize(session.recipe_path.rsplit("/", 1)[-1], 60), "")]
        if session.path and session.dirty:
            left.append((" *", "warn"))
        if noticed:
            whole = [*left, ("  ", ""), *noticed]
            left = whole if cells([*whole, *right]) < width - 2 else [*_BRAND, (" ", ""), *noticed]
        gap = width - cells(left) - cells(right) - 1
        if gap < 1:
            text = fit("".join(t for t, _ in left), max(0, width - cells(right) - 2))
            left, gap = [(text, "")], 1
        return [*left, (" " * gap, ""), *right, (" ", "")]

    def _job(self) -> Line:
        session, worker = self.workbench.session, self.workbench.bridge.state
        job = session.running
        if job is not None:
            stage = job.stage
            name = f" {stage.title.lower()}" if stage else " waiting"
            state = "stopping" if job.cancelling else f"{job.fraction:4.0%}"
            return [(f"{job.method}{name} {state}", "accent")]
        if worker == "lost":
            return [("engine stopped", "bad")]
        if worker == "starting":
            return [("engine starting", "dim")]
        if opening := self.workbench.opening:
            return [(f"opening {sanitize(opening, 40)}", "accent")]
        return [("idle", "dim")]

    def _tab_line(self, width: int) -> Line:
        tabs = self.workbench.tabs()
        whole = [(key, title, mark) for _, key, title, _, mark in tabs]
        brief = [(key, short, mark) for _, key, _, short, mark in tabs]
        titles, gap = _tab_form(whole, brief, width)
        line: Line = []
        self._tabs = []
        x = 0
        for (name, key, _, _, mark), title in zip(tabs, titles, strict=True):
            text = f"{title}{mark}{gap}"
            style = "tab" if name == self.workbench.current else ""
            line += [(f" {key} ", style or "key"), (text, style)]
            end = x + len(text) + len(key) + 2
            self._tabs.append((x, end, name))
            x = end
        return line

    def on_click(self, event: events.Click) -> None:
        for start, end, name in self._tabs:
            if event.y == 1 and start <= event.x < end:
                self.app.call_later(self.workbench.show, name)


_Tab = tuple[str, str, str]
"""Key, title and mark of a tab."""


def _tab_form(whole: list[_Tab], brief: list[_Tab], width: int) -> tuple[list[str], str]:
    """(titles, what follows each): the widest form in which all tabs fit.

    Args:
        whole: the tabs with their titles.
        brief: the same with their short titles.
        width: cells of the line.
    """
    forms = [(whole, 99, " "), (whole, 99, ""), (brief, 99, " "), (brief, 99, "")]
    forms += [(brief, TAB_SHORT, " "), *((brief, size, "") for size in range(TAB_SHORT, -1, -1))]
    for tabs, size, gap in forms:
        cut = [title[:size] for _, title, _ in tabs]
        used = sum(len(key) + 2 + len(mark) + len(gap) for key, _, mark in tabs)
        if used + sum(map(len, cut)) <= width:
            return cut, gap
    return [""] * len(whole), ""


class KeyBar(Painted):
    """The keys that work now.

    Those of the focused widget and workspace first, help and palette last.
    """

    DEFAULT_CSS = """
    KeyBar { dock: bottom; height: 1; background: $surface; color: $foreground; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._line: Line = []
        self._places: list[tuple[int, int, str]] = []

    @property
    def workbench(self) -> Shell:
        """The application, typed."""
        return cast("Shell", self.app)

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)

    def _bindings_changed(self, screen: Screen) -> None:
        line = self._compose_line()
        if line != self._line:
            self._line = line
            self.refresh()

    def on_resize(self) -> None:
        self._line = self._compose_line()
        self.refresh()

    def _compose_line(self) -> Line:
        """As many keys as fit, at most eight up to 80 columns; an action shows its first key."""
        width = self.size.width
        last: list[_Key] = []
        keys: list[_Key] = []
        seen: set[str] = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if not binding.show or binding.action in seen:
                continue
            seen.add(binding.action)
            display = self.app.get_key_display(binding)
            entry = _Key(binding.key, display, binding.description, active.enabled)
            (last if active.node is self.app else keys).append(entry)
        room = KEYS_AT_80 - len(last) if width <= 80 else len(keys)
        tail_width = sum(cells(key.line()) for key in last)
        if width >= _ROOMY:
            free = width - tail_width - sum(cells(key.line()) for key in keys)
            for key in reversed(self._more(seen, _ALSO)):
                if (free := free - cells(key.line())) >= 0:
                    last.insert(0, key)
            tail_width = sum(cells(key.line()) for key in last)
            keys += self._more(seen)
            room = len(keys)
        line: Line = []
        self._places = []
        for key in keys[:room]:
            if cells(line) + cells(key.line()) + tail_width > width:
                break
            self._place(line, key)
        line.append((" " * max(0, width - cells(line) - tail_width), ""))
        for key in last:
            self._place(line, key)
        return line

    def _more(self, seen: set[str], ids: Sequence[str] = ()) -> list[_Key]:
        """Keys that are not in a narrow line: of these actions, or of the workspace's others."""
        workspace = self.workbench.current
        keys: dict[str, _Key] = {}
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.id is None or binding.id not in REGISTRY or binding.action in seen:
                continue
            action = REGISTRY[binding.id]
            if not action.palette:
                continue
            if action.id in ids or (not ids and action.noun == workspace):
                seen.add(binding.action)
                display = self.app.get_key_display(binding)
                keys[action.id] = _Key(binding.key, display, action.label, active.enabled)
        return [keys[id_] for id_ in ids or keys if id_ in keys]

    def _place(self, line: Line, key: _Key) -> None:
        start = cells(line)
        line += key.line()
        self._places.append((start, cells(line), key.key))

    def on_click(self, event: events.Click) -> None:
        for start, end, key in self._places:
            if start <= event.x < end:
                self.app.simulate_key(key)

    def render_line(self, y: int) -> Strip:
        return self.paint(self._line, self.size.width)


@dataclass(frozen=True)
class _Key:
    key: str
    display: str
    label: str
    enabled: bool

    def line(self) -> Line:
        """Key and label; a key that does nothing now is dim."""
        if not self.enabled:
            return [(f" {self.display} {self.label} ", "dim")]
        return [(f" {self.display} ", "key"), (f"{self.label} ", "")]


class TooSmall(Painted):
    """Stands in for everything below 60x18."""

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        text = f"The workbench needs 60x18; this is {self.app.size.width}x{self.app.size.height}."
        lines = (
            [text]
            if len(text) <= width
            else ["needs 60x18", f"{self.app.size.width}x{self.app.size.height}"]
        )
        row = y - max(0, (height - len(lines)) // 2)
        shown = lines[row].center(width) if 0 <= row < len(lines) else ""
        return self.paint([(shown, "")], width)
