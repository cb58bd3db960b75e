"""Header (what is open, what runs, workspaces) and footer (keys)."""

from __future__ import annotations

from functools import partial
from itertools import accumulate, product
from typing import TYPE_CHECKING, NamedTuple

from textual.geometry import Region
from textual.strip import Strip

from engine import sanitize
from engine.wire.formats import PROGRESS
from rknntui.keys.actions import REGISTRY, key_text
from rknntui.session.steps import steps
from rknntui.session.target import mismatches, toolkit_of
from rknntui.shell import InShell
from rknntui.widgets.strips import Line, Painted, cells, shorten
from rknntui.workspaces import WORKSPACES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from rknntui.session.state import Session

KEYS_AT_80 = 8
_ROOMY = 100
"""Cells from which on the line of keys has room for more than the most needed."""
_ALSO = ("app.open", "app.undo", "app.quit")
"""Keys of the workbench that are shown there."""
_ENGINE = {"lost": ("engine stopped", "bad"), "starting": ("engine starting", "dim")}
"""What is said of the worker, and its style, where it does not answer."""


class TopBar(InShell, Painted):
    """Line 1: what is open, the target, the job. Line 2: the steps with their states."""

    DEFAULT_CSS = """
    TopBar { dock: top; height: 2; background: $surface; color: $foreground; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._tabs: list[tuple[int, int, str]] = []
        self._drawn: list[Line] = [[], []]
        self._notices: list[tuple[str, str]] = []
        self._target: tuple[int, int] = (0, 0)

    def tell(self, text: str, title: str, severity: str, seconds: float) -> bool:
        """Show a notice in the first line for so long; False where it needs a box: it is long, an
        error, or has a title and is not alone or warns.
        """
        sign, style = ("! ", "warn") if severity == "warning" else ("", "good")
        text = sanitize(f"{sign}{text}")
        boxed = severity == "error" or (title and (severity != "information" or self._notices))
        if boxed or not self.display or cells([(text, "")]) > self.size.width - 2:
            return False
        notice = (text, style)
        self._notices.append(notice)
        self.set_timer(seconds, partial(self._told, notice))
        self.update()
        return True

    def _told(self, notice: tuple[str, str]) -> None:
        self._notices.remove(notice)
        self.update()

    def _noticed(self, room: int) -> Line:
        """The notices, the newest last; older ones as long as there is room."""
        line: Line = []
        for text, style in reversed(self._notices):
            part: Line = [(text, style), *([("  ·  ", "dim")] if line else [])]
            if line and cells([*part, *line]) > room:
                break
            line = [*part, *line]
        return line

    def update(self) -> None:
        """Repaint the lines that say something else now."""
        width = self.size.width
        for y, line in enumerate((self._status(width), self._tab_line(width))):
            if line != self._drawn[y]:
                self.refresh(Region(0, y, width, 1))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        line = self._status(width) if y == 0 else self._tab_line(width)
        self._drawn[y] = line
        return self.paint(line, width)

    def _status(self, width: int) -> Line:
        """Name, target and job; a notice takes the place of what it has no room beside."""
        name, jobs, self._target = self._opened(), self._job(), (0, 0)
        forms: list[tuple[Line, Line, Line]]
        if self._notices:
            beside = product((name, []), jobs)
            forms = [(n, self._noticed(width - cells(n) - cells(j) - 6), j) for n, j in beside]
            forms.append(([], self._noticed(width), []))
        else:
            forms = [(name, target, job) for job, target in product(jobs, self._targets())]
        for left, middle, right in forms:
            used = cells(left) + cells(middle) + cells(right) + 2
            if used + (3 if middle and left else 0) + (1 if right else 0) <= width:
                break
        else:  # not even that: the name gives way
            text = "".join(text for text, _ in name).strip()
            left = [(f" {shorten(text, max(0, width - cells(middle) - cells(right) - 6))}", "")]
        start = cells(left) + 3 if left else 1
        if middle and not self._notices:
            self._target = start, start + cells(middle)
        whole: Line = [*left, (" " * (start - cells(left)), ""), *middle]
        return [*whole, (" " * max(1, width - cells(whole) - cells(right) - 1), ""), *right]

    def _opened(self) -> Line:
        """What is open, and how many options were changed since it was saved."""
        session = self.workbench.session
        path = session.recipe_path or session.path
        if not path:
            return [(" RKNN TUI", "head")]
        line: Line = [(" ", ""), (sanitize(path.rsplit("/", 1)[-1], 80), "accent")]
        now, saved = session.recipe, session.history.saved
        if changed := sum(now.get(name) != saved.get(name) for name in {*now, *saved}):
            line.append((f" ●{changed}", "warn"))
        return line

    def _targets(self) -> list[Line]:
        """The target: whole, then with less of it."""
        session = self.workbench.session
        if session.model is None and not session.boards.chosen:
            return [[]]
        wrong = {one.kind for one in mismatches(session)}
        chip: Line = [(session.chip or "no chip", "" if session.chip else "dim")]
        toolkit, board = toolkit_of(session), sanitize(session.boards.chosen or "", 40)
        made: Line = []
        if "toolkit" in wrong:
            made = [(" · ", "dim"), ("no toolkit !", "warn")]
        elif toolkit is not None:
            made = [(" · ", "dim"), (f"toolkit {toolkit.version or toolkit.name}", "")]
        there: Line = []
        if board:
            sign, style, device = "", "", session.boards.device
            if "board" in wrong:
                sign, style = "!", "warn"
            elif device is not None and not device.usable:
                sign, style = "✗", "bad"
            elif device is not None:
                sign, style = ("✓", "good") if session.boards.met else ("?", "accent")
            there = [(" · ", "dim"), (board, ""), (f" {sign}" if sign else "", style)]
        if "compiled" in wrong:
            there += [(" · ", "dim"), ("compiled !", "warn")]
        short = [*chip, (" !", "warn")] if wrong - {"build"} else chip
        return [[*chip, *made, *there], [*chip, *there], short]

    def _job(self) -> list[Line]:
        """What runs, whole and shorter."""
        session, worker = self.workbench.session, self.workbench.bridge.state
        job = session.running
        if job is not None:
            name = job.method.rpartition(".")[2]
            stage = job.stage.title.lower().removeprefix(f"{name} ") if job.stage else "waiting"
            state = "stopping" if job.cancelling else PROGRESS.text(job.fraction)
            left = f" · {time} left" if (time := self.workbench.time_left(job)) else ""
            waits = len(session.jobs.under_way) - 1
            more = f" +{waits}" if waits > 0 else ""
            words = (f"{name} {stage} {state}{left}{more}", f"{name} {state}{left}{more}", state)
            return [[(text, "accent")] for text in words]
        if worker in _ENGINE:
            return [[_ENGINE[worker]]]
        if opening := session.opening:
            return [[(f"opening {sanitize(opening, 40)}", "accent")], [("opening", "accent")]]
        return [[("idle", "dim")]]

    def _tab_line(self, width: int) -> Line:
        tabs = step_tabs(self.workbench.session)
        line: Line = []
        self._tabs = []
        x = 0
        for tab, (title, said, gap) in zip(tabs, _tab_form(tabs, width), strict=True):
            here = tab.name == self.workbench.current
            parts: Line = [(f" {tab.key} ", "key"), (title, ""), (said, tab.style), (gap, "")]
            line += [(text, "tab" if here else style) for text, style in parts]
            end = x + cells(parts)
            self._tabs.append((x, end, tab.name))
            x = end
        return line

    async def on_click(self, event: events.Click) -> None:
        """Show the step under the pointer, or what the target is."""
        for start, end, name in self._tabs:
            if event.y == 1 and start <= event.x < end:
                self.app.call_later(self.workbench.show, name)
        if event.y == 0 and self._target[0] <= event.x < self._target[1]:
            await self.app.run_action("target")


class Tab(NamedTuple):
    """A workspace in the line of steps, with the state of its step."""

    name: str
    sign: str = ""
    figure: str = ""
    style: str = ""

    @property
    def key(self) -> str:
        """What shows it."""
        return key_text(f"go.{self.name}")


_SHOWS = {"model": ("model",), "recipe": ("config", "dataset"), "layers": ("build", "accuracy"),
          "chips": ("compile", "estimate"), "bench": ("board",), "result": ("result",)}  # fmt: skip
"""Workspace -> its steps; the last one has the figure, unless one before it is to be told first."""
_WRONG = {"board": "bench", "compiled": "chips", "toolkit": "chips"}
"""What of the target does not fit -> the workspace whose sign tells it."""
_TOLD = ("running", "failed", "loading", "stale")
"""States that are told before those of other steps."""


def step_tabs(session: Session) -> list[Tab]:
    """All workspaces in their order, with what their steps say."""
    known = {step.name: step for step in steps(session)}
    wrong = {_WRONG.get(one.kind) for one in mismatches(session)}
    tabs = []
    for name in WORKSPACES:
        own = [known[step] for step in _SHOWS.get(name, ())]
        tab = Tab(name)
        if own:
            shown = next((step for state in _TOLD for step in own if step.state == state), own[-1])
            figure = ("" if shown.state == "stale" else shown.figure) or own[-1].figure
            if name == "recipe":
                figure = own[0].figure
            tab = Tab(name, shown.sign, figure, shown.style)
            if name in wrong and shown.state not in _TOLD:
                tab = Tab(name, "!", figure, "warn")
        elif name == "builds" and (builds := len(session.builds or ())):
            tab = Tab(name, figure=str(builds))
        tabs.append(tab)
    return tabs


_Form = tuple[str, str, str]
_LESS = ("model", "result", "builds", "recipe", "bench", "chips", "layers")
"""Whose figures go first where there is no room."""


def _tab_form(tabs: Sequence[Tab], width: int) -> list[_Form]:
    """(title, sign and figure, gap) of each: figures go first, then words shorten, signs stay."""

    def form(without: Sequence[str], size: int, brief: bool, gap: str) -> list[_Form]:
        made: list[_Form] = []
        for tab in tabs:
            said = f"{tab.sign}{'' if tab.name in without else tab.figure}"
            place = WORKSPACES[tab.name]
            title = (place.brief if brief else place.title)[:size]
            made.append((title, f" {said}" if said and not brief else said, gap))
        return made

    forms = [form(_LESS[:count], 99, False, " ") for count in range(len(_LESS) + 1)]
    forms += [form(_LESS, 99, True, " "), form(_LESS, 99, True, "")]
    forms += [form(_LESS, size, True, "") for size in range(5, -1, -1)]
    keys = sum(len(tab.key) + 2 for tab in tabs)
    for made in forms:
        if keys + sum(cells([(text, "") for text in parts]) for parts in made) <= width:
            break
    return made


class KeyBar(InShell, Painted):
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

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.on_resize())

    def on_resize(self) -> None:
        """The keys, or their room, are others: repaint where the line says something else."""
        if (line := self._compose_line()) != self._line:
            self._line = line
            self.refresh()

    def _compose_line(self) -> Line:
        """As many keys as fit, at most eight up to 80 columns; an action shows its first key."""
        width, groups = self.size.width, self._keys()
        keys, last = groups["own"], groups["last"]
        if width >= _ROOMY:
            free = width - sum(cells(key.line) for key in (*keys, *last))
            for key in reversed(groups["also"]):
                if (free := free - cells(key.line)) >= 0:
                    last.insert(0, key)
            keys = [*keys, *groups["more"]]
        elif width <= 80:
            keys = keys[: KEYS_AT_80 - len(last)]
        room = width - sum(cells(key.line) for key in last)
        ends = accumulate(cells(key.line) for key in keys)
        keys = [key for key, end in zip(keys, ends, strict=True) if end <= room]
        gap = _Key("", [(" " * max(0, room - sum(cells(key.line) for key in keys)), "")])
        line: Line = []
        self._places = []
        for key in (*keys, gap, *last):
            start = cells(line)
            line += key.line
            self._places += [(start, cells(line), key.key)] if key.key else []
        return line

    def _keys(self) -> dict[str, list[_Key]]:
        """The keys that work now: of the focus and the workspace those that every width shows and
        the others, of the workbench those of a wide line and those of every one.
        """
        groups: dict[str, dict[str, _Key]] = {"own": {}, "more": {}, "also": {}, "last": {}}
        every = self.screen.active_bindings.values()
        seen: set[str] = set()
        for active in sorted(every, key=lambda active: not active.binding.show):
            binding = active.binding
            action = REGISTRY[name] if (name := binding.id or "") in REGISTRY else None
            if binding.show:
                group = "last" if active.node is self.app else "own"
            elif action is None or not action.palette:
                continue
            elif action.id in _ALSO:
                group = "also"
            elif action.noun == self.workbench.current:
                group = "more"
            else:
                continue
            label = binding.description
            if seen.isdisjoint((binding.action, label)):  # one key of a name is enough
                seen.update((binding.action, label))
                display = self.app.get_key_display(binding)
                parts: Line = [(f" {display} ", "key"), (f"{label} ", "")]
                line = parts if active.enabled else [(f" {display} {label} ", "dim")]
                groups[group][name or binding.action] = _Key(binding.key, line)
        also = [groups["also"][name] for name in _ALSO if name in groups["also"]]
        return {**{name: [*keys.values()] for name, keys in groups.items()}, "also": also}

    def on_click(self, event: events.Click) -> None:
        for start, end, key in self._places:
            if start <= event.x < end:
                self.app.simulate_key(key)

    def render_line(self, y: int) -> Strip:
        return self.paint(self._line, self.size.width)


class _Key(NamedTuple):
    """A key of the line, as it is written: one that does nothing now is dim."""

    key: str
    line: Line


class TooSmall(Painted):
    """Stands in for everything below 60x18."""

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        size = f"{self.app.size.width}x{self.app.size.height}"
        text = f"The workbench needs 60x18; this is {size}."
        lines = [text] if len(text) <= width else ["needs 60x18", size]
        row = y - max(0, (height - len(lines)) // 2)
        shown = lines[row].center(width) if 0 <= row < len(lines) else ""
        return self.paint([(shown, "")], width)
