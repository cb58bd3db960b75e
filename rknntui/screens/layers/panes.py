"""What Hybrid changes, as values of the recipe, and the live effect of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from engine import sanitize
from engine.wire.formats import DURATION
from rknntui.keys.actions import key_text
from rknntui.screens.dialogs.dialogs import ChoiceDialog, PromptDialog, ask_user

if TYPE_CHECKING:
    from textual.app import App
    from textual.timer import Timer

    from engine.wire.codec import Values
    from engine.wire.hybrid import Effect, EffectOutput, EffectParams, LayerRow
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.messages import JobEnded
    from rknntui.session.state import Session

# What Hybrid changes: the dtypes and ranges of layers, as values of the recipe.
#
# Pure functions over plain data; undo is the session's.

LAYERS = "quantized_layers"
RANGES = "quantized_ranges"

_LIFTED = ("float16", "int16", "float32")
"""What a toggle lifts a layer to, the first that it can have."""

Layers = dict[str, str]
Ranges = dict[str, list[float]]
T = TypeVar("T")


def layers_of(recipe: Values | None) -> Layers:
    """Layer -> dtype that the recipe asks for."""
    return dict((recipe or {}).get(LAYERS) or {})


def ranges_of(recipe: Values | None) -> Ranges:
    """Layer or tensor -> [minimum, maximum] that the recipe asks for."""
    return dict((recipe or {}).get(RANGES) or {})


def by_layer(entries: Mapping[str, T], rows: Sequence[LayerRow]) -> dict[str, T]:
    """Entries of a recipe, which may name a layer by any of its names, by the rows' layers."""
    layer_of = {row.tensor: row.id for row in rows}  # a tensor counts before other names
    for row in rows:
        for alias in row.aliases:
            layer_of.setdefault(alias, row.id)
    return {layer_of.get(name, name): entry for name, entry in entries.items()}


def changes_of(layers: Layers, ranges: Ranges | None = None) -> dict[str, object]:
    """The change of the recipe that asks for these; what is empty is left out of it.

    Args:
        layers: layer -> dtype.
        ranges: layer -> [minimum, maximum]; None leaves them as they are.
    """
    changes: dict[str, object] = {LAYERS: layers or None}
    if ranges is not None:
        changes[RANGES] = ranges or None
    return changes


def with_integers(layers: Layers, ranges: Ranges) -> Ranges:
    """The ranges without those of layers that become float: there is nothing to scale."""
    return {n: pair for n, pair in ranges.items() if not layers.get(n, "").startswith("float")}


def base_dtype(row: LayerRow) -> str:
    """The dtype that a layer has where nothing is asked for it: the first of its choices."""
    return row.choices[0]


def with_dtype(layers: Layers, rows: Iterable[LayerRow], dtype: str) -> Layers:
    """The layers with another dtype for those of ``rows`` that can have it; others stay.

    Args:
        layers: what is asked for now.
        rows: of the table.
        dtype: the wanted one; asking for what a layer has anyway takes its entry away.
    """
    after = dict(layers)
    for row in rows:
        if dtype == base_dtype(row):
            after.pop(row.id, None)
        elif dtype in row.choices:
            after[row.id] = dtype
    return after


def toggled(layers: Layers, rows: Iterable[LayerRow]) -> Layers:
    """The layers with those of ``rows`` lifted; where all of them are lifted, back to their base.

    What a layer can be lifted to is its own: float16, else int16, else float32.
    """
    liftable = [row for row in rows if _lift(row)]
    names = {row.id for row in liftable}
    if names <= layers.keys():
        return {name: dtype for name, dtype in layers.items() if name not in names}
    after = dict(layers)
    for row in liftable:
        after.setdefault(row.id, _lift(row))
    return after


def _lift(row: LayerRow) -> str:
    base = base_dtype(row)
    if base.startswith("float"):
        return ""
    return next((d for d in _LIFTED if d in row.choices and d != base), "")


def parse_range(text: str) -> list[float] | None:
    """Two numbers of a text, the smaller one first; None where there are none in it.

    Raises:
        ValueError: the text is something else; the message is for the user.
    """
    words = text.replace(",", " ").replace(";", " ").split()
    if not words:
        return None
    try:
        low, high = (float(word) for word in words)
    except ValueError:
        raise ValueError("A range is two numbers: minimum and maximum.") from None
    if not -math.inf < low < high < math.inf:
        raise ValueError("The minimum of a range is below its maximum, and both are finite.")
    return [low, high]


