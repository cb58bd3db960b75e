"""What earlier jobs found is on the screen again after a restart; what they were called."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from engine import Worker, job_record
from rknntui.demo import demo_recipe, demo_test_samples
from rknntui.session.job_view_model import JobView
from rknntui.session.open_flow import _is_of
from rknntui.workspaces import keys_of
from tests.tui.conftest import all_ask, residual_model, settle, until, workbench

SIZE = (110, 34)


@pytest_asyncio.fixture(loop_scope="session")
async def worker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Worker]:
    """A worker of this test, whose history no other test fills."""
    worker = await Worker.start()
    all_ask(worker, monkeypatch)
    yield worker
    await worker.close()


@pytest.fixture
def recipe() -> dict[str, Any]:
    return {**demo_recipe(), "dataset_count": 8}


async def ran(worker: Worker, method: str, params: dict[str, Any]) -> None:
    """Run a job as the command line does."""
    job = await worker.submit(method, params)
    await job.result()


async def test_what_was_compiled_for_a_chip_is_found_whatever_the_target_is_now() -> None:
    params = {"recipe": {"model": "/a.onnx", "target_platform": "rk3588"}, "chips": ["rk3588"]}
    assert not _is_of(params, {"model": "/a.onnx"})
    assert _is_of(params, {"model": "/a.onnx"}, ("target_platform",))
    assert not _is_of(params, {"model": "/b.onnx"}, ("target_platform",))


@pytest.mark.long
async def test_a_restart_shows_the_log_the_scores_and_the_comparison(
    recipe: dict[str, Any], worker: Worker
) -> None:
    axes = {"quantized_algorithm": ["normal", "kl_divergence"]}
    await ran(worker, "build", {"recipe": recipe})
    await ran(worker, "evaluate", {"recipe": recipe, "labels": str(demo_test_samples())})
    await ran(worker, "accuracy", {"recipe": recipe})
    await ran(worker, "sweep", {"recipe": recipe, "axes": axes, "workers": 1})
    async with workbench(recipe=recipe, size=SIZE, kept=True) as (app, pilot):
        await until(pilot, lambda: "sweep" in app.session.last, "the history was read")
        await pilot.press(keys_of("builds")[0], sees=("first build", "top-1 0."))
        await pilot.press("d", sees="Compare simulated with float")
        await pilot.press("v", sees="kl_divergence")
        await pilot.press("3", sees="isol. dB")


@pytest.mark.long
async def test_what_is_found_is_of_the_open_recipe_alone(
    recipe: dict[str, Any], worker: Worker, tmp_path: Path
) -> None:
    other = residual_model(2, tmp_path / "other.onnx")
    await ran(worker, "build", {"recipe": recipe})
    await ran(worker, "evaluate", {"recipe": recipe, "labels": str(demo_test_samples())})
    async with workbench(
        recipe={**recipe, "quantized_algorithm": "kl_divergence"}, size=SIZE, kept=True
    ) as (app, pilot):
        await until(pilot, lambda: app.session.model is not None, "a model is open")
        await settle(pilot)
        assert app.session.last == {}
    async with workbench(recipe=recipe, size=SIZE, kept=True) as (app, pilot):
        await until(pilot, lambda: {"build", "evaluate"} == set(app.session.last), "both")
        app.open_path(str(other))
        await until(pilot, lambda: app.session.path == str(other), "another model")
        await settle(pilot)
        assert app.session.last == {}


@pytest.mark.long
async def test_a_damaged_result_is_passed_over(recipe: dict[str, Any], worker: Worker) -> None:
    job = await worker.submit("accuracy", {"recipe": recipe})
    await job.result()
    result = Path(job_record(job.id).folder) / "result.json"
    whole = result.read_text()
    await ran(worker, "build", {"recipe": recipe})

    async def look(text: str) -> None:
        async with workbench(recipe=recipe, size=SIZE, kept=True) as (app, pilot):
            await until(pilot, lambda: "build" in app.session.last, "the build was found")
            await pilot.press("3", sees=text)

    for damaged in ({}, {"layers": 3}, {"layers": [{}]}, {"layers": [3]}):
        result.write_text(json.dumps(damaged))
        await look("r measures isolated errors")
    result.write_text(whole)
    await look("of the error is introduced here")


@pytest.mark.long
async def test_a_layer_is_found_by_any_of_its_names(recipe: dict[str, Any], worker: Worker) -> None:
    await ran(worker, "build", {"recipe": recipe})
    async with workbench(recipe=recipe, size=SIZE, kept=True) as (app, pilot):
        await until(pilot, lambda: "build" in app.session.last, "the build was found")
        await pilot.press("3")
        layers = app.workspace
        await until(pilot, lambda: layers.table.total == 14, "its layers")
        worst = app.session.summary.worst[0]  # as the summary shows it
        assert worst.layer in {row["id"] for row in layers.table.records}
        # a fused Relu, and a layer of the source model that no node is called after
        fused = next(row for row in layers.table.records if len(row["aliases"]) > 4)
        for alias in fused["aliases"]:
            layers.table.set_filter(alias)
            assert fused["tensor"] in {row["tensor"] for row in layers.table.records}, alias
            layers.table.set_filter("")
        # a recipe that names the layer otherwise
        app.session.set_values({"quantized_layers": {fused["aliases"][-1]: "float16"}})
        await settle(pilot)
        row = next(r for r in layers.table.records if r["tensor"] == fused["tensor"])
        assert row["wanted"] == "● float16"
        layers.table.select_record("tensor", fused["tensor"])
        await pilot.press("space")
        assert "quantized_layers" not in app.session.recipe


async def test_a_job_whose_worker_is_killed_tells_how_long_it_ran(recipe: dict[str, Any]) -> None:
    worker = await Worker.start()
    await worker.call("ping", {})  # it is up
    asked = {**recipe, "quantized_algorithm": "mmse"}
    job = await worker.submit("build", {"recipe": asked, "refresh": True})
    view = JobView(job.id, "build", "build", 0.0)
    async for event in job.events():
        if not view.stages:
            await asyncio.sleep(0.2)
            os.kill(job._process.pid, signal.SIGKILL)
        view.apply(event)
    await worker.close()
    assert view.state == "failed"
    assert view.seconds >= 0.2
    assert view.took.startswith(" after ")
    assert job_record(job.id).state == "lost"
