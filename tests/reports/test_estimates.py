"""Reports are whole files that need nothing else; names of a model are text in them."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from engine import COST_REPORTS, CostReport, cost_report
from engine.wire.cost import ChipEstimate, Estimates, Interval, MemoryCost, TensorSpan
from engine.wire.cost_tables import interval_text
from engine.wire.formats import MILLISECONDS, RATE
from tests.api.test_layer_table import cost

HOSTILE = '=1+1</title><script>alert("x")</script>&\x1b[31m'


def estimates(name: str = HOSTILE) -> Estimates:
    layer = replace(
        cost(name, "ConvExSwish"), shapes_in="(1,3,8,8)", shape_out="(1,8,8,8)", total_cycles=20,
        read_bytes=300, write_bytes=500, weight_bytes=72, macs=900, time_ms=1.5, bound="compute",
    )  # fmt: skip
    memory = MemoryCost(1024, 72, 1096, (TensorSpan(name, 0, 1024, 0, 1),))
    one = ChipEstimate(
        "rk3588", 2, "int8", 1, 1, 1000.0, "fitted", time_ms=Interval(1.5, 1.2, 1.9),
        fps=Interval(666.7, 526.3, 833.3), memory=memory, npu_layers=1, layers=(layer,),
    )  # fmt: skip
    refused = ChipEstimate("rk2118", 2, "int8", 1, 1, 0.0, "structural", problem=name)
    return Estimates(name, (one, refused), 0.1)


@pytest.mark.parametrize("kind", ["chips", "layers", "tensors", "roofline"])
def test_a_picture_is_xml_without_anything_from_outside(kind: CostReport) -> None:
    text = cost_report(estimates(), ".svg", kind)
    root = ElementTree.fromstring(text)  # noqa: S314 - our own text
    names = {each.tag.rpartition("}")[2] for each in root.iter()}
    assert names <= {"svg", "title", "rect", "text", "path", "circle"}
    assert "estimated" in text
    assert "href" not in text
    assert "\x1b" not in text


def test_a_page_escapes_what_is_from_the_model() -> None:
    text = cost_report(estimates(), ".html", "chips")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "estimated" in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("kind", "rows", "column"),
    [("chips", 2, "chip"), ("layers", 1, "layer"), ("tensors", 1, "chip")],
)
def test_csv_has_a_head_and_says_estimated(kind: CostReport, rows: int, column: str) -> None:
    found = list(csv.DictReader(io.StringIO(cost_report(estimates(), ".csv", kind))))
    assert len(found) == rows
    assert all(row["label"] == "estimated" and row[column] for row in found)


def test_a_name_in_csv_is_no_formula() -> None:
    row = next(csv.DictReader(io.StringIO(cost_report(estimates(), ".csv", "layers"))))
    assert row["layer"].startswith("'=")
    assert row["total_cycles"] == "20"
    row = next(csv.DictReader(io.StringIO(cost_report(estimates("\t =1"), ".csv", "layers"))))
    assert row["layer"].startswith("'")


@pytest.mark.parametrize("form", COST_REPORTS)
def test_nothing_to_show_is_a_report_still(form: str) -> None:
    for kind in ("chips", "layers", "tensors"):
        assert cost_report(Estimates("net.onnx", (), 0.0), form, kind)


def test_an_interval_of_microseconds_has_bounds_that_differ() -> None:
    assert interval_text(Interval(1.77, 1.29, 2.43), MILLISECONDS) == "1.770 (1.290 to 2.430)"
    small = interval_text(Interval(0.0338, 0.0302, 0.0378), MILLISECONDS)
    assert small == "0.0338 (0.0302 to 0.0378)"
    assert interval_text(None, RATE) == "-"
