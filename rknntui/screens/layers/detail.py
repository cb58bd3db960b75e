"""Detail of the layer under the cursor: what is known of it, why its error is large, histograms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual import getters
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from engine import error_causes, layer_facts, sanitize, span_text, value_facts
from engine.wire.model import LayerSpread
from rknntui.keys.actions import key_text
from rknntui.widgets.charts import Histogram, HistogramChart, bars
from rknntui.widgets.line_list import Prose
from rknntui.widgets.records import name_text
from rknntui.widgets.strips import shorten
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from textual.timer import Timer

    from engine.wire.layers import LayerFigures
    from rknntui.widgets.strips import Line

REST_SECONDS = 0.4
"""So long the cursor rests on a layer before its values are read."""


def layer_lines(
    row: LayerFigures | None,
    record: Mapping[str, Any] | None,
    spread: LayerSpread | str | None,
    width: int,
) -> list[Line]:
    """What is known of the layer under the cursor.

    Args:
        row: of the table; None where there is none.
        record: its record, with what is asked for it.
        spread: its values once they are read, or why they cannot be.
        width: cells.
    """
    if row is None or record is None:
        return []
    tensor, source = row.first("tensor") or "", ", ".join(row.first("sources") or ())
    further = f" · from {name_text(source)}" if source not in ("", row.name) else ""
    further += f" · tensor {name_text(tensor)}" if tensor not in ("", row.name) else ""
    name = shorten(name_text(row.name), max(12, width // 2))
    op = f"  {name_text(row.first('op') or '')}"
    head: Line = [(name, "accent"), (op, "dim")]
    head.append((shorten(further, max(0, width - len(name) - len(op))), "dim"))
    lines: list[Line] = [head]
    if record.get("unmet"):
        lines.append([(f"✗ not applied: {name_text(record['unmet'])}", "bad")])

    def say(text: str, style: str = "") -> None:
        lines.extend([(part, style)] for part in wrap(text, width))

    if isinstance(spread, LayerSpread):
        if why := ", ".join(error_causes(row, spread)):
            say(f"! {why}", "warn")
        if len(spread.channels) > 1:
            lines.append(_channels_line(spread.channels, width))
    say(" · ".join(_known(row, record)))
    if isinstance(spread, str):
        say(f"✗ {sanitize(spread)}", "bad")
    elif spread is not None:
        say(" · ".join(value_facts(spread)))
    return lines


def _channels_line(channels: tuple[float, ...], width: int) -> Line:
    """The reach of each channel as a block, the widest one full; neighbours share one."""
    title = f"{len(channels)} channels "
    step = -(-len(channels) // max(8, width - len(title)))
    groups = [max(channels[at : at + step]) for at in range(0, len(channels), step)]
    return [(title, "dim"), (bars(groups, 1, max(groups))[0], "accent")]


def _known(row: LayerFigures, record: Mapping[str, Any]) -> Iterator[str]:
    """What is known of it beside its columns, with what the recipe asks for."""
    if row.proposed is not None and row.proposed.together:
        others = name_text(", ".join(row.proposed.together))
        promoted = str(record.get("wanted")).startswith("●")
        does = "takes it back" if promoted else "promotes it"
        yield f"{key_text('layers.lift')} {does} with {others}: alone it gains less"
    built = record.get("built_range")
    if built is not None and None not in built:
        yield f"● range requested; the build has {span_text(*built)}"
    yield from layer_facts(row)


class LayerDetail(Vertical):
    """What is known of the layer under the cursor, and the histograms of its values.

    It stands beside the table; where there is no room, in its place (``drilled``).
    """

    @dataclass(eq=False)
    class Wanted(Message):
        """The values of a tensor are to be read: :meth:`take` or :meth:`failed`."""

        tensor: str

    DEFAULT_CSS = """
    LayerDetail {
        padding: 0 1;
        & TextRows { height: auto; max-height: 9; }
    }
    """

    _row: LayerFigures | None = None
    _record: Mapping[str, Any] | None = None
    _rest: Timer | None = None

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._known: dict[str, LayerSpread | str] = {}

    def compose(self) -> ComposeResult:
        yield Prose(id="layer-facts")
        yield HistogramChart(id="chart")

    facts = getters.query_one(Prose)
    """The lines above the histograms."""

    chart = getters.query_one(HistogramChart)
    """The histograms."""

    @property
    def tensor(self) -> str:
        """Of the layer that is shown; empty for none."""
        return "" if self._row is None else self._row.first("tensor") or ""

    def show_layer(
        self, row: LayerFigures | None, record: Mapping[str, Any] | None, *, read: bool
    ) -> None:
        """Show a layer of the table, by its row and its record.

        Args:
            row, record: of the table.
            read: whether its values are asked for, where they are not known, once it rests there.
        """
        self._row, self._record = row, record
        self.draw()
        if self._rest is not None:
            self._rest.stop()
        if read and self.tensor and self.tensor not in self._known:
            wanted = self.Wanted(self.tensor)
            self._rest = self.set_timer(REST_SECONDS, lambda: self.post_message(wanted))

    def forget(self) -> None:
        """What was read is of another build."""
        self._known.clear()

    def take(self, layer: LayerSpread) -> None:
        """Show the values of a tensor."""
        self._known[layer.tensor] = self._known[layer.layer] = layer
        self.draw()

    def failed(self, tensor: str, error: Exception) -> None:
        """Say why there are no values of a tensor."""
        what, remedy = getattr(error, "what", str(error)), getattr(error, "remedy", "")
        self._known[tensor] = f"{what} {remedy}".strip()
        self.draw()

    def draw(self) -> None:
        """Show what is known, in the width of now."""
        if not self.is_attached or not self.display:
            return
        known = self._known.get(self.tensor)
        width = max(20, self.size.width - 4)
        self.facts.set_lines(layer_lines(self._row, self._record, known, width))
        if not isinstance(known, LayerSpread):
            waits = "reading the calibration samples …" if self.tensor and known is None else ""
            self.chart.show((), said=waits)
            return
        low, high = known.low, known.high
        golden = Histogram(low, high, known.golden, "reference (float)", "good")
        simulated = Histogram(low, high, known.simulated, "simulated")
        self.chart.show((golden, simulated), known.reach)

    def text(self) -> str:
        """Facts and histograms as text."""
        lines = ["".join(t for t, _ in line) for line in self.chart.lines()]
        return "\n".join([self.facts.text(), *lines])
