"""The effect of what the recipe asks of layers, simulated at once, and the form that asks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from engine import sanitize
from engine.wire.flags import Flag
from engine.wire.formats import DURATION, FIGURE
from rknntui.screens.dialogs.request import Form
from rknntui.screens.layers.words import samples_text
from rknntui.session.promotion import (
    LAYERS,
    RANGES,
    layers_of,
    parse_range,
    ranges_of,
    with_dtype,
)

if TYPE_CHECKING:
    from textual.app import App
    from textual.timer import Timer

    from engine.wire.codec import Values
    from engine.wire.hybrid import Effect, EffectParams, LayerRow
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.messages import JobEnded
    from rknntui.session.promotion import LayerEdits

_REST_SECONDS = 0.35
"""So long after the last edit the effect is computed: several toggles in a row are one."""

_KEPT = 100
"""Effects that are remembered, so that undo shows its figures at once."""


class LiveEffect:
    """Runs ``hybrid.effect`` for what a recipe asks beyond its build, one job at a time.

    Args:
        workspace: whose jobs they are; it draws after :meth:`edited` and :meth:`ended`.

    Attributes:
        error: why the edits as they are now cannot be simulated; empty where nothing is known.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._timer: Timer | None = None
        self._known: dict[str, Effect] = {}
        self._wanted = ""
        self._asked: dict[str, tuple[str, EffectParams]] = {}  # by the job, of which one runs
        self.error = ""

    @property
    def now(self) -> Effect | None:
        """Of the edits as they are now, if known."""
        return self._known.get(self._wanted)

    @property
    def got(self) -> dict[str, str]:
        """Layer -> dtype that a build of the edits as they are now would have, if known."""
        asked = () if self.now is None else self.now.honoured
        return {one.layer: one.got for one in asked if one.kind == "dtype"}

    @property
    def not_applied(self) -> dict[str, str]:
        """Layer -> why a build would not have what is asked for it."""
        asked = () if self.now is None else self.now.honoured
        return {one.layer: one.why or f"it becomes {one.got}" for one in asked if not one.ok}

    @property
    def state(self) -> str:
        """A few words about how far it is."""
        if not self._wanted:
            return ""
        if self.error:
            return "✗ cannot be simulated"
        if (known := self.now) is None:
            return "▶ computing the effect …"
        return f"simulated {samples_text(known.samples)} in {DURATION.text(known.seconds)}"

    def edited(self, recipe: Values, built: Values | None) -> None:
        """The recipe asks for something else, or there is another build."""
        layers, ranges = layers_of(recipe), ranges_of(recipe)
        key = ""
        if built is not None and (layers, ranges) != (layers_of(built), ranges_of(built)):
            base = {k: v for k, v in built.items() if k not in (LAYERS, RANGES)}
            key = json.dumps([base, layers, ranges], sort_keys=True)
        if key == self._wanted:
            return
        self._wanted, self.error = key, ""
        if self._timer is not None:
            self._timer.stop()
        if key and key not in self._known:
            from engine.wire.hybrid import EffectParams

            pairs = {name: (low, high) for name, (low, high) in ranges.items()}
            params = EffectParams(recipe=built, layers=layers, ranges=pairs, rounding=False)
            ask = self._workspace.set_timer
            self._timer = ask(_REST_SECONDS, lambda: self._start(key, params))

    def _start(self, key: str, params: EffectParams) -> None:
        from engine.wire.hybrid import EFFECT

        if key != self._wanted:
            return
        bridge = self._workspace.bridge
        for job in self._asked:
            bridge.discard(job)

        async def submit() -> None:
            view = await bridge.submit(EFFECT, params, "hybrid effect", quiet=True)
            self._asked = {view.id: (key, params)}

        self._workspace.workbench.do(submit())

    def ended(self, message: JobEnded) -> None:
        """A job of the session ended; take it where it is ours."""
        from engine.wire.hybrid import Effect

        if message.job not in self._asked:
            return
        key, params = self._asked.pop(message.job)
        if isinstance(message.result, Effect):
            self._known[key] = message.result
            for old in list(self._known)[:-_KEPT]:
                del self._known[old]
            if not params.rounding:  # what takes several runs comes behind what is seen at once
                self._start(key, replace(params, rounding=True))
        elif key == self._wanted and self.now is None:  # figures that are seen stay
            error = message.error or {}
            said = f"{error.get('what', message.state)} {error.get('remedy', '')}"
            self.error = sanitize(said.strip(), 300)


@dataclass(frozen=True)
class LayerChoice:
    """What is asked of a layer, or of several."""

    dtype: Annotated[str, Flag(help="The dtype that it computes in.")]
    reach: Annotated[
        list[float] | None,
        Flag(
            name="--range",
            help="Minimum and maximum of its integers; empty: as calibrated.",
            metavar="LOW HIGH",
            read=parse_range,
            write=lambda pair: f"{FIGURE.text(pair[0])} {FIGURE.text(pair[1])}",
        ),
    ] = None


FORM = Form("Layer", (LayerChoice,))


def ask_choice(app: App[None], edits: LayerEdits, rows: Sequence[LayerRow]) -> None:
    """Ask for the dtype of these layers, and for the range of a single one."""
    dtypes = [d for d in rows[0].choices if all(d in row.choices for row in rows)]
    base = rows[0].base
    if base not in dtypes:
        dtypes.insert(0, base)
    one = rows[0] if len(rows) == 1 else None
    ranges = edits.ranges
    now = LayerChoice(edits.layers.get(rows[0].id, base), ranges.get(one.id) if one else None)

    def check(asked: LayerChoice) -> LayerChoice:
        if asked.reach is not None and one is None:
            raise ValueError("A range is of one layer: take the marks away first.")
        if asked.reach is not None and asked.dtype.startswith("float"):
            raise ValueError(f"{asked.dtype} has no range: leave it empty.")
        return asked

    def take(asked: LayerChoice) -> None:
        if one is not None:
            ranges.pop(one.id, None)
            if asked.reach is not None:
                ranges[one.id] = asked.reach
        edits.ask_for(with_dtype(edits.layers, rows, asked.dtype), ranges)

    title = f"{len(rows)} layers" if one is None else sanitize(one.id, 40)
    FORM.ask(app, now, then=take, check=check, choices={"dtype": dtypes}, title=title)
