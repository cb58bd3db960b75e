"""A table is declared once: each renderer has its columns, and a figure reads the same in all."""

from __future__ import annotations

import ast
import csv
import importlib
import io
import math
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine.wire
from engine import html_table, row_text, table_file, table_lines
from engine.wire import formats
from engine.wire.cost import Bound, ChipEstimate, Interval, MemoryCost
from engine.wire.cost_tables import CHIPS
from engine.wire.formats import ABSENT, Format, range_of
from engine.wire.layer_tables import COST, ROOFLINE
from engine.wire.table import Column, Table

ROOT = Path(__file__).resolve().parents[2]
UNITS = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "k": 1000,
    "x": 1,
    "%": 0.01,
    "s": 1,
    "min": 60,
    "h": 3600,
    "MHz": 1e6,
    "W": 1,
    "°C": 1,
}
FORMATS = {name: one for name, one in vars(formats).items() if isinstance(one, Format)}
NUMBERS = {
    # step of the text at values below 10, relative step above
    "SIZE": (0.5, 0.005),
    "MILLISECONDS": (0.00005, 0.00051),
    "MICROSECONDS": (0.05, 0.0),
    "SECONDS": (0.05, 0.0),
    "DURATION": (0.05, 0.0084),
    "ELAPSED": (0.05, 0.0),
    "CLOCK": (0.5e6, 0.0),
    "CELSIUS": (0.05, 0.0),
    "LOAD": (0.5, 0.0),
    "WATTS": (0.005, 0.0),
    "FACTOR": (0.0005, 0.0),
    "PROGRESS": (0.005, 0.0),
    "RATE": (0.05, 0.005),
    "RATIO": (0.05, 0.0),
    "TENTHS": (0.05, 0.0),
    "FIGURE": (0.0, 0.0005),
    "COUNT": (0.0, 0.0),
    "NUMBER": (0.0, 0.0),
    "DECIBEL": (0.005, 0.0),
    "COSINE": (0.0000005, 0.0),
    "PERCENT": (0.00005, 0.0),
    "NEARLY_ALL": (0.000005, 0.0),
    "POINTS": (0.00005, 0.0),
    "SIGNED": (0.0, 0.0005),
    "CHANGE": (0.00051, 0.0),
    "GAIN": (0.005, 0.0),
    "ADDED_MS": (0.00005, 0.00051),
    "ADDED_BYTES": (0.5, 0.005),
    "ADDRESS": (0.0, 0.0),
}
SHARES = {"PROGRESS", "PERCENT", "NEARLY_ALL", "POINTS"}
WHOLE = {"SIZE", "ADDED_BYTES", "COUNT", "NUMBER", "ADDRESS"}


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(engine.wire.__path__, "engine.wire."):
        yield importlib.import_module(found.name)


def tables() -> list[Table]:
    return [one for m in modules() for one in vars(m).values() if isinstance(one, Table)]


def columns() -> list[Column]:
    loose = [one for m in modules() for one in vars(m).values() if isinstance(one, Column)]
    rows = [one for m in modules() for one in vars(m).values() if isinstance(one, tuple)]
    grouped = [one for row in rows for one in row if isinstance(one, Column)]
    return [*loose, *grouped, *(c for one in tables() for c in one.columns)]


def read(text: str) -> float:
    """The number that a text is."""
    if parts := re.fullmatch(r"(\d+ (?:h|min)) (\d+ (?:min|s))", text):
        return read(parts[1]) + read(parts[2])
    if text.startswith("0x"):
        return int(text, 16)
    match = re.fullmatch(r"([+-]?[\d,.]+(?:e[+-]\d+)?) ?([A-Za-z%°]*)", text)
    assert match is not None, text
    return float(match[1].replace(",", "")) * UNITS.get(match[2], 1)


@pytest.mark.parametrize("name", NUMBERS)
@given(value=st.floats(0, 1e9, allow_subnormal=False))
def test_a_text_reads_back_to_its_value(name: str, value: float) -> None:
    form = FORMATS[name]
    value = float(int(value)) if name in WHOLE else value / 1e9 if name in SHARES else value
    text = form.text(int(value) if name in WHOLE else value).lstrip("<")
    again = read(text) * (0.01 if name in SHARES and "%" not in text else 1)
    again *= 100 if name == "LOAD" else 1  # a number of percent, no share
    least, share = NUMBERS[name]
    assert math.isclose(again, value, rel_tol=share + 1e-9, abs_tol=least + 1e-12), text


def test_each_number_has_a_format_that_reads_back() -> None:
    assert set(NUMBERS) == {name for name, one in FORMATS.items() if one.right}


