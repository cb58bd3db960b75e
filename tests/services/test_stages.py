"""What jobs tell of their stages: numbers that count up to the last one, and an end of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import DatasetError
from engine.base.events import CallbackReporter, Event, Finished, StageStarted
from engine.jobs.progress import StageProgress
from engine.jobs.worker import _resolve
from engine.services.registry import TASKS
from rknntui.demo import demo_folder, demo_recipe, demo_test_samples
from rknntui.session.job_view_model import JobView
from rknntui.widgets.job_pane import stage_line, stages_shown


def told(method: str, params: dict[str, Any]) -> list[Event]:
    """The events of one job, run here."""
    events: list[Event] = []
    _resolve(TASKS[method])(params, CallbackReporter(events.append))
    return events


def numbers(events: list[Event]) -> list[tuple[int, int]]:
    """As a terminal shows them: [1/4] [2/4] ..."""
    started = [event for event in events if isinstance(event, StageStarted)]
    return [(event.index + 1, event.count) for event in started if event.count]


@pytest.fixture
def recipe() -> dict[str, Any]:
    return {**demo_recipe(), "dataset_count": 8}


@pytest.fixture
def picture(tmp_path: Path) -> str:
    path = tmp_path / "zero.npy"
    np.save(path, np.zeros((1, 1, 8, 8), dtype=np.float32))
    return str(path)


@pytest.mark.parametrize("quantized", [True, False])
def test_the_numbers_of_stages_count_up(
    recipe: dict[str, Any], tmp_path: Path, picture: str, quantized: bool
) -> None:
    recipe["do_quantization"] = quantized
    container = str(tmp_path / "m.rknn")
    asked: list[tuple[str, dict[str, Any]]] = [
        ("load", {"recipe": recipe}),
        ("build", {"recipe": recipe}),
        ("simulate", {"recipe": recipe, "inputs": [picture]}),
        ("simulate", {"recipe": recipe, "inputs": [picture], "save": str(tmp_path / "out")}),
        ("export", {"recipe": recipe, "path": container, "format": "rknn"}),
        ("export", {"recipe": recipe, "path": str(tmp_path / "m.onnx"), "format": "onnx"}),
        ("simulate", {"path": container, "inputs": [picture]}),
    ]
    if quantized:
        samples = str(demo_test_samples())
        asked += [
            ("accuracy", {"recipe": recipe, "output_impact": True}),
            ("accuracy", {"recipe": recipe, "output_dir": str(tmp_path / "snapshot")}),
            ("evaluate", {"recipe": recipe, "labels": samples}),
            ("hybrid.effect", {"recipe": recipe}),
            ("hybrid.propose", {"recipe": recipe, "samples": 2}),
            ("hybrid.search", {"recipe": recipe, "budget": 1}),
            ("hybrid.step1", {"recipe": recipe, "folder": str(tmp_path / "one")}),
            (
                "hybrid.step1",
                {"recipe": recipe, "folder": str(tmp_path / "two"), "proposal": True},
            ),
        ]
    for method, params in asked:
        counted = numbers(told(method, params))
        count = counted[-1][1] if counted else 0
        expected = [(number, count) for number in range(1, count + 1)]
        assert counted == expected, f"{method} {sorted(params)}"


def test_no_cross_stands_beside_a_stage_of_a_healthy_build(recipe: dict[str, Any]) -> None:
    """A folder is looked through before calibration, and an algorithm works in phases."""
    recipe["dataset"] = str(demo_folder() / "calibration")
    recipe["quantized_algorithm"] = "accurate"
    view = JobView("id", "build", "build", 0.0)
    seen: set[str] = set()
    for event in told("build", {"recipe": recipe}):
        view.apply(event)
        shown = stages_shown(view)
        seen |= {stage.title for stage, _ in shown}
        signs = {stage.title: stage_line(stage, view.state, "", 80)[0][0] for stage, _ in shown}
        assert "✗ " not in signs.values(), signs
    assert {"dataset", "statistics", "Quantize"} <= seen
    view.apply(Finished("done", 1.0))
    signs = {stage.title: stage_line(stage, view.state, "", 80)[0][0] for stage in all_of(view)}
    assert set(signs.values()) == {"✓ "}, signs
    assert "dataset" not in signs  # with its stage


def test_a_step_of_the_guide_has_no_number_beside_those_of_a_build(recipe: dict[str, Any]) -> None:
    """How many steps are due is known at the end only."""
    events = told("guide", {"recipe": recipe})
    assert any(isinstance(event, StageStarted) and event.stage == "guide" for event in events)
    assert numbers(events) == []


def all_of(view: JobView) -> list[StageProgress]:
    return [stage for stage, _ in stages_shown(view)]


def test_the_cross_stands_where_a_build_ended(recipe: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n, and no more")
    (tmp_path / "bad.txt").write_text("bad.png\n")
    recipe["dataset"] = str(tmp_path / "bad.txt")
    view = JobView("id", "build", "build", 0.0)
    with pytest.raises(DatasetError):
        _resolve(TASKS["build"])({"recipe": recipe}, CallbackReporter(view.apply))
    running = next(stage for stage in all_of(view) if stage.seconds is None)
    assert stage_line(running, "running", "", 80)[0][0] == "▶ "
    assert stage_line(running, "failed", "", 80)[0][0] == "✗ "
