"""Promotion of layers: dtypes and ranges that the recipe asks for, changed from any view.

The functions are over plain data; undo is the session's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from engine.wire.codec import Values
    from engine.wire.hybrid import LayerRow
    from rknntui.bridge import Bridge
    from rknntui.session.state import Session

LAYERS = "quantized_layers"
RANGES = "quantized_ranges"

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


def with_integers(layers: Layers, ranges: Ranges) -> Ranges:
    """The ranges without those of layers that become float: there is nothing to scale."""
    return {n: pair for n, pair in ranges.items() if not layers.get(n, "").startswith("float")}


def with_dtype(layers: Layers, rows: Iterable[LayerRow], dtype: str) -> Layers:
    """The layers with another dtype for those of ``rows`` that can have it; others stay.

    Args:
        layers: what is asked for now.
        rows: of the table.
        dtype: the wanted one; asking for what a layer has anyway takes its entry away.
    """
    after = dict(layers)
    for row in rows:
        if dtype == row.base:
            after.pop(row.id, None)
        elif dtype in row.choices:
            after[row.id] = dtype
    return after


def toggled(layers: Layers, rows: Sequence[LayerRow]) -> Layers:
    """The layers with those of ``rows`` lifted; where all of them are lifted, back to their base.

    What a layer can be lifted to is its own: float16, else int16, else float32.
    """
    names = {row.id for row in rows if row.lift}
    if names <= layers.keys():
        return {name: dtype for name, dtype in layers.items() if name not in names}
    return layers | {row.id: row.lift for row in rows if row.id in names - layers.keys()}


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


class LayerEdits:
    """What the recipe asks for the layers of the last build; every change is the recipe's.

    Args:
        session: has the layers, their marks and the recipe.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def rows(self) -> list[LayerRow]:
        """The layers that may have another dtype; none before they are known."""
        return [row.choice for row in self._session.layers.rows if row.choice is not None]

    @property
    def built(self) -> Layers:
        """Layer -> dtype as the last build was asked."""
        return by_layer(layers_of(self._session.built), self.rows)

    @property
    def layers(self) -> Layers:
        """Layer -> dtype as the recipe asks, which may name layers by other names."""
        return by_layer(layers_of(self._session.recipe), self.rows)

    @property
    def ranges(self) -> Ranges:
        """Layer -> [minimum, maximum] as the recipe asks."""
        return by_layer(ranges_of(self._session.recipe), self.rows)

    def chosen(self, layer: str, *, together: bool = False) -> list[LayerRow]:
        """The rows that an action takes: the marked ones, else that of ``layer``.

        Args:
            layer: id of the layer under the cursor.
            together: whether those come along that it gains with.
        """
        names = self._session.layers.marked or {layer}
        if together and not self._session.layers.marked:
            known = next((row for row in self._session.layers.rows if row.id == layer), None)
            if known is not None and known.proposed is not None:
                names = {layer, *known.proposed.together}
        return [row for row in self.rows if row.id in names]

    def ask_for(self, layers: Layers, ranges: Ranges | None = None) -> None:
        """Change the recipe; undo takes it back. What becomes float loses its range."""
        kept = with_integers(layers, self.ranges if ranges is None else ranges)
        self._session.layers.mark(())
        self._session.set_values({LAYERS: layers or None, RANGES: kept or None})

    def lift(self, layer: str) -> str:
        """Lift the marked layers, else this one, or take them back; why not, where that cannot be.

        Args:
            layer: id of the layer under the cursor.
        """
        chosen, now = self.chosen(layer, together=True), self.layers
        after = toggled(now, chosen)
        if layer in now and not self._session.layers.marked:  # back, with those that came along
            names = {row.id for row in chosen}
            after = {name: dtype for name, dtype in now.items() if name not in names}
        if not chosen:
            return "it is no layer that can have another dtype."
        if after == now:
            return f"it is {chosen[0].base} and has no better dtype here."
        self.ask_for(after)
        return ""


async def read_table(bridge: Bridge, session: Session) -> None:
    """Ask what the layers of the last build are and may become, and let the session know.

    Nobody waits for it: why it fails is told where the layers would be.
    """
    from engine import EngineError
    from engine.wire.hybrid import TABLE
    from engine.wire.layers import layer_rows
    from engine.wire.requests import ModelTarget

    built, summary = session.built, session.summary
    if built is None or summary is None or not summary.quantized or session.container is not None:
        return
    try:
        answer = await bridge.call(TABLE, ModelTarget(recipe=built))
    except EngineError as error:
        session.known("layers", f"{error.what} {error.remedy}".strip())
        session.layers.fill("choice", ())
        return
    if session.built == built:
        session.known("layers")
        session.layers.table = answer
        session.layers.fill("choice", layer_rows(answer))
