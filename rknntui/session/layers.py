"""What is known of the layers of the open model: one row for each, filled by whoever knows.

Every table of layers and the graph show these rows, with one cursor, one filter and one set of
marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from textual.message import Message

from rknntui.session.messages import LayersChanged

if TYPE_CHECKING:
    from engine.wire.hybrid import Table
    from engine.wire.layers import LayerFigures

SOURCES = ("choice", "error", "proposed", "kernel", "estimated", "compiled", "measured", "compared")
"""Who fills rows, in the order in which theirs count; order and numbers are the first one's."""
_OF_BUILD = ("error", "choice", "proposed", "kernel", "compiled", "measured", "compared")
"""Those whose rows are about one build."""
_FILLED_BY = {
    "build": "kernel",
    "accuracy": "error",
    "hybrid.propose": "proposed",
    "compile": "compiled",
}
"""Method of a job -> the source that its result fills."""


class KnownLayers:
    """The rows, and what is chosen among them.

    Args:
        publish: tells a message to everybody.

    Attributes:
        cursor: id of the layer under the cursor, in every view; empty for none.
        filter: what the rows are filtered by.
        marked: ids of marked layers.
        table: the answer of ``hybrid.table`` of the last build; None before it.
    """

    def __init__(self, publish: Callable[[Message], None]) -> None:
        self._publish = publish
        self._rows: dict[str, tuple[LayerFigures, ...]] = {}
        self._joined: tuple[LayerFigures, ...] | None = None
        self.cursor = ""
        self.filter = ""
        self.marked: frozenset[str] = frozenset()
        self.table: Table | None = None

    @property
    def rows(self) -> tuple[LayerFigures, ...]:
        """One row for each layer with all that is known of it."""
        from engine.wire.layers import by_layer

        if self._joined is None:
            self._joined = by_layer(*(self._rows[name] for name in SOURCES if name in self._rows))
        return self._joined

    def of(self, source: str) -> tuple[LayerFigures, ...]:
        """The rows as one source filled them: steps of a compiler or runtime are not joined."""
        return self._rows.get(source, ())

    def fill(self, source: str, rows: Iterable[LayerFigures]) -> None:
        """Take the rows of a source of ``SOURCES``; no rows forget what it knew.

        Raises:
            ValueError: no such source (a mistake of the program).
        """
        if source not in SOURCES:
            raise ValueError(f"no source of layers: {source}")
        self._rows[source] = tuple(rows)
        self._changed()

    def take(self, method: str, result: object, *, chip: str) -> None:
        """Take what the result of a job of this build says of its layers.

        Args:
            method: of the job.
            result: of it; one that says nothing of layers changes nothing.
            chip: whose compilation is shown.
        """
        from engine.wire.compile import CompiledModels
        from engine.wire.layers import layer_rows

        source = _FILLED_BY.get(method, "")
        if isinstance(result, CompiledModels):
            result = next((one for one in result.chips if one.chip == chip), None)
        if source:
            self.fill(source, () if result is None else layer_rows(result))

    def choose(self, layer: str) -> None:
        """Put the cursor of every view on a layer."""
        if layer != self.cursor:
            self.cursor = layer
            self._publish(LayersChanged(rows=False))

    def mark(self, layers: Iterable[str]) -> None:
        """Mark these layers and no others: what an action of any view takes."""
        if (marked := frozenset(layers)) != self.marked:
            self.marked = marked
            self._publish(LayersChanged())

    def forget(self, *, build_only: bool = False) -> None:
        """Another model is open, or another build of it (``build_only``)."""
        for source in _OF_BUILD if build_only else SOURCES:
            self._rows.pop(source, None)
        self.table = None
        if not build_only:
            self.cursor, self.filter, self.marked = "", "", frozenset()
        self._changed()

    def _changed(self) -> None:
        self._joined = None
        self._publish(LayersChanged())
