"""``rknntui report``: all of a build in one file, one chart, and what it says of a wrong wish."""

from __future__ import annotations

import math
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

from engine.build import BuildSummary, OutputFidelity
from engine.jobs.record import new_record
from engine.wire.cost import ChipEstimate, Estimates, Interval, LayerCost
from engine.wire.layers import layers_of
from engine.wire.model import RangeRow
from rknntui.cli.commands.build import report as command
from rknntui.cost_report.build_page import CHARTS, BuildReport, page
from rknntui.session.builds import Tried
from tests.cli.conftest import Run

HOSTILE = '</title><script>alert("x")</script>&\x1b[31m'


class Seen(HTMLParser):
    """Tags, and everything that would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href", "data")]


def report(name: str) -> BuildReport:
    counts = dict.fromkeys(("samples", "float_bytes", "container_bytes", "nodes"), 1)
    texts = dict.fromkeys(("key", "quantized_dtype", "quantized_algorithm", "next_command"), name)
    lists = dict.fromkeys(("layers", "worst", "findings", "stages"), ())
    output = OutputFidelity(None, 1.0, name=name)
    summary = BuildSummary(
        name=name, quantized=True, quantized_method=name, quantized_bytes=1, outputs=(output,),
        **counts, **texts, **lists,
    )  # fmt: skip
    layer = LayerCost(
        id=name, layers=(name,), name=name, op="Conv", dtype="int8", target="NPU", reason="",
        remedy="", shapes_in="", shape_out="", ddr_cycles=10, npu_cycles=20, total_cycles=20,
        read_bytes=300, write_bytes=500, weight_bytes=72, macs=900, time_ms=1.5, bound="compute",
    )  # fmt: skip
    chip = ChipEstimate(
        "rk3588", 2, "int8", 1, 1, 1000.0, "fitted", time_ms=Interval(1.5, 1.2, 1.9),
        layers=(layer,), peak_gops=6000.0, bandwidth_gbs=20.0,
    )  # fmt: skip
    ranges = (RangeRow(name, "int8", 8, 0.1, 0.4, None, None, None, None, None),)
    rows = layers_of("estimated", (layer,))
    found, recipe = Estimates(name, (chip,), 0.1), {"dataset": name, "target_platform": name}
    points = [Tried(name, {}, db, name) for db in (math.inf, 20.0)]
    front = tuple(zip((2.0, 1.0), points, strict=True))
    return BuildReport(summary, recipe, rows, found, ranges, front=front)


def test_hostile_names_stay_text_and_nothing_is_loaded() -> None:
    seen = Seen()
    text = page(report(HOSTILE))
    seen.feed(text)
    assert seen.tags.count("script") == 1, "our own"
    assert seen.loaded == []
    assert "\x1b" not in text
    bare = replace(report(HOSTILE), layers=(), estimates=None, ranges=(), front=())
    for draw, known in product(CHARTS.values(), (report(HOSTILE), bare)):
        root = ElementTree.fromstring(draw(known))  # noqa: S314 - our own text
        names = {each.tag.rpartition("}")[2] for each in root.iter()}
        assert names <= {"svg", "title", "rect", "text", "path", "circle"}


def test_a_report_has_all_of_a_build_and_a_job_names_it(
    warm: Run, demo: Path, tmp_path: Path
) -> None:
    flags = ("--dataset", demo / "dataset.txt", "--target-platform", "rk3588")
    out = tmp_path / "all.html"
    warm("report", demo / "digits_demo.onnx", *flags, "-o", out, exit=0)
    text = out.read_text("utf-8")
    for said in ("Outputs", "SQNR along", "time along", "roofline", "internal memory", "Versions"):
        assert said in text, said
    for head in ("SQNR dB", "isol. dB", "est. ms", "runs in"):
        assert f">{head}</th>" in text, head
    assert "no run of this build with layers" in text
    record = new_record()
    recipe = {"model": str(demo / "digits_demo.onnx"), "dataset": str(demo / "dataset.txt")}
    record.start("build", "digits", {"recipe": recipe})
    record.end("done", {})
    svg = tmp_path / "front.svg"
    warm("report", demo / "digits_demo.onnx", *flags, "--chart", "front", "-o", svg, exit=0)
    assert "this build: " in svg.read_text("utf-8")
    assert "(simulated), ms on rk3588 (estimated)" in svg.read_text("utf-8")
    svg = tmp_path / "error.svg"
    done = warm("report", record.id, "--chart", "error", "-o", svg, "--json", exit=0)
    assert done.json["bytes"] == svg.stat().st_size
    assert "cumulative" in svg.read_text("utf-8")


def test_the_command_takes_every_chart() -> None:
    chart = next(each for each in command.params if each.name == "chart")
    assert set(chart.type.choices) == CHARTS.keys()


def test_a_chart_is_svg_and_a_report_html(warm: Run, demo: Path, tmp_path: Path) -> None:
    model = demo / "digits_demo.onnx"
    for wrong in (("-o", "x.svg"), ("--chart", "time", "-o", "x.html")):
        done = warm("report", model, *wrong, exit=2)
        assert "--chart error" in done.err
    (tmp_path / "x.html").write_text("mine")
    assert "exists" in warm("report", model, "-o", tmp_path / "x.html", exit=11).err
