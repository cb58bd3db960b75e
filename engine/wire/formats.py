"""How a figure reads: one format for each kind, the same in every front end and report.

A format gives the text for people. Files (CSV, TSV) have the plain number, rounded by ``digits``.
What the field writes decides: sizes as the vendor's ``eval_memory`` prints them, frame rates with
one decimal as in the vendor's tables, times in ms with four digits that count.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from engine.base.text import human_bytes, sanitize, shape_text
from engine.wire.record import record

ABSENT = "-"
"""Stands for a value that there is not; in a file its cell is empty."""


@record
class Format:
    """A kind of figure.

    Attributes:
        name: what it is, for the reference.
        text: from a value that is not None to its text.
        width: characters of the longest usual text; 0: as long as the texts are.
        right: whether it stands right in its column, as numbers do.
        digits: decimals of the plain number in files; None: as it is.
        unit: of the plain number.
        parts: numbers that one value has in files, such as the two ends of an interval.
    """

    name: str
    text: Callable[[Any], str]
    width: int = 0
    right: bool = True
    digits: int | None = None
    unit: str = ""
    parts: int = 1

    def show(self, value: Any) -> str:
        """The text of a value; :data:`ABSENT` for None."""
        return ABSENT if value is None else self.text(value)

    def plain(self, value: Any) -> tuple[Any, ...]:
        """What files have: as many values as ``parts``, None where there is none."""
        if value is None:
            return (None,) * self.parts
        return tuple(self._rounded(part) for part in (value if self.parts > 1 else (value,)))

    def _rounded(self, value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None if math.isnan(value) else str(value)
        if not isinstance(value, int | float | str):  # a shape
            return self.text(value)
        if self.digits is None or isinstance(value, str):
            return value
        return round(value, self.digits)


def _milliseconds(value: float) -> str:
    size = abs(value)
    if size < 0.00005:
        return "0"
    ends = (0.99995, 9.9995, 99.995, 999.95)
    return f"{value:.{sum(size < end for end in ends)}f}"


def _elapsed(seconds: float) -> str:
    return f"{seconds:.{2 if seconds < 9.995 else 1}f} s"


def _duration(seconds: float) -> str:
    if seconds < 59.95:
        return _elapsed(seconds)
    unit, part, size = ("min", "s", 60) if seconds < 3599.5 else ("h", "min", 3600)
    whole, rest = divmod(round(60 * seconds / size), 60)
    return f"{whole} {unit} {rest} {part}" if rest else f"{whole} {unit}"


def _rate(value: float) -> str:
    return f"{value / 1000:.1f}k" if value >= 9999.95 else f"{value:.1f}"


def _percent(share: float) -> str:
    value = 100 * share
    return f"{value:.2f}" if not 0 < abs(value) < 0.005 else f"{value:.2g}"


def _nearly_all(share: float) -> str:
    """What is not all is not shown as all."""
    text = f"{100 * share:.3f}"
    return text if text != "100.000" else "100" if share == 1 else "<100"


def _change(share: float) -> str:
    return "0 %" if abs(share) < 0.0005 else f"{100 * share:+.1f} %"


def _decibel(value: float) -> str:
    return "equal" if value == math.inf else f"{value:.2f}"


def _signed(text: str, value: float) -> str:
    """What is added: ``+0.12``, ``-12 KiB``, ``0``."""
    return "0" if text.split()[0] == "0" else f"{'-' if value < 0 else '+'}{text}"


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def clock_text(seconds: float) -> str:
    """``0:42``, ``1:02:07``: how long something goes on, which is no figure of a table."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _shape(value: Any) -> str:
    return value if isinstance(value, str) else shape_text(value)


