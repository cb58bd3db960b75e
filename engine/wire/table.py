"""A table declared once: its columns over the rows of an answer.

The command line, the tables of the workbench, CSV, TSV, HTML and the reference in the docs are made
from it: a column that is added here is in all of them. See ``CONTRIBUTING.md``, "add a column".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any, Literal, TypeVar, get_type_hints

from engine.wire.formats import (
    COSINE,
    COUNT,
    DECIBEL,
    FIGURE,
    MILLISECONDS,
    MOMENT,
    NAME,
    NUMBER,
    RATE,
    SECONDS,
    SHAPE,
    SIZE,
    WORD,
    Format,
    state_of,
)
from engine.wire.record import record

T = TypeVar("T")
Meaning = Literal["", "good", "warn", "bad", "accent", "dim"]
"""What a value means to the reader; a theme has a colour for it."""
Only = Literal["", "screen", "file"]
"""Where a column is: everywhere, in the workbench alone, in files alone."""
Record = Mapping[str, Any]
"""A row as values: the key of a column -> its value, None where there is none."""
TEXT_WIDTH = 160
"""The command line has the columns that a screen of this width has."""


@record
class Column:
    """A column.

    Attributes:
        key: of its values in a record, and its head in files; at a field empty: the field's name.
        heading: for people, with the unit where the format's text has none; empty: ``key``, or
            none where there is a ``name``.
        format: how a value reads.
        help: what it is, one sentence, for the reference.
        value: from a row to the value; a text is a path of attributes (``memory.total``), empty:
            the attribute ``key``; None: only a record has it, made by who knows. A ``lambda`` at a
            field knows no names of its module, since annotations are evaluated in the class.
        width: least cells, where the heading has no more; 0: those of the format.
        grow: share of the space that is left once every text is shown whole.
        style: from a value (None too) to what it means.
        from_width: width of the screen in cells below which it is hidden; with one it is hidden too
            while no row has a value.
        unlike: key of another column; it is hidden while it says the same in every row.
        name: what it is called where nothing stands over it, as over signs and bars.
        only: where it is.
        file: its heads in files, as many as the format has parts; empty: ``key``.
    """

    key: str
    heading: str = ""
    format: Format = WORD
    help: str = ""
    value: str | Callable[[Any], Any] | None = ""
    width: int = 0
    grow: int = 0
    style: Callable[[Any], Meaning] | None = None
    from_width: int = 0
    unlike: str = ""
    name: str = ""
    only: Only = ""
    file: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What stands over it."""
        return self.heading or ("" if self.name else self.key)

    @property
    def called(self) -> str:
        """What stands over it, else its name."""
        return self.title or self.name

    @property
    def cells(self) -> int:
        """Least width."""
        return max(self.width or self.format.width, len(self.title))

    @property
    def heads(self) -> tuple[str, ...]:
        """Its heads in files."""
        return self.file or (self.key,)

    def but(self, **changes: Any) -> Column:
        """The same column, with other fields; under another key it has the same heading."""
        if "key" in changes:
            changes.setdefault("heading", self.title)
        return replace(self, **changes)

    def of(self, row: Any) -> Any:
        """Its value of a row, or of a record that has its key."""
        if isinstance(row, Mapping):
            return row.get(self.key)
        if self.value is None:
            return None
        if callable(self.value):
            return self.value(row)
        for name in (self.value or self.key).split("."):
            row = getattr(row, name) if row is not None else None
        return row

    def show(self, row: Any) -> str:
        """Its text of a row or a record."""
        return self.format.show(self.of(row))


