"""The parser of the compiler's report: its tables, and text that is no report."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.cost.printed import MAX_LINE, MAX_NOTICES, Printed, PrintedLayer, parse_printed

STAMP = "D RKNN: [23:55:44.214] "
REPORT = [
    "W RKNN: [23:53:43.680] AveragePool count_include_pad=0, fallback to cpu",
    STAMP + "                Network Layer Information Table                   ",
    STAMP + "-" * 60,
    STAMP
    + "ID   OpType  DataType Target InputShape OutputShape Cycles(DDR/NPU/Total) RW(KB) FullName",
    STAMP
    + "0    InputOperator INT8 NPU    \\      (1,3,24,24)   0/0/0     0      InputOperator:x  ",
    STAMP
    + "1    ConvAdd       INT8 NPU    (1,3,24,24),(32,3,3,3),(32),... (1,32,24,24)  1058/5184/5184 "
    "  6  Conv:a name with spaces",
    STAMP + "2    Conv  INT8 NPU (1,32,24,24),(8,32,1,1) (1,8,24,24) 5/7/7 0% 19 Conv:sparse",
    STAMP
    + "3    OutputOperator INT8 CPU    (1,32,24,24)   \\    0/0/0      18     OutputOperator:y",
    STAMP + "        Feature Tensor Information Table         ",
    STAMP
    + "6   Conv   stem o   INT8   NC1HWC2   (1,32,24,24)  (1,2,24,24,16) | 0x00000900*0x00005100"
    " 0x00004800",
    STAMP + "          Const Tensor Information Table      ",
    STAMP + "2   Conv   c3   INT8   (32,32,1,1)  | 0x00001300 0x00001700 0x00000400",
    STAMP + "Total Internal Memory Size: 4198.12KB",
    STAMP + "Total Weight Memory Size: 50.3125KB",
]


def test_a_report() -> None:
    found = parse_printed("\n".join(REPORT))
    assert [layer.target for layer in found.layers] == ["NPU", "NPU", "NPU", "CPU"]
    assert found.layers[1] == PrintedLayer(
        id=1,
        op="ConvAdd",
        dtype="INT8",
        target="NPU",
        shapes=((1, 3, 24, 24), (32, 3, 3, 3), (32,), None),
        out=(1, 32, 24, 24),
        ddr_cycles=1058,
        npu_cycles=5184,
        total_cycles=5184,
        read_kb=6,
        name="Conv:a name with spaces",
    )
    assert (found.layers[2].read_kb, found.layers[2].name) == (19, "Conv:sparse")
    assert found.layers[0].shapes == ()
    (feature,), (const,) = found.features, found.consts
    assert (feature.name, feature.layout, feature.native) == (
        "stem o",
        "NC1HWC2",
        (1, 2, 24, 24, 16),
    )
    assert (feature.start, feature.end, const.end - const.start) == (0x900, 0x5100, 0x400)
    assert (found.internal_bytes, found.weight_bytes) == (4298875, 51520)
    assert found.notices == ["AveragePool count_include_pad=0, fallback to cpu"]


def test_a_row_whose_name_is_blank() -> None:
    """As rk2118 has them for the sums of halves; one that is cut before its name is no row."""
    row = STAMP + "17   Add   FLOAT16  NPU    (1,16,4,4),(1,16,4,4)  (1,16,4,4)   0/0/0      1"
    (layer,) = parse_printed([*REPORT[1:4], f"{row}{' ' * 28}\n"]).layers
    assert (layer.op, layer.read_kb, layer.name) == ("Add", 1, "")
    assert not parse_printed([*REPORT[1:4], row]).layers


def test_the_last_of_several_builds_counts() -> None:
    again = [line.replace("sparse", "second") for line in REPORT]
    found = parse_printed([*REPORT, *again])
    assert [layer.name for layer in found.layers][2] == "Conv:second"
    assert len(found.layers) == 4
    assert len(found.features) == 1


def test_a_long_line_is_passed_over() -> None:
    longer = REPORT[5] + "x" * MAX_LINE
    assert len(parse_printed([*REPORT[:5], longer, *REPORT[6:]]).layers) == 3


def test_so_many_warnings_are_kept() -> None:
    lines = [f"W RKNN: [10:00:00.000] number {at}" for at in range(MAX_NOTICES + 5)]
    assert MAX_NOTICES == 1000
    assert parse_printed(lines).notices == [f"number {at}" for at in range(MAX_NOTICES)]


@given(st.lists(st.one_of(st.sampled_from(REPORT), st.text(max_size=80)), max_size=40))
def test_any_mixture_of_lines_gives_rows_that_were_printed(lines: list[str]) -> None:
    whole = parse_printed(REPORT)
    found = parse_printed(lines)
    assert {layer.name for layer in found.layers} <= {layer.name for layer in whole.layers} | {
        layer.name for line in lines for layer in found.layers if line.strip().endswith(layer.name)
    }
    assert len(found.layers) + len(found.features) + len(found.consts) <= len(lines)
    assert isinstance(found, Printed)


@given(st.integers(0, len(REPORT) - 1), st.data())
def test_a_report_cut_anywhere(at: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(REPORT[at])))
    found = parse_printed([*REPORT[:at], REPORT[at][:cut]])
    assert len(found.layers) <= 4
    for layer in found.layers:
        assert layer.total_cycles >= 0
