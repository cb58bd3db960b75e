"""Performance text of every dialect, read back figure by figure."""

from __future__ import annotations

import pytest

from engine.devices.measure.perf_report import Clocks, OperatorTotal, PerfRow
from engine.devices.measure.perf_text import TEXT_LIMIT, parse_perf_text
from tests.devices.known_model import perf_row
from tests.devices.perf import printed as reports


def test_simulator_of_generation_1() -> None:
    short, total, rate = reports.MOBILENET, 4694, 213.04
    report = parse_perf_text(reports.simulator(short, total, str(rate)))
    assert [(row.id, row.name, row.microseconds) for row in report.rows] == reports.layers_of(short)
    assert report.dialect == "generation 1"
    assert (report.microseconds, report.total_kind) == (total, "run")
    # the manual's own sum: no row was lost
    assert sum(row.microseconds or 0 for row in report.rows) == total
    assert (report.frames_per_second, report.npu_clock) == (rate, 800_000_000)
    assert report.unread == ()


def layer(number: int, name: str, time: float, uid: int | None, *ops: str) -> PerfRow:
    """A row of generation 1."""
    return perf_row(number, name, ops[0], ops=ops, microseconds=time, uid=uid)


def test_board_of_generation_1() -> None:
    report = parse_perf_text(reports.GENERATION_1)
    long = "a/name/that/is/longer/than/its/column/has/room/Relu6_1_2"
    assert report.rows == (
        layer(0, "net/first/Relu6_1_RKNN_mark_perm_60_0", 361, 60, "TENSOR_TRANS"),
        layer(2, long, 920, 1, "CONVOLUTION"),
        layer(3, "net/second_3_2", 896, 3, "CONVOLUTION", "ADD", "LEAKY_RELU"),
        layer(4, "net/softmax_5_2", 17.5, None, "SOFTMAX"),
    )
    assert report.dialect == "generation 1"
    assert (report.microseconds, report.frames_per_second) == (36700, 27.25)
    assert report.ranking == (
        OperatorTotal("CONVOLUTION", 27, total=21000, share=57.22),
        OperatorTotal("TENSOR_TRANS", 1, total=361, share=0.98),
    )
    assert report.unread == ()


def test_more_operators_of_a_layer() -> None:
    head = "Layer ID    Name      Operator            Uid       Time(us)"
    text = [head, "3           a         CONVOLUTION         3         10"]
    text.append(f"{'':<22}{'ADD':<20}{4:<10}2.5")
    text.append(f"{'':<22}{'RELU':<20}{5:<10}soon")
    report = parse_perf_text("\n".join(text))
    (row,) = report.rows
    assert (row.ops, row.microseconds, row.uid) == (("CONVOLUTION", "ADD"), 12.5, 3)
    assert [(note.line, note.why) for note in report.unread] == [(4, "it goes on with no row")]
    untimed = text[1].replace("10", "").rstrip()
    (row,) = parse_perf_text("\n".join([head, untimed, text[2]])).rows
    assert row.microseconds == 2.5
    early = parse_perf_text("\n".join([head, text[2]]))
    assert (early.rows, len(early.unread)) == ((), 1)


@pytest.mark.parametrize("counted", ["characters", "bytes"])
def test_names_of_other_alphabets(counted: str) -> None:
    def cell(text: str, width: int) -> str:
        size = len(text) if counted == "characters" else len(text.encode())
        return text + " " * (width - size) + " "

    lines = ["Layer ID  Name                     Operator             Uid      Time(us)"]
    names = ["größe/層", "conv1", "日本語の名前"]
    for number, name in enumerate(names):
        row = cell(str(number), 9) + cell(name, 24) + cell("SOFTMAX", 20) + cell("", 8) + "12.5"
        lines.append(row)
    rows = parse_perf_text("\n".join(lines)).rows
    assert [row.name for row in rows] == names
    assert {(row.op, row.uid, row.microseconds) for row in rows} == {("SOFTMAX", None, 12.5)}


def test_first_version_of_generation_2() -> None:
    report = parse_perf_text(reports.FIRST)
    assert report.dialect == "generation 2, 1.1"
    rows = [(row.id, row.name, row.op, row.target, row.microseconds) for row in report.rows]
    assert rows == reports.FIRST_LAYERS
    assert report.unread == ()


