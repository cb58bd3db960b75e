"""``rknntui report``: all of a build in one file, one chart, and what it says of a wrong wish."""

from __future__ import annotations

from pathlib import Path

from engine.jobs.record import new_record
from engine.reports.build_report import CHARTS
from rknntui.cli.commands.report import command
from tests.cli.conftest import Run


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
    file, page = tmp_path / "digits.rknn", tmp_path / "container.html"
    warm("export", demo / "digits_demo.onnx", *flags, "-o", file, exit=0)
    said = warm("report", file, "-o", page, "--json", exit=0).json["absent"]
    assert any(why.startswith("error of each layer: ") for why in said)
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
        warm("report", model, *wrong, exit=2, says="--chart error")
    (tmp_path / "x.html").write_text("mine")
    warm("report", model, "-o", tmp_path / "x.html", exit=11, says="exists")