def problem_of_range(text: str) -> str:
    """Why a text is no range; empty where it is one, or none."""
    try:
        parse_range(text)
    except ValueError as error:
        return str(error)
    return ""


_REST_SECONDS = 0.35
"""So long after the last edit the effect is computed: several toggles in a row are one."""

_KEPT = 100
"""Effects that are remembered, so that undo shows its figures at once."""


class LiveEffect:
    """Runs ``hybrid.effect`` for what a recipe asks beyond its build, one job at a time.

    Args:
        workspace: whose jobs they are.
        changed: called when there is something else to show.

    Attributes:
        error: why the edits as they are now cannot be simulated; empty where nothing is known.
    """

    def __init__(self, workspace: Workspace, changed: Callable[[], None]) -> None:
        self._workspace = workspace
        self._changed = changed
        self._timer: Timer | None = None
        self._known: dict[str, Effect] = {}
        self._wanted = ""
        self._job = ""
        self._job_key = ""
        self._params: EffectParams | None = None
        self.error = ""

    @property
    def outputs(self) -> dict[str, EffectOutput]:
        """Name -> output, with the edits as they are now, if known."""
        known = self._known.get(self._wanted)
        return {} if known is None else {output.name: output for output in known.outputs}

    @property
    def times(self) -> tuple[float | None, float | None] | None:
        """Of an inference in ms, as built and with the choice, estimated; None before an effect."""
        known = self._known.get(self._wanted)
        return None if known is None else (known.time_before_ms, known.time_ms)

    @property
    def got(self) -> dict[str, str]:
        """Layer -> dtype that a build of the edits as they are now would have, if known."""
        known = self._known.get(self._wanted)
        asked = () if known is None else known.honoured
        return {one.layer: one.got for one in asked if one.kind == "dtype"}

    @property
    def not_applied(self) -> dict[str, str]:
        """Layer -> why a build would not have what is asked for it."""
        known = self._known.get(self._wanted)
        asked = () if known is None else known.honoured
        return {one.layer: one.why or f"it becomes {one.got}" for one in asked if not one.ok}

    @property
    def state(self) -> str:
        """A few words about how far it is."""
        if not self._wanted:
            return ""
        if self.error:
            return "✗ cannot be simulated"
        known = self._known.get(self._wanted)
        if known is None:
            return "▶ computing the effect …"
        many = "s" if known.samples != 1 else ""
        return f"simulated over {known.samples} sample{many} in {_duration(known.seconds)}"

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
            self._params = params
            ask = self._workspace.set_timer
            self._timer = ask(_REST_SECONDS, lambda: self._start(key, params))
        self._changed()

    def _start(self, key: str, params: EffectParams) -> None:
        from engine.wire.hybrid import EFFECT

        if key != self._wanted:
            return
        bridge = self._workspace.bridge
        if self._job:
            bridge.discard(self._job)

        async def submit() -> None:
            view = await bridge.submit(EFFECT, params, "hybrid effect", quiet=True)
            self._job, self._job_key = view.id, key

        self._workspace.workbench.do(submit())

    def ended(self, message: JobEnded) -> None:
        """A job of the session ended; take it where it is ours."""
        from engine.wire.hybrid import Effect

        if message.job != self._job:
            return
        self._job = ""
        if isinstance(message.result, Effect):
            self._known[self._job_key] = message.result
            for old in list(self._known)[:-_KEPT]:
                del self._known[old]
            if self._job_key == self._wanted and self._params and not self._params.rounding:
                # what takes several runs comes behind what is seen at once
                self._params = replace(self._params, rounding=True)
                self._start(self._job_key, self._params)
        elif self._job_key in self._known:
            pass  # the figures that are seen at once stay
        elif self._job_key == self._wanted:
            error = message.error or {}
            said = f"{error.get('what', message.state)} {error.get('remedy', '')}"
            self.error = sanitize(said.strip(), 300)
        self._changed()


def _duration(seconds: float) -> str:
    return DURATION.text(seconds) if seconds >= 1 else f"{round(1000 * seconds)} ms"