@record
class Table:
    """A table.

    Attributes:
        name: one word, for file names and the reference.
        title: what a row is, for the reference.
        columns: from left to right.
    """

    name: str
    title: str
    columns: tuple[Column, ...]

    def column(self, key: str) -> Column:
        """The column of a key; KeyError where there is none."""
        for column in self.columns:
            if column.key == key:
                return column
        raise KeyError(key)

    def pick(self, *keys: str) -> Table:
        """A view with these columns, in this order; ``KEY@WIDTH`` is shown from that width on."""
        columns = []
        for key, _, width in (key.partition("@") for key in keys):
            column = self.column(key)
            columns.append(column.but(from_width=int(width)) if width else column)
        return replace(self, columns=tuple(columns))

    def record(self, row: Any, **further: Any) -> dict[str, Any]:
        """A row as values, with what the row does not have itself."""
        values = {
            column.key: further[column.key] if column.key in further else column.of(row)
            for column in self.columns
        }
        return {**values, **further}

    def shown(self, rows: Iterable[Any], width: int | None = TEXT_WIDTH) -> tuple[Column, ...]:
        """The columns of a text: those that fit a width (None: any) and say something."""
        rows = list(rows)
        return tuple(
            column
            for column in self.columns
            if not column.only
            and (width is None or column.from_width <= width)
            and says(column, rows)
        )

    @property
    def file_columns(self) -> tuple[Column, ...]:
        """The columns of a file."""
        return tuple(column for column in self.columns if column.only != "screen")

    def plain(self, rows: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        """For a file: the heads, then the plain values of each row."""
        columns = self.file_columns
        yield tuple(head for column in columns for head in column.heads)
        for row in rows:
            yield tuple(part for c in columns for part in c.format.plain(c.of(row)))


def says(column: Column, rows: Sequence[Any]) -> bool:
    """Whether a column that may be hidden says something, and not what another says already."""
    if not column.from_width or not rows:
        return True
    for row in rows:
        value = column.of(row)
        if value is not None and (not column.unlike or value != _other(row, column.unlike)):
            return True
    return False


def _other(row: Any, key: str) -> Any:
    return row.get(key) if isinstance(row, Mapping) else getattr(row, key, None)


# -------------------------------------------------------------------------------- figures at fields
@record
class Steps:
    """How the figures of several steps of one layer become one.

    Attributes:
        name: in one word.
        one: from the field's name and the steps to the figure of all.
    """

    name: str
    one: Callable[[str, Sequence[Any]], Any]


def _present(key: str, steps: Sequence[Any]) -> list[Any]:
    values = (getattr(step, key) for step in steps)
    return [value for value in values if value is not None]


def _sum(key: str, steps: Sequence[Any]) -> Any:
    values = _present(key, steps)
    return sum(values) if values else None


def _weighted(key: str, weight: str, steps: Sequence[Any]) -> list[tuple[Any, Any]]:
    """(value, weight) of the steps that have both."""
    pairs = ((getattr(step, key), getattr(step, weight)) for step in steps)
    return [(value, over) for value, over in pairs if value is not None and over]


def mean_over(weight: str) -> Steps:
    """Of a ratio: the mean, each step counted by the field that the ratio is over.

    Multiplications a cycle are a mean over cycles.
    """

    def one(key: str, steps: Sequence[Any]) -> float | None:
        pairs = _weighted(key, weight, steps)
        whole = sum(over for _, over in pairs)
        return sum(value * over for value, over in pairs) / whole if whole else None

    return Steps(f"mean over {weight}", one)


def most_of(weight: str) -> Steps:
    """Of what is no number: that of the step with most of another figure."""

    def one(key: str, steps: Sequence[Any]) -> Any:
        pairs = _weighted(key, weight, steps)
        return max(pairs, key=lambda pair: pair[1])[0] if pairs else getattr(steps[0], key)

    return Steps(f"where most of {weight} is", one)


ADDED = Steps("sum", _sum)
"""Of a count, bytes, a time."""
GREATEST = Steps("greatest", lambda key, steps: max(_present(key, steps), default=None))
"""Of a need or an error that the worst step decides."""


@cache  # tables of layers ask it for each layer
def marks_of(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Field, and each mark of its ``Annotated``."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        (field.name, mark)
        for field in fields(kind)
        for mark in getattr(hints[field.name], "__metadata__", ())
    )


def columns_at(kind: Any, part: str) -> tuple[Column, ...]:
    """The columns at the fields of a class, for rows that hold it as their attribute ``part``."""

    def of_part(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def value(row: Any) -> Any:
            own = getattr(row, part)
            return None if own is None else read(own)

        return value

    columns = []
    for name, mark in marks_of(kind):
        if isinstance(mark, Column):
            at = mark.value or name
            value = of_part(at) if callable(at) else f"{part}.{at}"
            columns.append(mark.but(key=mark.key or name, value=value))
    return tuple(columns)


def as_one(step: T, steps: Sequence[T]) -> T:
    """One of several steps, with the figures of all; what has no rule is its own."""
    kind: Any = type(step)
    rules = ((name, mark) for name, mark in marks_of(kind) if isinstance(mark, Steps))
    return replace(step, **{name: rule.one(name, steps) for name, rule in rules})  # type: ignore[type-var]


# What several tables have: columns of the same heading, marks of what is bad, what a value means.
#
# A heading stands in one module, so that it is the same figure wherever it stands. A table takes a
# column with :meth:`Column.but`, where its width, value or meaning is another.

LOW_DB = 20.0
"""A lower SQNR has a mark."""
LOW_COSINE = 0.99
"""So has a lower cosine."""
_PLACES: dict[str | None, Meaning] = {"CPU": "warn", "unknown": "warn", "none": "bad"}


def _marked(one: Format, low: float) -> Format:
    """Low values have a mark, so that they are seen without colours."""
    return replace(one, text=lambda value: f"{'!' if value < low else ''}{one.text(value)}")


SQNR = _marked(DECIBEL, LOW_DB)
"""An SQNR of a tensor."""
SIMILARITY = _marked(COSINE, LOW_COSINE)
"""A cosine of a tensor."""


# ------------------------------------------------------------------------------------------ values
def known(key: str) -> Callable[[Any], Any]:
    """The value of an attribute; an empty text and 0 stand for what is not known."""
    return lambda row: getattr(row, key) or None


def since(now: float | None, before: float | None) -> float | None:
    """The change from ``before``, a share of 1; None where one is missing."""
    return None if now is None or not before else now / before - 1


def no_noise(value: float | None) -> float:
    """An SQNR that is None without noise, as a number."""
    return math.inf if value is None else value


def number_of(side: str, key: str = "cosine") -> Callable[[Any], float | None]:
    """A figure of a difference; NaN where a value of the tensor is no number."""

    def value(row: Any) -> float | None:
        difference = getattr(row, side)
        if difference is None:
            return None
        number: float | None = getattr(difference, key)
        return math.nan if number is None else number

    return value


def sqnr_of(side: str, key: str = "") -> Callable[[Any], float | None]:
    """The SQNR of a difference, else the row's own of a key: infinite without noise."""

    def value(row: Any) -> float | None:
        difference = getattr(row, side)
        if difference is None or difference.cosine is None:
            return None if difference is None else math.nan
        return no_noise(getattr(row, key) if key else difference.sqnr)

    return value


# ---------------------------------------------------------------------------------------- meanings
def below(low: float) -> Callable[[float | None], Meaning]:
    """Of a figure that is better the higher it is."""
    return lambda value: "bad" if value is not None and value < low else ""


def above(high: float) -> Callable[[float | None], Meaning]:
    """Of a figure whose size is better small."""
    return lambda value: "warn" if value is not None and abs(value) > high else ""


low_db = below(LOW_DB)
"""What an SQNR means: a low one is bad."""


def accent(_: Any) -> Meaning:
    """Of a mark or a bar: it judges nothing."""
    return "accent"


def place_style(place: str | None) -> Meaning:
    """What a place means: the CPU is slow, a layer that is refused stops the compiler."""
    return _PLACES.get(place, "")


def change_style(*, more_is_better: bool) -> Callable[[float | None], Meaning]:
    """What a change (a share of 1) means."""

    def style(change: float | None) -> Meaning:
        if change is None or abs(change) < 0.0005:
            return ""
        return "good" if (change > 0) == more_is_better else "bad"

    return style


# ----------------------------------------------------------------------------------------- columns
# fmt: off
MARK = Column("mark", name="mark", value=None, width=1, style=accent, only="screen")
NUMBERED = Column("number", "#", NUMBER, "Its place in the table, from 1.")
LEAST = Column("minimum", "min", FIGURE, "The smallest value.")
MOST = Column("maximum", "max", FIGURE, "The largest value.")
MEAN = Column("mean", format=FIGURE, help="The mean of all values.")
CHIP = Column("chip", format=NAME, help="The chip.")
GENERATION = Column("generation", format=NUMBER, help="Generation of the NPU.")
TOOLKIT = Column("toolkit", format=NAME, help="The vendor's toolkit.", value=known("toolkit"))
DEVICE = Column("device", format=NAME, help="The board's name, for --device.")
MODEL = Column("model", format=NAME, help="The model.")
LAYER = Column("layer", format=NAME, help="The layer.")
LAYERS = Column("layers", format=NUMBER, help="How many layers.")
OP = Column("op", format=NAME, help="Its operator.")
TENSOR = Column("tensor", format=NAME, help="The tensor.")
OUTPUT = Column("name", "output", NAME, "The output.", width=10, grow=1)
SHAPED = Column("shape", format=SHAPE, help="Its shape.")
DTYPE = Column("dtype", help="Its dtype.", width=8)
FILE = Column("file", format=NAME, help="The file.", width=12, grow=1)
STATE = Column("state", format=state_of(), help="How it is.")
PLACE = Column("target", "on", WORD, "Where it runs.", width=4, style=place_style)
ON_NPU = Column("npu_layers", "NPU", COUNT, "Layers on the NPU.", width=4)
ON_CPU = Column("cpu_layers", "CPU", COUNT, "Layers on the CPU.", width=3)
REASON = Column("reason", "why", NAME, "Why it is not on the NPU.", known("reason"), grow=1)
REMEDY = Column("remedy", "fix", NAME, "What you can do.", known("remedy"), grow=1)
PROBLEM = Column("problem", format=NAME, help="What is wrong with it.", grow=1)
STANDS_ON = Column("basis", help="What estimates of time stand on.", value="confidence")
SOURCE = Column("source", format=NAME, help="Where it is published.")
FIGURES_ARE = Column("label", "figures are", help="Where the figures are from.")
SIZED = Column("size", format=SIZE, help="Bytes of it.", value=known("size"))
WEIGHTS = Column("weight_bytes", "weights", SIZE, "Memory of the weights.")
INTERNAL = Column("internal_bytes", "internal", SIZE, "Memory of the tensors between layers.")
CROSSING = Column("crossing_bytes", "crossing", SIZE, "Bytes that later segments read.",
                  known("crossing_bytes"))
CYCLES = Column("total_cycles", "cycles", COUNT, "Cycles as the compiler counts them.", width=10)
ESTIMATED_CYCLES = Column("estimated_cycles", "est. cycles", COUNT, "Our estimate of the cycles.",
                          width=11)
MACS = Column("macs", "MACs", COUNT, "Multiply-accumulates of an inference.")
FRAMES = Column("fps", "FPS", RATE, "Frames a second.")
TIME_MS = Column("time_ms", "time ms", MILLISECONDS, "Its time.")
ESTIMATED_MS = Column("time_ms", "est. ms", MILLISECONDS, "Its time, estimated.", width=7)
MEDIAN_MS = Column("median_ms", "median ms", MILLISECONDS, "Half of the runs took no longer.")
WHEN = Column("at", "time", MOMENT, "When it was.")
TOOK = Column("seconds", "seconds", SECONDS, "How long it took, measured.")
CORES_USED = Column("cores_used", "core mask", help="The NPU cores that run it.", value="cores")
BATCH = Column("batch", format=NUMBER, help="Inferences at once.")
THREADS = Column("threads", format=NUMBER, help="Threads that run it at the same time.")
MINIMUM = Column("minimum", format=FIGURE, help="The low end of the range.")
MAXIMUM = Column("maximum", format=FIGURE, help="The high end of the range.")
OBSERVED_MINIMUM = Column("observed_minimum", "obs. min", FIGURE, "The calibrated range, low end.")
OBSERVED_MAXIMUM = Column("observed_maximum", "obs. max", FIGURE, "The calibrated range, high end.")
LOWEST_DB = Column("lowest", "lowest dB", SQNR, "The lowest SQNR of the outputs.", width=9,
                   style=low_db)
OUTPUTS_DB = Column("outputs", "outputs, dB", NAME, "The SQNR of each output.", width=20, grow=3)
MEANING = Column("about", "meaning", NAME, "What it is.")
VALUE = Column("value", format=NAME, help="Its value.")
LINE = Column("line", format=NUMBER, help="Of the file.")
# fmt: on
