"""A section of a newer version is told, and the rest is read."""

from __future__ import annotations

from pathlib import Path

from engine.base.events import CallbackReporter, Event, LogLine
from engine.container import read_container, write_container
from engine.container.blob import pack, unpack
from engine.container.write import SECTIONS
from engine.pipeline.build import build
from engine.services.build import simulate
from engine.services.model import open as open_model
from engine.services.state import get_pipeline, recipe_of
from rknntui.demo import demo_folder, demo_recipe
from tests.container.build import content


def test_what_is_written_is_known() -> None:
    found = read_container(write_container(content()))
    assert {name for name, _ in found.sections} <= SECTIONS
    assert found.unknown_sections == ()


def test_a_section_that_is_not_known_is_told_by_looking_and_by_running(tmp_path: Path) -> None:
    told: list[Event] = []
    reporter = CallbackReporter(told.append)
    frame = unpack(build(get_pipeline(recipe_of(demo_recipe()), reporter)).container, "x")
    path = tmp_path / "newer.rknn"
    path.write_bytes(pack({**frame.sections, "of_later": b"x"}, bytes(frame.layers)))
    view = open_model({"path": str(path)})
    (finding,) = view["findings"]
    assert finding["code"] == "container-section-unknown"
    assert "of_later" in finding["what"]
    assert finding["remedy"]
    picture = next((demo_folder() / "calibration").glob("*.png"))
    told.clear()
    result = simulate({"path": str(path), "inputs": [str(picture)]}, reporter)
    assert result["outputs"]
    assert any(isinstance(e, LogLine) and "of_later" in e.text for e in told)


def test_a_summary_that_cannot_be_read_is_told_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "strange.rknn"
    path.write_bytes(write_container(content(summary={"outputs": 3})))
    view = open_model({"path": str(path)})
    assert view["summary"] is None
    assert [finding["code"] for finding in view["findings"]] == ["container-summary-unread"]
    path.write_bytes(write_container(content(summary=None)))
    assert open_model({"path": str(path)})["findings"] == []