# What a user asks for in Hybrid: dtypes and ranges of layers; every change is the recipe's.


class LayerEdits:
    """The layers of a build, and what the recipe asks for them.

    Args:
        session: has the recipe that is changed.
        changed: called after each change, and after each mark.

    Attributes:
        rows: of the last ``hybrid.table``.
        table_of: the recipe of the build that they are of; None while there is none.
        marked: layers that the next action takes.
    """

    def __init__(self, session: Session, changed: Callable[[], None]) -> None:
        self._session = session
        self._changed = changed
        self.rows: Sequence[LayerRow] = ()
        self.table_of: Values | None = None
        self.marked: set[str] = set()

    def show(self, rows: Sequence[LayerRow], table_of: Values | None) -> None:
        """Take the layers of a build; None where there is none."""
        self.rows, self.table_of = rows, table_of

    @property
    def built(self) -> Layers:
        """Layer -> dtype as the build of the rows was asked."""
        return by_layer(layers_of(self.table_of), self.rows)

    @property
    def layers(self) -> Layers:
        """Layer -> dtype as the recipe asks, which may name layers by other names."""
        return by_layer(layers_of(self._session.recipe), self.rows)

    @property
    def ranges(self) -> Ranges:
        """Layer -> [minimum, maximum] as the recipe asks."""
        return by_layer(ranges_of(self._session.recipe), self.rows)

    def chosen(self, layer: str | None) -> list[LayerRow]:
        """The rows that an action takes: the marked ones, else that of ``layer``."""
        names: set[str | None] = {*self.marked} or {layer}
        return [row for row in self.rows if row.id in names]

    def ask_for(self, layers: Layers, ranges: Ranges | None = None) -> None:
        """Change the recipe; undo takes it back. What becomes float loses its range."""
        self.marked.clear()
        kept = with_integers(layers, self.ranges if ranges is None else ranges)
        self._session.set_values(changes_of(layers, kept))
        self._changed()

    def lift(self, layer: str | None) -> None:
        """Lift the chosen layers, or take them back."""
        if self.rows:
            self.ask_for(toggled(self.layers, self.chosen(layer)))

    def set_range(self, layer: str, pair: list[float] | None) -> None:
        """Ask for a range of a layer; with None for the calibrated one."""
        ranges = self.ranges
        ranges.pop(layer, None)
        if pair is not None:
            ranges[layer] = pair
        self.ask_for(self.layers, ranges)

    def toggle_marks(self, layers: set[str]) -> None:
        """Mark these layers; where all of them are marked, take their marks away."""
        every = layers <= self.marked
        self.marked = self.marked - layers if every else self.marked | layers
        self._changed()


def ask_dtype(app: App[None], edits: LayerEdits, rows: Sequence[LayerRow]) -> None:
    """Choose among the dtypes that all of the rows have."""
    if not rows:
        return
    choices = [d for d in rows[0].choices if all(d in row.choices for row in rows)]
    layers, base = edits.layers, base_dtype(rows[0])
    if base not in choices:
        choices.insert(0, base)

    def take(dtype: str) -> None:
        edits.ask_for(with_dtype(layers, rows, dtype))

    what = f"{len(rows)} layers" if len(rows) > 1 else sanitize(rows[0].id, 40)
    now = layers.get(rows[0].id, base)
    ask_user(app, ChoiceDialog(f"Dtype of {what}", choices, now), take)


def ask_range(app: App[None], edits: LayerEdits, record: Mapping[str, object] | None) -> None:
    """Ask for the range of the layer of a record."""
    if record is None or record["minimum"] is None:
        app.notify("This layer is not quantized, so it has no range.", severity="warning")
        return
    layer = str(record["id"])
    asked = edits.layers.get(layer, "")
    if asked.startswith("float"):
        back = f"{key_text('layers.lift')} undoes it first."
        app.notify(f"{asked} has no range; {back}", severity="warning")
        return

    def take(text: str) -> None:
        edits.set_range(layer, parse_range(text))

    question = f"{sanitize(layer, 60)}: minimum and maximum; empty: as calibrated"
    now = f"{record['minimum']:g} {record['maximum']:g}"
    ask_user(app, PromptDialog("Range", question, now, problem_of_range), take)
