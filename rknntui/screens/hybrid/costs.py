"""What the layers of Hybrid cost on the recipe's chip, and the last proposal (estimated)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.wire.layers import LayerFigures, layer_rows
from rknntui.screens.hybrid.text import time_text

if TYPE_CHECKING:
    from engine.wire.hybrid import Proposal, Table
    from rknntui.screens.hybrid.effect import LiveEffect


class BuildCost:
    """The time of the shown build, and the last proposal.

    Attributes:
        proposed: its layers, with gain and cost.
    """

    def __init__(self) -> None:
        self.proposed: tuple[LayerFigures, ...] = ()
        self._chip = ""
        self._time: float | None = None

    def clear(self) -> None:
        """Another model has other layers."""
        self.proposed, self._chip, self._time = (), "", None

    def take_table(self, table: Table) -> None:
        """Of another build."""
        self._chip, self._time = table.chip, table.time_ms

    def take_proposal(self, found: Proposal) -> str:
        """Keep its ranking; what it says of the time, as a sentence."""
        self.proposed = layer_rows(found)
        text = time_text(found.time_before_ms, found.time_after_ms, found.chip)
        return f"{text}. " if text else ""

    def words(self, effect: LiveEffect) -> str:
        """The time of an inference, with the choice where its effect is known."""
        before, after = effect.times or (None, self._time)
        return time_text(before, after, self._chip)
