"""Any text gives a result, and a table that was printed is read back exactly."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.devices.measure.perf_report import PerfRow
from engine.devices.measure.perf_text import parse_perf_text
from tests.devices.perf import printed

_REPORTS = (
    printed.GENERATION_1,
    printed.FIRST,
    printed.TO_1_5,
    printed.ONE_CORE_1_4,
    printed.FROM_1_6,
    printed.TWO_CORES,
    printed.PLAIN_1,
    printed.PLAIN_2,
)

_WORDS = st.text("abcXYZ0189_./:-", min_size=1, max_size=60)
_DIMENSIONS = st.lists(st.integers(0, 99999), min_size=1, max_size=5).map(tuple)
_SHAPES = st.lists(_DIMENSIONS, max_size=5).map(tuple)
_CYCLES = st.integers(0, 10**9)
_PERCENT = st.integers(0, 10000).map(lambda value: value / 100)


@st.composite
def _rows(draw: st.DrawFn, cores: int) -> PerfRow:
    op = draw(_WORDS)
    loads = draw(st.lists(_PERCENT, min_size=cores, max_size=cores))
    return PerfRow(
        id=draw(st.integers(0, 99999)),
        op=op,
        ops=(op,),
        name=draw(st.just("") | _WORDS),
        dtype=draw(st.sampled_from(["INT8", "UINT8", "FLOAT16", "INT16"])),
        target=draw(st.sampled_from(["NPU", "CPU", "GPU"])),
        inputs=draw(_SHAPES),
        outputs=draw(_SHAPES),
        ddr_cycles=draw(_CYCLES),
        npu_cycles=draw(_CYCLES),
        total_cycles=draw(_CYCLES),
        microseconds=float(draw(st.integers(0, 10**7))),
        mac_usage=draw(st.just(()) | st.just(tuple(loads))),
        workload=tuple(loads),
        traffic=draw(st.integers(0, 10**6)) * 1024,
    )


def _shapes(shapes: tuple[tuple[int, ...], ...]) -> str:
    return ",".join(f"({','.join(map(str, shape))})" for shape in shapes) or "\\"


def _print(rows: list[PerfRow], form: str, cores: int, empty: str) -> str:
    """As ``printf`` does it: every cell as wide as its column or wider, then a blank."""
    numbers = "/".join(str(core) for core in range(cores))
    if form == "1.5":
        cycles = [("DDR Cycles", 14), ("NPU Cycles", 14), ("Total Cycles", 14)]
        load = (f"WorkLoad({numbers})-ImproveTherical", 38)
    else:
        cycles, load = [("Cycles(DDR/NPU/Total)", 24)], (f"WorkLoad({numbers})", 20)
    columns = [
        ("ID", 4), ("OpType", 16), ("DataType", 8), ("Target", 6), ("InputShape", 44),
        ("OutputShape", 22), *cycles, ("Time(us)", 12), ("MacUsage(%)", 20), load, ("RW(KB)", 12),
        ("FullName", 16),
    ]  # fmt: skip
    lines = [" ".join(name.ljust(width) for name, width in columns)]
    for row in rows:
        counts = [str(count) for count in (row.ddr_cycles, row.npu_cycles, row.total_cycles)]
        workload = "/".join(f"{core}%" for core in row.workload)
        cells = [
            str(row.id), row.op, row.dtype, row.target, _shapes(row.inputs), _shapes(row.outputs),
            *(counts if form == "1.5" else ["/".join(counts)]),
            f"{row.microseconds:.0f}",
            "/".join(map(str, row.mac_usage)) or empty,
            f"{workload} - Up:0.0%" if form == "1.5" else workload,
            str((row.traffic or 0) // 1024),
            row.name,
        ]  # fmt: skip
        padded = (cell.ljust(width) for cell, (_, width) in zip(cells, columns, strict=True))
        lines.append(" ".join(padded))
    return "\n".join(lines)


@given(st.data())
def test_a_printed_table_is_read_back(data: st.DataObject) -> None:
    cores = data.draw(st.integers(1, 3))
    rows = data.draw(st.lists(_rows(cores), min_size=1, max_size=4))
    form = data.draw(st.sampled_from(["1.5", "1.6"]))
    text = _print(rows, form, cores, data.draw(st.sampled_from(["\\", ""])))
    report = parse_perf_text(text)
    assert report.rows == tuple(rows)
    assert report.unread == ()


@given(st.text(max_size=2000))
def test_any_text_gives_a_report(text: str) -> None:
    parse_perf_text(text)


@settings(max_examples=200)
@given(
    st.sampled_from(_REPORTS),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(["", "\n", " ", "9", "\x1b", "(", "\\"]))),
    st.floats(0, 1),
)
def test_a_damaged_report_gives_a_report(
    text: str, changes: list[tuple[float, str]], end: float
) -> None:
    for place, instead in changes[:20]:
        at = int(place * len(text))
        text = text[:at] + instead + text[at + 1 :]
    report = parse_perf_text(text[: int(end * len(text))])
    assert all(row.name.isprintable() and row.op.isprintable() for row in report.rows)
