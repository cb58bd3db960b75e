"""The main job on the demo model, from the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.mark.long
def test_demo_report_and_container(rknntui: Run, tmp_path: Path) -> None:
    ran = rknntui("demo", "--json", "-o", "demo.rknn", exit=0)
    summary = ran.json
    assert summary["score"]["samples"] == 500
    assert summary["score"]["float_top1"] > 0.95
    assert summary["score"]["simulated_top1"] > summary["score"]["float_top1"] - 0.02
    assert all(layer["integer"] or layer["reason"] for layer in summary["layers"])
    assert any(layer["integer"] for layer in summary["layers"])
    assert (tmp_path / "demo.rknn").stat().st_size == summary["exported"]["bytes"]
    assert "simulation and inspection" in summary["exported"]["note"]
    assert "[1/" in ran.err

    again = rknntui("demo", "--headless", "-q", exit=0)
    assert again.err == ""
    for words in (
        "Sizes",
        "run on integer kernels",
        "SQNR",
        "Worst layers",
        "from the cache",
        "Top-1 on 500",
    ):
        assert words in again.out

    inspected = rknntui("inspect", "demo.rknn", "--json", exit=0)
    assert inspected.json["kind"] == "rknn"
    assert inspected.json["summary"]["key"] == summary["key"]

    home = Path(os.environ["HOME"])  # it was empty
    found = {path.relative_to(home) for path in home.rglob("*") if path.is_file()}
    assert [path for path in found if "rknntui" not in path.parts] == []


def test_the_files_of_a_first_try(rknntui: Run, tmp_path: Path) -> None:
    ran = rknntui("demo", "--copy", "try", exit=0)
    folder = tmp_path / "try"
    assert ran.out.split() == [str(folder / n) for n in ("model.onnx", "photos", "labelled.npz")]
    assert len(list((folder / "photos").glob("*.png"))) == 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["try"]

    rknntui("demo", "--copy", "try", exit=11, says="exists already")
    (tmp_path / "empty").mkdir()
    assert rknntui("demo", "--copy", "empty", "--json").json["files"][0] == "model.onnx"
    rknntui("demo", "--copy", "no/folder", exit=10, says="does not exist")