@pytest.mark.parametrize(
    ("name", "values", "texts"),
    [
        ("SIZE", (1000, 1536, 10 << 20), ("1000 B", "1.50 KiB", "10.00 MiB")),
        (
            "MILLISECONDS",
            (0, 0.03384, 1.77, 12.345, 123.46, 999.97, 1234.5),
            ("0", "0.0338", "1.770", "12.35", "123.5", "1000", "1234"),
        ),
        (
            "RATE",
            (1.14, 99.97, 222.44, 9999.96, 12500),
            ("1.1", "100.0", "222.4", "10.0k", "12.5k"),
        ),
        ("PERCENT", (0.05678, 0.4567, 1.0, -0.004), ("5.68", "45.67", "100.00", "-0.40")),
        ("PERCENT", (0.0, 0.0000123), ("0.00", "0.0012")),
        ("NEARLY_ALL", (1.0, 0.9999999, 0.99983), ("100", "<100", "99.983")),
        ("CHANGE", (0.0001, 0.0321, -0.126), ("0 %", "+3.2 %", "-12.6 %")),
        ("DECIBEL", (41.2, math.inf), ("41.20", "equal")),
        ("COUNT", (1234567,), ("1,234,567",)),
        ("DURATION", (0.004, 9.994, 9.995, 59.94), ("0.00 s", "9.99 s", "10.0 s", "59.9 s")),
        ("ELAPSED", (9.994, 75.0), ("9.99 s", "75.0 s")),
        ("DURATION", (59.95, 75.4, 600, 7140), ("1 min", "1 min 15 s", "10 min", "1 h 59 min")),
        ("CLOCK", (1e9, 594_500_000), ("1000 MHz", "594 MHz")),
        ("CELSIUS", (45.26,), ("45.3 °C",)),
        ("FACTOR", (1.2345,), ("1.234",)),
        ("PROGRESS", (0.0, 0.454, 1.0), ("0%", "45%", "100%")),
        ("GAIN", (3.4, -1.0, math.inf), ("+3.40", "-1.00", "all")),
        ("ADDED_MS", (0.0, 1.77, -0.03384), ("0", "+1.770", "-0.0338")),
        ("ADDED_BYTES", (0, 1536, -1000), ("0", "+1.50 KiB", "-1000 B")),
    ],
)
def test_figures_read_as_the_field_writes_them(
    name: str, values: tuple[float, ...], texts: tuple[str, ...]
) -> None:
    form = FORMATS[name]
    assert tuple(map(form.text, values)) == texts
    assert all(len(text) <= form.width for text in texts)


def test_an_interval_is_two_numbers_in_a_file() -> None:
    form = range_of(formats.RATE)
    assert form.show((43.7, 51.94999999)) == "43.7 to 51.9"
    assert form.plain((43.7, 51.94999999)) == (43.7, 51.95)
    assert form.show(None) == ABSENT
    assert form.plain(None) == (None, None)


def test_tables_are_found() -> None:
    names = [one.name for one in tables()]
    assert {"chips", "tensors"} <= set(names)
    assert len(names) == len(set(names)), "a name is a file's and a heading's of the reference"


@pytest.mark.parametrize("table", tables(), ids=lambda one: str(one.name))
def test_a_table_is_whole(table: Table) -> None:
    keys = [column.key for column in table.columns]
    assert len(keys) == len(set(keys))
    heads = [head for column in table.file_columns for head in column.heads]
    assert len(heads) == len(set(heads))
    for column in table.columns:
        assert column.called, column.key
        assert len(column.heads) == column.format.parts, column.key
        assert not column.unlike or table.column(column.unlike)
        assert column.name or column.help.endswith("."), f"{column.key} has no help"
        assert column.cells >= len(column.title), f"{column.key}: its heading would be cut"


def test_what_limits_a_layer_is_never_cut() -> None:
    for table in (COST, ROOFLINE):
        assert table.column("bound").cells >= max(map(len, get_args(Bound)))


def test_a_heading_has_one_format() -> None:
    """The same words over two tables are the same figure, read the same way."""
    by_heading: dict[str, set[str]] = {}
    for column in columns():
        by_heading.setdefault(column.called, set()).add(column.format.name)
    assert {k: v for k, v in by_heading.items() if len(v) > 1} == {}


def headings(node: ast.Call) -> str:
    """What stands over the column that a call makes, as it is written there."""
    words = {word.arg: word.value for word in node.keywords}
    places = dict(zip(("key", "heading"), node.args, strict=False)) | words
    of = [places.get(name) for name in ("heading", "name", "key")]
    texts = [one.value for one in of if isinstance(one, ast.Constant) and one.value]
    return str(texts[0]) if texts else ""


