"""One list to change the target by: chip, board, toolkit and compiled file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

from engine import EngineError, chips, option, sanitize
from engine.wire.board import BOARD_ABOUT, AboutParams
from engine.wire.compile import COMPILE
from engine.wire.devices import DEVICES_LIST, DeviceListParams, Listing
from engine.wire.formats import RATE
from engine.wire.vendor import VENDOR_DEFAULT, VENDOR_KNOWN, ToolkitName, ToolkitsParams
from rknntui.keys.actions import key_text
from rknntui.screens.dialogs.lists import ChoiceDialog
from rknntui.screens.dialogs.picker import PathPicker
from rknntui.session.target import compiled_for, toolkit_of

if TYPE_CHECKING:
    from engine.wire.method import Query
    from rknntui.session.state import Session
    from rknntui.shell import Shell

P = TypeVar("P")
R = TypeVar("R")
Part = tuple[str, str]
"""What a row changes, and to what: ``chip``, ``board``, ``toolkit`` or ``compiled``."""
_FILE = "…"
_WIDTH = 10


def target_rows(session: Session) -> dict[Part, str]:
    """What can be chosen, and what is known of it, the shortest first up to a semicolon."""
    rows: dict[Part, str] = {}
    estimates = {} if session.estimates is None else {e.chip: e for e in session.estimates.chips}
    about = option("target_platform").about
    for chip in sorted(chips(), key=lambda chip: (-chip.generation, chip.name)):
        row = estimates.get(chip.name)
        fps = None if row is None else row.fps
        told = f"{RATE.text(fps.value)} FPS estimated; " if fps is not None else ""
        rows["chip", chip.name] = told + about[chip.name]
    listing = session.boards.listing
    for device in listing.devices if listing is not None else ():
        if device.usable:
            chip_name = session.boards.chip_of(device.id)
            said = " ".join(filter(None, (device.model, device.product)))
            rows["board", device.id] = sanitize(f"{chip_name} {device.state}; {said}".strip(), 200)
    if session.boards.chosen and ("board", session.boards.chosen) not in rows:
        rows["board", session.boards.chosen] = "looking …" if listing is None else "not there now"
    elif not any(kind == "board" for kind, _ in rows):
        bench = f"none in reach; {key_text('go.bench')} adds one"
        rows["board", ""] = "looking for boards …" if listing is None else bench
    if session.boards.chosen:
        rows["board", ""] = "none; simulated alone"
    for toolkit in session.toolkits or ():
        what = f"{toolkit.version} {toolkit.state}; generation {toolkit.generation}"
        rows["toolkit", toolkit.name] = what
    last = session.last_of(COMPILE)
    paths = [row.path for row in last[1].chips if row.path] if last is not None else []
    for path in dict.fromkeys((*filter(None, (session.compiled,)), *paths)):
        rows["compiled", path] = f"for {compiled_for(session, path) or 'a chip not known'}; {path}"
    rows["compiled", _FILE] = "choose a compiled .rknn file"
    return rows


class TargetDialog(ChoiceDialog):
    """All of the target in one list; dismissed with the part that was chosen.

    Args:
        session: has the target, and what is known of chips, boards and toolkits.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        start = self._label(("chip", session.chip))
        super().__init__("Target: chip, board, toolkit or compiled file", (), "", start=start)
        self._renew()

    def _label(self, part: Part) -> str:
        kind, value = part
        name = PurePath(value).name if kind == "compiled" else value
        return f"{kind:<{_WIDTH}}{sanitize(name, 60) or 'none'}"

    def _renew(self) -> None:
        rows = target_rows(self._session)
        self._parts: dict[str, Part] = {self._label(part): part for part in rows}
        self._about = {self._label(part): about for part, about in rows.items()}
        self._choices = tuple(self._parts)

    def counts(self, choice: str) -> bool:
        session, part = self._session, self._parts[choice]
        toolkit = toolkit_of(session)
        return part in (
            ("chip", session.chip),
            ("board", session.boards.chosen or ""),
            ("compiled", session.compiled),
            ("toolkit", toolkit.name if toolkit is not None else ""),
        )

    def answer(self, choice: str) -> Part:
        return self._parts[choice]

    def on_mount(self) -> None:
        super().on_mount()
        near = DeviceListParams(self._session.boards.over_ssh)
        self.workbench.do(self._look(VENDOR_KNOWN, ToolkitsParams()))
        self.workbench.do(self._look(DEVICES_LIST, near))

    async def _look(self, method: Query[P, R], params: P) -> None:
        """Ask what there is; what does not answer stays as it is known."""
        with suppress(EngineError):
            answer = await self.workbench.bridge.call(method, params)
            if isinstance(answer, Listing):
                self._session.boards.listing = answer
            if self.is_attached:  # the cursor stays on its row
                here = self.here
                self._renew()
                self.fill(self.line.value, here)


async def take_target(app: Shell, kind: str, value: str) -> None:
    """Make a part of the target what was chosen.

    Raises:
        EngineError: the toolkit cannot be used.
    """
    session = app.session
    if kind == "chip":
        if session.container is not None:
            text = "A container is built for its chip; open its model to build for another one."
            app.notify(text, severity="warning", markup=False)
            return
        session.set_value("target_platform", value)
    elif kind == "toolkit":
        await app.bridge.call(VENDOR_DEFAULT, ToolkitName(value))
        await app.bridge.call(VENDOR_KNOWN, ToolkitsParams())
    elif kind == "board":
        session.boards.choose(value or None)
        if value and not session.boards.chip_of(value):
            try:
                await app.bridge.call(BOARD_ABOUT, AboutParams(value, chip=session.chip or None))
            except EngineError as error:
                text = f"{sanitize(value, 60)} does not answer: {sanitize(error.what, 200)}"
                app.notify(text, severity="warning", markup=False)
    elif value == _FILE:
        picker = PathPicker("Compiled file (.rknn)", session.compiled or "", suffixes=(".rknn",))
        app.push_screen(picker, lambda path: session.choose_compiled(path or session.compiled))
    else:
        session.choose_compiled(value)
