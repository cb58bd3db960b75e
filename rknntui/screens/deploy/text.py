"""The order of compiled layers, and texts of figures: the compiler's beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.wire.formats import SIZE
from engine.wire.layer_tables import COMPILED

if TYPE_CHECKING:
    from engine.wire.layers import LayerFigures

__all__ = ["bytes_pair", "disagreement_rank"]


def disagreement_rank(row: LayerFigures) -> tuple[int, float, int]:
    """The order of layers: another place, then the cycles that differ most, then as compiled."""
    values = COMPILED.record(row)
    apart = (values["npu_difference"], values["difference"])
    most = max((abs(value) for value in apart if value is not None), default=0.0)
    rank = {"✗": 0, "≠": 1}.get(values["sign"], 2)
    return rank, -most if rank < 2 else 0.0, row.number


def bytes_pair(label: str, printed: int | None, estimated: int | None) -> str:
    """``weights 117 KiB printed, 116 KiB estimated``; empty where nothing is known."""
    if printed is None and estimated is None:
        return ""
    parts = [
        f"{SIZE.text(value)} {word}"
        for value, word in ((printed, "printed"), (estimated, "estimated"))
        if value is not None
    ]
    return f"{label} {', '.join(parts)}"