def test_to_1_5() -> None:
    report = parse_perf_text(reports.TO_1_5)
    assert report.dialect == "generation 2, to 1.5"
    assert (report.microseconds, report.total_kind) == (15209, "operators")
    assert report.traffic == 3 << 20
    first, second, third = report.rows
    about = {"ops": ("InputOperator",), "dtype": "UINT8", "target": "CPU", "workload": (0, 0, 0)}
    sizes = {"outputs": ((1, 3, 224, 224),), "traffic": 147 * 1024, "microseconds": 7}
    assert first == perf_row(1, "InputOperator:data", cycles=(0, 0, 0), **about, **sizes)
    assert second.inputs == ((1, 3, 224, 224), (32, 3, 3, 3), (32,))
    assert (second.ddr_cycles, second.npu_cycles, second.total_cycles) == (94250, 10684, 94250)
    assert (second.mac_usage, second.workload) == ((2.47,), (100, 0, 0))
    assert second.traffic == 556800
    assert third.inputs[-1] == third.outputs[0] == (1, 32, 112, 112)
    assert (third.microseconds, third.workload) == (474, (50, 25, 25))
    assert third.name == "Conv:conv 2/with blanks"
    assert report.ranking == (
        OperatorTotal("ConvRelu", 36, 0, None, 9012, 9012, 66),
        OperatorTotal("InputOperator", 1, 7, None, 0, 7, 0.04),
    )
    assert report.unread == ()


def test_one_core_before_1_5() -> None:
    report = parse_perf_text(reports.ONE_CORE_1_4)
    assert [(row.id, row.microseconds, row.mac_usage, row.workload) for row in report.rows] == [
        (0, 0, (), ()),
        (1, 31, (12.5,), ()),
    ]
    assert report.unread == ()


def test_from_1_6() -> None:
    report = parse_perf_text(reports.FROM_1_6)
    assert report.dialect == "generation 2, from 1.6"
    assert (report.microseconds, report.total_kind) == (104412, "operators")
    assert report.traffic == 198234 * 1024
    assert report.clocks == (
        Clocks("CPU", (1_800_000_000, 2_400_000_000)),
        Clocks("NPU", (1_000_000_000,)),
        Clocks("DDR", ()),
    )
    first, unnamed, pad, custom, split = report.rows
    assert (first.inputs, first.mac_usage, first.microseconds) == ((), (), 4)
    assert (unnamed.name, unnamed.traffic, unnamed.mac_usage) == ("", 384 * 1024, (0.3, 0, 0))
    assert (pad.mac_usage, pad.workload, pad.name) == ((), (100, 0, 0), "Pad:/encoder/Pad")
    assert custom.op == "myOwnNormalization_of_a_long_name_1"
    assert (custom.dtype, custom.target, custom.microseconds) == ("FLOAT16", "CPU", 11467)
    assert (split.outputs, split.shapes_cut, split.target) == (((1, 32, 240, 240),), True, "GPU")
    assert (split.ddr_cycles, split.npu_cycles, split.total_cycles) == (300111, 0, 300111)
    assert report.ranking == (
        OperatorTotal("ConvRelu", 57, 0, 0, 90965, 90965, 78.61),
        OperatorTotal("InputOperator", 1, 4, 0, 0, 4, 0),
    )
    assert report.unread == ()


@pytest.mark.parametrize(
    ("text", "usage", "load"),
    [(reports.TWO_CORES, (2.41, 1.5), (60, 40)), (reports.ONE_CORE, (2.41,), (100,))],
)
def test_cores(text: str, usage: tuple[float, ...], load: tuple[float, ...]) -> None:
    (row,) = parse_perf_text(text).rows
    assert (row.mac_usage, row.workload, row.traffic) == (usage, load, 10 * 1024)


def test_totals_alone() -> None:
    second = parse_perf_text(reports.PLAIN_2)
    assert (second.dialect, second.microseconds, second.total_kind) == ("total", 17219, "run")
    assert second.frames_per_second == 58.08
    assert second.clocks[1] == Clocks("NPU", (500_000_000,))
    first = parse_perf_text(reports.PLAIN_1)
    assert (first.dialect, first.microseconds, first.total_kind) == ("total", 5438.98, "average")
    assert first.unread == second.unread == ()


