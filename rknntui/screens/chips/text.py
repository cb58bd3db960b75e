"""The columns of Chips and the texts of its figures. Everything is estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rknntui.widgets.table import Column

if TYPE_CHECKING:
    pass

__all__ = [
    "change",
    "change_column",
    "milliseconds",
    "place_style",
    "rate",
    "size",
]


def milliseconds(value: float) -> str:
    """``0.012``, ``1.23``, ``123``: three digits count, a microsecond is the least."""
    if value < 0.0005:
        return "0"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.1 else f"{value:.3f}"


def rate(value: float) -> str:
    """Frames a second: ``9.3``, ``47.3``, ``222``, ``12.5k``."""
    if value >= 9999.5:
        return f"{value / 1000:.1f}k"
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def size(count: float) -> str:
    """``117 KiB``, ``1.67 MiB``: at most four characters and the unit, the width of a column."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if abs(value) < 1000:
            break
        value, unit = value / 1024, larger
    if unit == "B" or abs(value) >= 1000:
        return f"{value:.0f} {unit}"
    # below 1 a third digit would be a fifth character
    return f"{value:.{2 if abs(value) < 1 else 3}g} {unit}"


def change(value: float) -> str:
    """``+12 %``, ``-4.1 %``, ``0 %``."""
    if abs(value) < 0.05:
        return "0 %"
    return f"{value:+.0f} %" if abs(value) >= 10 else f"{value:+.1f} %"


def change_column(title: str, *, more_is_better: bool, name: str = "") -> Column:
    """A column of changes to before, in percent."""

    def style(value: float | None) -> str:
        if value is None or abs(value) < 0.05:
            return ""
        return "good" if (value > 0) == more_is_better else "bad"

    return Column(title, 8, right=True, text=change, style=style, name=name)


def place_style(place: str | None) -> str:
    """The CPU and a refusal have a colour."""
    return {"CPU": "warn", "unknown": "warn", "none": "bad"}.get(place or "", "")


def percent(now: float | None, before: float | None) -> float | None:
    """The change from ``before``; None where one is missing."""
    return None if now is None or not before else 100 * (now / before - 1)
