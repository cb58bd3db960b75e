"""Measured figures in the forms of the manuals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.devices.measure.measured import (
    MeasuredPerf,
    Versions,
    memory_not_available,
    memory_text,
    memory_use,
    memory_value,
)
from engine.devices.measure.perf_report import Clocks
from engine.devices.measure.perf_text import parse_perf_text
from engine.wire.board import AllocatedMemory
from tests.devices.perf import printed

CLOCKS = (Clocks("CPU", (1_608_000_000,)), Clocks("NPU", (500_000_000,)), Clocks("DDR", ()))


def test_a_total_of_generation_2() -> None:
    perf = MeasuredPerf(2, 17219.0, clocks=CLOCKS)
    text = perf.value()
    assert text == perf.printed()
    report = parse_perf_text(str(text))
    assert (report.microseconds, report.total_kind) == (17219, "run")
    assert report.frames_per_second == 58.08
    assert report.clocks == CLOCKS
    assert report.unread == ()
    assert "Performance (measured)" in perf.printed()
    assert perf.dictionary() == {"total_time": 17219}


def test_a_total_of_generation_1() -> None:
    perf = MeasuredPerf(1, 5438.98)
    assert perf.value() == {"total_time": 5438.98}
    report = parse_perf_text(perf.printed())
    assert (report.microseconds, report.total_kind) == (5438.98, "average")
    assert report.frames_per_second == 183.86
    assert MeasuredPerf(1, 1000.0).value() == {"total_time": 1000}
    assert MeasuredPerf(1, 0.0).frames_per_second == 0


def test_layers_of_generation_1_are_printed_and_read_back() -> None:
    report = parse_perf_text(printed.GENERATION_1)
    perf = MeasuredPerf(1, 5000.0, report)
    assert parse_perf_text(perf.printed()) == report
    found = perf.value()
    assert isinstance(found, dict)
    assert (list(found), found["total_time"]) == (["total_time", "layers"], 36700)
    long = "a/name/that/is/longer/than/its/column/has/room/Relu6_1_2"
    rows = {
        "0": ("net/first/Relu6_1_RKNN_mark_perm_60_0", "TENSOR_TRANS", 361),
        "2": (long, "CONVOLUTION", 920),
        "3": ("net/second_3_2", "CONVOLUTION", 896),
        "4": ("net/softmax_5_2", "SOFTMAX", 17.5),
    }
    keys = ("name", "operation", "time")
    assert found["layers"] == {n: dict(zip(keys, row, strict=True)) for n, row in rows.items()}


def test_layers_of_generation_2_keep_the_runtimes_text() -> None:
    report = parse_perf_text(printed.TWO_CORES)
    perf = MeasuredPerf(2, 900.0, report, printed.TWO_CORES + "\x1b[31m", CLOCKS, "emulated")
    text = perf.printed()
    assert text == perf.value()
    assert printed.TWO_CORES.rstrip("\n").split("\n")[1] in text
    assert "\x1b" not in text
    assert "Performance (emulated)" in text
    assert parse_perf_text(text).rows == report.rows
    assert perf.dictionary()["layers"] == {
        "7": {"name": "Conv:conv1", "operation": "ConvRelu", "target": "NPU", "time": 23}
    }


def test_memory_of_generation_2_as_the_manual_prints_it() -> None:
    use = memory_use(weight=3698688, internal=1756160, dma=5939200)
    assert memory_value(use) == {
        "weight_memory": 3698688,
        "internal_memory": 1756160,
        "other_memory": 484352,
        "total_memory": 5939200,
    }
    assert memory_text(use, 4288675, "measured").split("\n") == [
        "=" * 54,
        "         Memory Profile Info Dump (measured)",
        "=" * 54,
        "NPU model memory detail(bytes):",
        "    Weight Memory: 3.53 MiB",
        "    Internal Tensor Memory: 1.67 MiB",
        "    Other Memory: 473.00 KiB",
        "    Total Memory: 5.66 MiB",
        "",
        "INFO: When evaluating memory usage, we need consider",
        "the size of model, current model size is: 4.09 MiB",
        "=" * 54,
    ]
    assert use.note == ""


def test_memory_that_does_not_add_up_is_said() -> None:
    silent = memory_use(weight=10, internal=5, dma=0)
    assert (silent.other, silent.total) == (0, 15)
    assert "does not say" in silent.note
    assert memory_use(weight=10, internal=5, dma=15).note == ""
    less = memory_use(weight=4096, internal=1024, dma=2048)
    assert (less.other, less.total) == (0, 2048)
    assert "2.00 KiB, less than" in less.note


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_memory_never_falls_below_zero(weight: int, internal: int, dma: int) -> None:
    use = memory_use(weight=weight, internal=internal, dma=dma)
    assert use.other >= 0
    if dma >= weight + internal or not dma:
        assert use.weight + use.internal + use.other == use.total
        assert use.note == "" or not dma
    else:
        assert use.note


def test_memory_of_generation_1() -> None:
    mib = 1 << 20
    use = AllocatedMemory(*(round(size * mib) for size in (22.65, 72.06, 33.26, 34.57)))
    assert set(memory_value(use)) == {"system_memory", "npu_memory", "total_memory"}
    total = memory_value(use)["total_memory"]
    assert total["total_allocation"] == sum(
        memory_value(use)[part]["total_allocation"] for part in ("system_memory", "npu_memory")
    )
    text = memory_text(use, round(4.1 * mib), "measured")
    # rounded apart, the manual prints 55.92 for the first sum
    for figure in ("22.65", "72.06", "33.26", "34.57", "55.91", "106.63", "is: 4.10"):
        assert f"{figure} MiB" in text
    assert "Memory Profile Info Dump (measured)" in text
    assert "Memory Profile Info Dump (emulated)" in memory_text(use, 1, "emulated")


def test_memory_is_refused_with_its_reason() -> None:
    error = memory_not_available()
    assert error.kind == "runtime library"
    assert "not available on this runtime" in error.what
    assert "no query" in error.cause


def test_versions() -> None:
    first = Versions(1, "1.3.2 (7c17e39 build: 2020-04-02)", "1.3.2 (7576518)", driver="6.4")
    assert first.value().split("\n") == [
        "=" * 46,
        "RKNN VERSION:",
        "    API: 1.3.2 (7c17e39 build: 2020-04-02)",
        "    DRV: 1.3.2 (7576518)",
        "=" * 46,
    ]
    second = Versions(2, "1.5.2", "1.5.2\n(x)", "1.5.3b13", label="emulated")
    assert second.value().split("\n")[1:-1] == [
        "RKNN VERSION (emulated):",
        "    API: 1.5.2",
        "    DRV: rknn_server: 1.5.2 (x)",
        "    DRV: rknnrt: 1.5.3b13",
    ]
    assert Versions(2).value().count("\n") == 2