def test_log_prefix() -> None:
    whole = parse_perf_text(reports.FROM_1_6)
    prefixed = [f"D RKNN: [05:07:06.566] {line}" for line in reports.FROM_1_6.split("\n")]
    assert parse_perf_text("\n".join(prefixed)) == whole


def test_rows_that_a_terminal_broke() -> None:
    lines = reports.FROM_1_6.split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith("5    Split"))
    whole = lines[at]
    cut = whole.index("300111/0/300111") + len("300111/0/300111")
    for middle in (
        [whole[:cut].rstrip(), whole[cut:].strip()],
        [whole[:cut], "", whole[cut:].lstrip()],
    ):
        broken = parse_perf_text("\n".join([*lines[:at], *middle, *lines[at + 1 :]]))
        assert broken == parse_perf_text(reports.FROM_1_6)


def test_a_row_that_was_broken_behind_a_cell_that_is_too_long() -> None:
    lines = reports.TO_1_5.split("\n")
    cut = lines[3].index(" (1,32,112,112)  ")
    for start in (lines[3][:cut], lines[3][: cut + 1]):
        broken = [*lines[:3], start, lines[3][cut + 1 :], *lines[4:]]
        assert parse_perf_text("\n".join(broken)) == parse_perf_text(reports.TO_1_5)


def test_row_that_stays_broken_is_kept_and_said() -> None:
    lines = reports.TO_1_5.split("\n")
    lines[1] = lines[1][:100].rstrip()
    report = parse_perf_text("\n".join(lines))
    assert [row.id for row in report.rows] == [1, 2, 3]
    assert report.rows[0].microseconds is None
    assert [(note.line, note.why) for note in report.unread] == [(2, "it ends before its time")]


def test_a_broken_row_does_not_swallow_what_follows() -> None:
    head, row = reports.TWO_CORES.rstrip("\n").split("\n")
    text = [head, row[:60], *("log of the runtime" for _ in range(5)), row]
    report = parse_perf_text("\n".join(text))
    assert [each.microseconds for each in report.rows] == [None, 23]
    assert [note.line for note in report.unread] == [2, 6, 7]
    assert report.unread[0].why.endswith("; 3 lines after it are no rest of it")


def test_columns_that_were_squeezed() -> None:
    head, row = reports.TWO_CORES.rstrip("\n").split("\n")
    squeezed = parse_perf_text(f"{head}\n{' '.join(row.split())}")
    assert squeezed == parse_perf_text(reports.TWO_CORES)


def test_what_cannot_be_read_is_said() -> None:
    text = "hello\n" + reports.TWO_CORES + "I am no row\nTotal Time(us): soon\n"
    text += reports.TWO_CORES.split("\n")[1].replace("2.41/1.50", "2.41/moon")
    report = parse_perf_text(text)
    assert [row.id for row in report.rows] == [7, 7]
    assert report.microseconds is None
    told = [(note.line, note.text) for note in report.unread]
    assert told[:3] == [(1, "hello"), (4, "I am no row"), (5, "Total Time(us): soon")]
    assert "MacUsage(%) '2.41/moon'" in report.unread[3].why


def test_last_table_counts() -> None:
    report = parse_perf_text(reports.TO_1_5 + reports.TWO_CORES)
    assert [row.id for row in report.rows] == [7]
    assert report.dialect == "generation 2, from 1.6"
    assert "3 rows of a table before" in report.unread[0].why


def test_hostile_text_is_bounded_and_shown_safely() -> None:
    text = reports.TWO_CORES.replace("Conv:conv1", "Conv:\x1b[31m\u202e" + "x" * 5000)
    (row,) = parse_perf_text(text).rows
    assert row.name.startswith("Conv:[31mxx")
    assert len(row.name) == 1000
    many = parse_perf_text("\n".join(str(number) for number in range(500)))
    assert len(many.unread) == 51
    assert many.unread[-1].why == "450 more lines could not be read"
    long = parse_perf_text("x" * (TEXT_LIMIT + 1))
    assert {note.line for note in long.unread} == {0, 1}
    assert parse_perf_text("\n" * 200_000).unread[0].why == "only the first 40000 lines were read"
