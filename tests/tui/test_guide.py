"""The accuracy guide, remedies at one key, and builds beside each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine import Finding
from engine.wire.guide import Answer, NextStep, Step, StepFinding
from engine.wire.sweep import SweepParams
from rknntui.app import Workbench
from rknntui.screens.layers.guide import step_lines
from rknntui.screens.layers.workspace import Layers
from tests.tui.conftest import screen_text, until, workbench
from tests.tui.flow import read_form

SIZE = (80, 24)
STEP = Step(
    id="B3.1",
    stage="B Quantized",
    title="Weights per channel",
    source="RKNN-T2",
    did="Built with one scale per channel.",
    found=(StepFinding("logits", "31.2 dB to 33.9 dB", "warning"),),
    verdict="fail",
    advice="Take one scale per channel.",
    changes={"quantized_method": "layer", "bias_correction": False},
)


def test_a_step_tells_what_it_found_in_words_beside_the_signs() -> None:
    text = ["".join(t for t, _ in line) for line in step_lines(STEP, 60)]
    assert "! logits  31.2 dB to 33.9 dB" in text
    assert "✗ fail" in text
    assert "a sets quantized_method = layer; bias_correction = no" in text
    neutral = step_lines(replace(STEP, verdict="told", changes={}), 60)
    assert "· note" in ["".join(t for t, _ in line) for line in neutral]


async def test_one_key_applies_what_a_step_advises_and_one_takes_it_back() -> None:
    async with workbench() as (app, pilot):
        await pilot.press("3", "D", sees="r runs the first step")
        workspace = app.workspace
        workspace.guide.take(Answer(STEP, NextStep("B3.2", "Ranges", "x"), 2))
        await pilot.sees("✗ fail", "r next: Ranges: x")
        await pilot.press("a")
        assert app.session.recipe == STEP.changes
        await pilot.press("u")
        assert app.session.recipe == {}
        workspace.guide.take(Answer(None, None, 2))
        assert workspace.guide.over
        assert len(workspace.guide.steps) == 1


async def test_of_several_remedies_one_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = ({"quantized_method": "layer"}, {}, {"quantized_dtype": "w8a16"})
    found = [
        Finding("x", "warning", "x", what, remedy="Do it.", changes=change)
        for what, change in zip(("First.", "Second.", "Third."), changes, strict=True)
    ]
    async with workbench() as (app, pilot):
        await pilot.press("3", "D", rests=True)
        assert app.workspace.disabled_reason("apply")
        monkeypatch.setattr(app.workspace, "listed_findings", lambda: found)
        await pilot.press("a", until=lambda: type(app.screen).__name__ == "RemedyDialog")
        assert "Second." not in screen_text(app), "it has no remedy"
        await pilot.press("down", sees="Sets quantized_dtype = w8a16")
        await pilot.press("enter", until=lambda: app.session.recipe)
        assert app.session.recipe == {"quantized_dtype": "w8a16"}


def test_axes_are_options_with_values_of_theirs() -> None:
    texts = {"axes": "quantized_algorithm=normal,mmse bias_correction=yes,no"}
    axes = read_form(SweepParams({}), texts).axes
    assert axes == {"quantized_algorithm": ("normal", "mmse"), "bias_correction": (True, False)}
    for wrong in ("quantised=1", "quantized_algorithm=best", "quantized_algorithm="):
        with pytest.raises(ValueError, match=r"option|one of"):
            read_form(SweepParams({}), {"axes": wrong})


async def built(pilot) -> Workbench:
    app = pilot.app
    await until(pilot, lambda: app.session.model is not None, "a model is open")
    await pilot.press("f9", "b", until=lambda: app.session.summary is not None)
    return app


@pytest.mark.long
@pytest.mark.usefixtures("warm")
async def test_the_guide_runs_to_its_end(digits: Path) -> None:
    async with workbench(digits) as (app, pilot):
        await built(pilot)
        await pilot.press("3", "D")
        workspace = app.workspace
        assert isinstance(workspace, Layers)
        for count in range(1, 18):
            if workspace.guide.over:
                break
            await pilot.press("r")
            await until(
                pilot,
                lambda count=count: len(workspace.guide.steps) >= count or workspace.guide.over,
                f"step {count}",
            )
        assert workspace.guide.over
        assert workspace.guide.done[:2] == ("A1", "B1")
        assert "✓ pass" in workspace.guide.text() or "· note" in workspace.guide.text()