WORD = Format("a word", lambda value: sanitize(str(value), 80), right=False)
NAME = Format("text", lambda value: sanitize(str(value), 300), right=False)
SHAPE = Format("a shape, 1x3x240x320", _shape, right=False)
HASH = Format("the first 12 digits of a SHA-256", lambda value: str(value)[:12], 12, right=False)
MOMENT = Format("local time, 2026-01-31 13:45:12", _moment, 19, right=False, unit="s since 1970")
SHORT_MOMENT = Format(
    "local time, 01-31 13:45, of a day of this year",
    lambda value: time.strftime("%m-%d %H:%M", time.localtime(value)),
    11,
    right=False,
    unit="s since 1970",
)
NUMBER = Format("a whole number", str, 4)
COUNT = Format("a count, 1,234,567", lambda value: f"{value:,}", 11)
ADDRESS = Format("an address, hexadecimal", hex, 10)
FIGURE = Format("a number with four digits that count", lambda value: f"{value:.4g}", 9)
SIZE = Format("a size, 1.67 MiB", human_bytes, 10, unit="bytes")
MILLISECONDS = Format("a time in ms, 12.35", _milliseconds, 6, digits=6, unit="ms")
MICROSECONDS = Format("a time in µs, 12.3", lambda value: f"{value:.1f}", 9, digits=3, unit="µs")
SECONDS = Format("a time in s, 12.3", lambda value: f"{value:.1f}", 7, digits=3, unit="s")
DURATION = Format("how long it took, 0.12 s or 1 min 40 s", _duration, 10, digits=3, unit="s")
ELAPSED = Format("when it was, after the begin, 75.0 s", _elapsed, 7, digits=3, unit="s")
CLOCK = Format("a clock, 1000 MHz", lambda hertz: f"{hertz / 1e6:.0f} MHz", 8, unit="Hz")
WATTS = Format("a power, 5.12 W", lambda value: f"{value:.2f} W", 8, digits=6, unit="W")
LOAD = Format("a load in percent, 37 %", lambda value: f"{round(value)} %", 5, unit="%")
CELSIUS = Format("a temperature, 45.3 °C", lambda value: f"{value:.1f} °C", 7, unit="°C")
FACTOR = Format("a factor, 1.234", lambda value: f"{value:.3f}", 6, digits=6)
PROGRESS = Format("how much is done, 45%", lambda share: f"{share:.0%}", 4, unit="share of 1")
RATE = Format("frames a second, 47.3 or 12.5k", _rate, 6, digits=4, unit="frames/s")
TENTHS = Format("a number with one decimal", lambda value: f"{value:.1f}", 7, digits=4)
RATIO = Format("a ratio, 1.7x", lambda value: f"{value:.1f}x", 6, digits=4)
PERCENT = Format("a share in percent, 5.68", _percent, 6, digits=6, unit="share of 1")
NEARLY_ALL = Format("a share in percent, 99.983", _nearly_all, 7, digits=9, unit="share of 1")
POINTS = Format("percentage points, +0.12", lambda v: f"{100 * v:+.2f}", 6, digits=6, unit="1")
SIGNED = Format("a difference, +1.234", lambda value: f"{value:+.4g}", 9)
CHANGE = Format("a change, +4.1 %", _change, 8, digits=6, unit="share of 1")
DECIBEL = Format("an SQNR, 41.20, or equal", _decibel, 8, digits=4, unit="dB")
GAIN = Format("a gain in dB, +3.40, or all", lambda v: "all" if v == math.inf else f"{v:+.2f}", 7)
ADDED_MS = Format(
    "a time that is added, in ms",
    lambda v: _signed(_milliseconds(abs(v)), v),
    7,
    digits=6,
    unit="ms",
)
ADDED_BYTES = Format(
    "a size that is added", lambda v: _signed(human_bytes(abs(v)), v), 10, unit="bytes"
)
COSINE = Format("a cosine, 0.999876", lambda value: f"{value:.6f}", 9, digits=9)


def state_of(sign: Callable[[str], str] | None = None) -> Format:
    """Of a state: nothing is said by colour alone. ``sign`` is None where the value has it."""
    name = "a state with its sign"
    if sign is None:
        return Format(name, str, right=False)
    return Format(name, lambda state: f"{sign(state)} {state}", right=False)


def range_of(one: Format) -> Format:
    """Of an interval: ``43.7 to 51.9``; two numbers in files."""
    return Format(
        f"an interval; each end is {one.name}",
        lambda ends: f"{one.show(ends[0])} to {one.show(ends[1])}",
        2 * one.width + 4,
        digits=one.digits,
        unit=one.unit,
        parts=2,
    )