def test_a_heading_is_written_in_one_module() -> None:
    """What several tables have is in engine/wire/table.py."""
    modules_of: dict[str, set[str]] = {}
    for path in (p for room in ("engine", "rknntui") for p in (ROOT / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "Column(" in text or ".but(" in text:
            for call in (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)):
                name = getattr(call.func, "id", getattr(call.func, "attr", ""))
                heading = headings(call) if name in ("Column", "but") else ""
                if heading and (name == "Column" or any(w.arg == "heading" for w in call.keywords)):
                    modules_of.setdefault(heading, set()).add(str(path))
    assert "chip" in modules_of
    assert {k: v for k, v in modules_of.items() if len(v) > 1} == {}


def test_front_ends_round_no_figure_themselves() -> None:
    """A figure has a format of engine/wire/formats.py; ``.2f`` beside it would read otherwise."""
    rounding = re.compile(r"[+,]*\.\d+[efg%]")
    own = []
    for path in (ROOT / "rknntui").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
                spec = "".join(
                    part.value
                    for part in ast.walk(node.format_spec)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                )
                own += [f"{path.name}:{node.lineno} {spec}"] if rounding.fullmatch(spec) else []
    assert own == []


# ------------------------------------------------------------------------------------------- chips
KNOWN = ChipEstimate(
    "rk3588", 2, "int8", 1, 1, 1000.0, "fitted", time_ms=Interval(1.5, 1.2, 1.9),
    fps=Interval(666.7, 526.3, 833.3), memory=MemoryCost(1024, 72, 1096), npu_layers=7,
)  # fmt: skip
UNKNOWN = replace(KNOWN, chip="rk1808", cpu_layers=None, unknown_layers=3)
REFUSED = ChipEstimate("rk2118", 2, "int8", 1, 1, 0.0, "structural", problem="no such dtype")
ROWS = (KNOWN, UNKNOWN, REFUSED)
NEW = Column("peak_gops", "GOPS", formats.RATE, "Peak.")


def with_column(column: Column, at: int) -> Table:
    return replace(CHIPS, columns=(*CHIPS.columns[:at], column, *CHIPS.columns[at:]))


def html_cells(text: str) -> list[list[str]]:
    lines = text.split("<tr>")[1:]
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line) for line in lines]


def test_text_page_and_workbench_have_the_same_cells() -> None:
    head, *page = html_cells(html_table(CHIPS, ROWS))
    text = [re.split(r"  +", line) for line in table_lines(CHIPS, ROWS)]
    assert set(text[0]) <= set(head)
    for cells, line in zip(page, text[1:], strict=True):
        assert line == [cells[head.index(name)] for name in text[0]]
    records = [CHIPS.record(row) for row in ROWS]
    for name, cells in zip(text[0], zip(*text[1:], strict=True), strict=True):
        (column,) = (one for one in CHIPS.columns if one.called == name)
        assert tuple(map(column.show, records)) == cells
    assert text[2][text[0].index("unknown")] == "3"
    assert text[2][text[0].index("CPU")] == ABSENT
    assert [len(text[0]), text[0][-1]] == [16, "MHz"]


def test_a_file_has_plain_numbers() -> None:
    known, unknown, refused = csv.DictReader(io.StringIO(table_file(CHIPS, ROWS)))
    assert known["fps"] == "666.7"
    assert (known["fps_low"], known["fps_high"]) == ("526.3", "833.3")
    assert known["total_bytes"] == "1096"
    assert (unknown["cpu_layers"], unknown["unknown_layers"]) == ("", "3")
    assert (refused["problem"], refused["fps"], refused["label"]) == (
        "no such dtype",
        "",
        "estimated",
    )


def test_a_column_that_is_added_is_everywhere() -> None:
    table = with_column(NEW, 4)
    rows = [replace(row, peak_gops=6000.0) for row in ROWS]
    assert table_lines(table, rows)[0].split()[2] == "GOPS"
    assert html_cells(html_table(table, rows))[1][2] == "6000.0"
    assert next(csv.DictReader(io.StringIO(table_file(table, rows))))["peak_gops"] == "6000.0"
    assert table.record(rows[0])["peak_gops"] == 6000.0


def test_a_column_hides_where_it_says_nothing() -> None:
    assert "reaches" not in table_lines(CHIPS, ROWS)[0]
    assert "FPS" in table_lines(CHIPS, [REFUSED])[0], "it is always there"
    asked = [replace(KNOWN, reaches="yes"), REFUSED]
    assert "reaches" in table_lines(CHIPS, asked)[0]
    same = Column("name", "also", help="x.", unlike="chip", from_width=1)
    twice = with_column(same, 2)
    rows: list[dict[str, Any]] = [CHIPS.record(KNOWN, name="rk3588")]
    assert "also" not in table_lines(twice, rows)[0]
    assert "also" in table_lines(twice, [{**rows[0], "name": "RK3588"}])[0]


def test_a_row_alone_reads_as_in_its_table() -> None:
    lines = table_lines(declared=CHIPS, rows=ROWS[:1])
    assert row_text(declared=CHIPS, row=ROWS[0]).split() == lines[1].split()


def test_each_format_has_a_name_of_its_own() -> None:
    names = [one.name for one in FORMATS.values()]
    assert len(names) == len(set(names))
