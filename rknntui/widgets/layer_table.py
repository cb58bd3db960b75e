"""The table of layers: rows of what is known of each layer, a view's columns, one set of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual import on

from rknntui.widgets.line_list import Rows
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.strips import bar

if TYPE_CHECKING:
    from engine.wire.layers import LayerFigures
    from engine.wire.table import Table
    from rknntui.session.layers import KnownLayers

BAR = 12
"""Cells of the bar of a layer."""


class LayerTable(RecordTable):
    """Layers under the columns of a view of :mod:`engine.wire.layer_tables`.

    A record has the values of the columns, ``id``, ``tensor`` and ``aliases`` of its layer, and
    what the owner adds.

    Args:
        view: the columns.
        id, what, empty: as of a table of records.
    """

    _layers: Sequence[LayerFigures] = ()

    def show_layers(
        self,
        layers: Iterable[LayerFigures],
        *,
        more: Callable[[LayerFigures], Mapping[str, Any]] = lambda _: {},
        keep: str = "number",
    ) -> None:
        """Show other layers.

        Args:
            layers: in their order.
            more: values that only the owner knows, of columns or beside them.
            keep: the key whose value finds the record that the cursor stays on.
        """
        self._layers = tuple(layers)
        times = [layer.milliseconds for layer in self._layers]
        known = [time for time in times if time]
        whole, longest = sum(known), max(known, default=0.0)
        records = []
        for layer, time in zip(self._layers, times, strict=True):
            timed = time is not None and longest > 0
            further: dict[str, Any] = {
                "id": layer.id,
                "tensor": layer.first("tensor"),
                "aliases": layer.aliases,
                "share": (time or 0.0) / whole if timed else None,
                "bar": bar((time or 0.0) / longest, BAR) if timed else "",
            }
            records.append(self.declared.record(layer, **further, **more(layer)))
        self.set_records(records, keep=keep)

    @property
    def figures(self) -> LayerFigures | None:
        """What is known of the layer under the cursor."""
        return None if self.row is None else self._layers[self.row]

    def select_layer(self, name: str) -> bool:
        """Put the cursor on the first row of a layer, by any of its names."""
        for key in ("tensor", "id", "name"):
            if self.select_record(key, name):
                return True
        first_match = next((record for record in self.records if name in record["aliases"]), None)
        return first_match is not None and self.select_record("number", first_match["number"])


class LayerView(RecordView):
    """A table of layers with its caption and filter line."""

    table: LayerTable

    @property
    def layer_id(self) -> str:
        """Id of the build's layer under the cursor; empty where the row has none."""
        figures = self.table.figures
        return "" if figures is None else figures.id


class KnownLayersView(LayerView):
    """The layers that the session knows: cursor, filter and marks are those of every view.

    Args:
        known: the session's.
        view: the columns.
        id: the widget's id; that of the table has ``-table`` behind it.
    """

    def __init__(self, known: KnownLayers, view: Table, *, id: str) -> None:  # noqa: A002
        super().__init__("Layers", LayerTable(view, id=f"{id}-table", what="layers"), id=id)
        self._known = known
        self._at = ""

    def show_known(
        self,
        layers: Iterable[LayerFigures],
        more: Callable[[LayerFigures], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        """Show layers of the session in this order; what the owner adds is as elsewhere."""
        marked = self._known.marked

        def marks(row: LayerFigures) -> Mapping[str, Any]:
            return {"mark": "*" if row.id in marked else " ", **more(row)}

        self.table.show_layers(layers, more=marks, keep="id")
        self.follow()

    def follow(self) -> None:
        """Take filter and cursor as another view left them."""
        if self.table.filter_text != self._known.filter:
            self.table.set_filter(self._known.filter)
        if self._known.cursor not in ("", self._at) and self.table.total:
            self._at = self._known.cursor
            self.table.select_layer(self._at)

    def on_record_table_arranged(self, event: RecordTable.Arranged) -> None:
        super().on_record_table_arranged(event)
        self._known.filter = self.table.filter_text

    @on(Rows.Highlighted)
    def _moved(self) -> None:
        if self.layer_id:
            self._at = self.layer_id
            self._known.choose(self._at)
