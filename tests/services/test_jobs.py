"""Jobs of the real worker on a small net, end to end."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import pytest_asyncio

from engine.api import RKNN
from engine.base.cache import StageCache
from engine.base.errors import (
    ContainerError,
    DatasetError,
    EngineError,
    OutputError,
    OutputExistsError,
    RecipeError,
    SourceModelError,
    UsageError,
    WorkerError,
)
from engine.base.events import (
    ArtifactWritten,
    CallbackReporter,
    Event,
    Finished,
    StageFinished,
    StageStarted,
)
from engine.base.process import ProcessId, child_environment
from engine.jobs import history
from engine.jobs.client import Worker, run_job
from engine.pipeline.build import BuildResult, build
from engine.pipeline.pipeline import Pipeline, reported_stages
from engine.pipeline.stages import STAGES
from engine.recipe import Recipe
from tests.graph.models import finish, nodes_of, tensor
from tests.pipeline.nets import project, small_net

BUILD_STAGES = reported_stages(STAGES)

in_module = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("place"))


@pytest.fixture
def recipe(place: Path) -> dict[str, Any]:
    return {
        "model": str(place / "small.onnx"),
        "dataset": str(place / "dataset.txt"),
        "mean_values": [[128, 128, 128]],
        "std_values": [[128, 128, 128]],
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Worker]:
    """One warm worker for the tests that do not break it, with folders of its own."""
    home = tmp_path_factory.mktemp("worker")
    folders = {"XDG_STATE_HOME": str(home / "state"), "XDG_CACHE_HOME": str(home / "cache")}
    started = await Worker.start({**os.environ, **folders})
    yield started
    await started.close()


def made(recipe: dict[str, Any], **how: Any) -> BuildResult:
    """A build of this process."""
    return build(Pipeline(Recipe.from_values(recipe), STAGES, **how))


async def finished(
    worker: Worker, method: str, **params: Any
) -> tuple[dict[str, Any], list[Event]]:
    job = await worker.submit(method, params)
    events = [event async for event in job.events()]
    return await job.result(), events


def stages(events: list[Event]) -> dict[str, bool]:
    """Stage -> whether it came from the cache."""
    return {e.stage: e.cached for e in events if isinstance(e, StageFinished)}


@in_module
async def test_from_model_to_container_and_back(
    worker: Worker, recipe: dict[str, Any], place: Path, tmp_path: Path
) -> None:
    opened = await worker.call("open", {"path": recipe["model"]})
    assert (opened["nodes"], opened["inputs"][0]["shape"]) == (7, [1, 3, 16, 16])

    summary, events = await finished(worker, "build", recipe=recipe)
    assert [s for s, cached in stages(events).items() if cached] == ["load"]  # opened before
    started = [e for e in events if isinstance(e, StageStarted)]
    assert [(e.index, e.count) for e in started] == [(i, 6) for i in range(6)]
    assert summary["samples"] == 4
    assert all(layer["integer"] for layer in summary["layers"])
    assert summary["outputs"][0]["sqnr_db"] > 20
    assert len(summary["worst"]) == 3
    assert summary["next_command"].startswith("rknntui export ")

    optimised = await worker.call("graph", {"recipe": recipe, "which": "optimised"})
    quantized = await worker.call("graph", {"recipe": recipe, "which": "quantized"})
    assert len(quantized["nodes"]) > len(optimised["nodes"])
    worst = summary["worst"][0]
    layer = await worker.call("layer", {"recipe": recipe, "tensor": worst["tensor"], "bins": 16})
    assert sum(layer["golden"]) == sum(layer["simulated"]) > 0
    assert layer["quant"]["dtype"] == "int8"
    assert layer["low"] <= layer["range"][0] <= layer["range"][1] <= layer["high"]
    assert layer["sqnr_db"] == pytest.approx(worst["sqnr_db"], abs=1e-3)

    path = tmp_path / "small.rknn"
    exported, events = await finished(worker, "export", recipe=recipe, path=str(path))
    assert set(stages(events).values()) == {True}
    assert ArtifactWritten(str(path), "rknn", exported["bytes"]) in events
    assert exported["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert exported["bytes"] == summary["container_bytes"]
    assert "runs on no NPU" in exported["note"]

    view = await worker.call("open", {"path": str(path)})
    assert view["kind"] == "rknn"
    assert view["recipe"]["mean_values"] == [[128.0, 128.0, 128.0]]
    assert view["summary"]["outputs"] == summary["outputs"]
    same = await worker.call("graph", {"path": str(path), "which": "quantized"})
    assert [n[:3] for n in same["nodes"]] == [n[:3] for n in quantized["nodes"]]

    picture_path = str(place / "0.png")
    one, _ = await finished(worker, "simulate", recipe=recipe, inputs=[picture_path], top=3)
    two, _ = await finished(
        worker, "simulate", path=str(path), inputs=[picture_path], save=str(tmp_path / "out")
    )
    assert one["outputs"][0]["label"] == "simulated"
    assert len(one["outputs"][0]["top"]) == 3
    assert one["outputs"][0]["top"] == two["outputs"][0]["top"][:3]
    saved = np.load(two["saved"][0], allow_pickle=False)
    assert saved.shape == (1, 10)
    assert one["outputs"][0]["maximum"] == pytest.approx(float(saved.max()))


@in_module
async def test_accuracy_and_vendor_onnx(
    worker: Worker, recipe: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "snapshot"
    result, events = await finished(worker, "accuracy", recipe=recipe, output_dir=str(folder))
    names = {layer["name"] for layer in result["layers"]}
    assert {"image", "fc"} <= names
    assert (folder / "error_analysis.txt").read_text().count("[") == len(result["layers"])
    assert isinstance(events[-1], Finished)
    with pytest.raises(OutputExistsError):
        await finished(worker, "accuracy", recipe=recipe, output_dir=str(folder))

    path = tmp_path / "small.onnx"
    exported, _ = await finished(worker, "export", recipe=recipe, path=str(path), format="onnx")
    model = onnx.load(path)
    assert (model.opset_import[0].version, model.ir_version) == (19, 8)
    assert any(node.op_type == "DequantizeLinear" for node in model.graph.node)
    assert "do_quantization=False" in exported["note"]
    with pytest.raises(OutputExistsError):
        await finished(worker, "export", recipe=recipe, path=str(path), format="onnx")
    await finished(worker, "export", recipe=recipe, path=str(path), format="onnx", force=True)


@in_module
async def test_only_what_depends_on_a_change_runs_again(
    worker: Worker, recipe: dict[str, Any], tmp_path: Path
) -> None:
    await finished(worker, "build", recipe=recipe)
    _, events = await finished(worker, "build", recipe=recipe)
    assert set(stages(events).values()) == {True}
    _, events = await finished(worker, "build", recipe={**recipe, "quantized_method": "layer"})
    assert [s for s, cached in stages(events).items() if cached] == [
        "load",
        "optimise",
        "calibrate",
    ]
    _, events = await finished(worker, "build", recipe={**recipe, "custom_string": "mine"})
    assert [s for s, cached in stages(events).items() if not cached] == ["container"]
    _, events = await finished(worker, "build", recipe={**recipe, "std_values": [[1, 1, 1]]})
    assert [s for s, cached in stages(events).items() if cached] == ["load", "optimise"]
    _, events = await finished(worker, "build", recipe=recipe, refresh=True)
    assert set(stages(events).values()) == {False}
    # another worker finds it on disk
    other = await Worker.start(worker._environment)
    _, events = await finished(other, "build", recipe=recipe)
    assert set(stages(events).values()) == {True}
    await other.close()


@in_module
async def test_a_float_build(worker: Worker, recipe: dict[str, Any], tmp_path: Path) -> None:
    plain = {**recipe, "do_quantization": False}
    del plain["dataset"]
    summary, events = await finished(worker, "build", recipe=plain)
    assert list(stages(events)) == list(reported_stages(STAGES, quantized=False))
    assert (summary["quantized"], summary["quantized_bytes"], summary["outputs"]) == (
        False,
        None,
        [],
    )
    assert [f["code"] for f in summary["findings"]] == ["simulated-in-float32"]
    path = tmp_path / "float.rknn"
    await finished(worker, "export", recipe=plain, path=str(path))
    view = await worker.call("open", {"path": str(path)})
    assert view["summary"]["quantized"] is False
    with pytest.raises(UsageError):
        await worker.call("graph", {"path": str(path), "which": "quantized"})
    with pytest.raises(UsageError):
        await finished(worker, "accuracy", recipe=plain)


@in_module
async def test_bad_input_is_told_and_the_worker_stays(
    worker: Worker, recipe: dict[str, Any], place: Path, tmp_path: Path
) -> None:
    (tmp_path / "text.onnx").write_text("hello")
    (tmp_path / "cut.onnx").write_bytes((place / "small.onnx").read_bytes()[:2000])
    (tmp_path / "missing.txt").write_text("0.png\nnone.png\n")
    (tmp_path / "0.png").write_bytes((place / "0.png").read_bytes())
    (tmp_path / "two.txt").write_text("0.png 0.png\n")
    np.save(tmp_path / "wrong.npy", np.zeros((1, 3, 5, 5), np.float32))
    (tmp_path / "shape.txt").write_text("wrong.npy\n")
    (tmp_path / "corrupt.rknn").write_bytes(b"RKNN" + bytes(100))

    def changed(**values: Any) -> dict[str, Any]:
        return {"recipe": {**recipe, **{k: str(v) for k, v in values.items()}}}

    good = {"recipe": recipe}
    cases: list[tuple[str, dict[str, Any], type[EngineError], str]] = [
        ("build", changed(model="/none.onnx"), SourceModelError, "does not exist"),
        ("build", changed(model=tmp_path / "text.onnx"), SourceModelError, ""),
        ("build", changed(model=tmp_path / "cut.onnx"), SourceModelError, ""),
        ("build", changed(dataset="/none.txt"), DatasetError, "none.txt"),
        ("build", changed(dataset=tmp_path / "missing.txt"), DatasetError, "line 2"),
        ("build", changed(dataset=tmp_path / "two.txt"), DatasetError, "line 1"),
        ("build", changed(dataset=tmp_path / "shape.txt"), DatasetError, "1x3x5x5"),
        ("build", changed(optimisation_level=3), RecipeError, "optimization_level"),
        ("build", {"recipe": {"model": recipe["model"]}}, RecipeError, "dataset"),
        ("build", {}, UsageError, "recipe"),
        ("simulate", {"path": str(tmp_path / "corrupt.rknn"), "inputs": ["x"]}, ContainerError, ""),
        ("simulate", {**good, "inputs": []}, DatasetError, "0 files"),
        ("export", {**good, "path": "/proc/x.rknn"}, OutputError, "/proc/x.rknn"),
        ("export", {**good, "path": str(tmp_path / "no" / "x.rknn")}, OutputError, "no"),
        ("export", {**good, "path": "x", "format": "keras"}, UsageError, "keras"),
    ]
    for method, params, kind, text in cases:
        with pytest.raises(kind) as caught:
            await finished(worker, method, **params)
        assert text in f"{caught.value.what} {caught.value.remedy}", params
        assert "Traceback" not in str(caught.value)
    pid = worker.pid
    assert (await worker.call("ping"))["pid"] == pid
    assert not list(tmp_path.glob("**/*.part")), "half-written files"


@in_module
async def test_a_model_that_cannot_be_built_is_shown(worker: Worker, tmp_path: Path) -> None:
    model = small_net()
    model.graph.node[1].op_type, model.graph.node[1].domain = "Strange", "my.own"
    model.opset_import.append(onnx.helper.make_opsetid("my.own", 1))
    strange, wrong = str(tmp_path / "strange.onnx"), str(tmp_path / "wrong.onnx")
    onnx.save(model, strange)
    model = small_net()
    model.graph.node[0].input[1] = "w2"
    onnx.save(model, wrong)
    for path, text in ((strange, "my.own:Strange"), (wrong, "channels")):
        view = await worker.call("open", {"path": path})
        first = view["findings"][0]
        assert first["severity"] == "error"
        assert text in first["what"] + first["where"]
        graph = await worker.call("graph", {"path": path, "which": "source"})
        assert len(graph["nodes"]) == view["nodes"] == 7
        detail = await worker.call("node", {"path": path, "name": "conv2"})
        assert [value["name"] for value in detail["inputs"]] == ["r1", "w2", "b2"]
        found = await worker.call("tensor", {"recipe": {"model": path}, "name": "w2", "bins": 8})
        assert found["count"] == 16 * 8 * 9
        with pytest.raises(EngineError):
            await finished(worker, "build", recipe={"model": path, "do_quantization": False})
        with pytest.raises(EngineError):
            await worker.call("graph", {"path": path, "which": "optimised"})


@in_module
async def test_sizes_that_only_loading_finds_are_shown(worker: Worker, tmp_path: Path) -> None:
    """A Shape and a Div between a tensor and its Reshape: ONNX's inference stops there."""
    nodes = nodes_of(
        "[shape] size = Shape (x); [div] half = Div (size, two); "
        "[concat] wanted = Concat <axis=0> (half, rest); [reshape] r = Reshape (x, wanted); "
        "[relu] y = Relu (r)"
    )
    end = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    constants = {name: np.array([2], np.int64) for name in ("two", "rest")}
    path = str(tmp_path / "sizes.onnx")
    onnx.save(finish(nodes, [tensor("x", 4)], [end], constants), path)
    await worker.call("open", {"path": path})
    view = await worker.call("graph", {"path": path, "which": "source"})
    assert [row[3] for row in view["nodes"][-2:]] == ["2x2", "2x2"]
    detail = await worker.call("node", {"path": path, "name": "relu"})
    assert [value["shape"] for value in (*detail["inputs"], *detail["outputs"])] == [[2, 2]] * 2


@in_module
async def test_a_cut_model_is_loaded_to_be_shown(worker: Worker, recipe: dict[str, Any]) -> None:
    cut = {"path": recipe["model"], "outputs": ["p"]}
    assert (await worker.call("open", cut))["nodes"] == 5
    graph = await worker.call("graph", {**cut, "which": "source"})
    assert [output["name"] for output in graph["outputs"]] == ["p"]
    detail = await worker.call("node", {"recipe": {**recipe, "outputs": ["p"]}, "name": "pool"})
    assert detail["outputs"][0]["shape"] == [1, 16, 1, 1]


# -- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stage",
    [
        "calibrate",
        *(pytest.param(s, marks=pytest.mark.long) for s in BUILD_STAGES if s != "calibrate"),
    ],
)
@in_module
async def test_a_worker_killed_at_a_stage_leaves_nothing_half_done(
    recipe: dict[str, Any], tmp_path: Path, stage: str
) -> None:
    worker = await Worker.start()
    path = tmp_path / "small.rknn"
    path.write_bytes(b"the last good one")
    job = await worker.submit("export", {"recipe": recipe, "path": str(path), "force": True})
    async for event in job.events():
        if isinstance(event, StageStarted) and event.stage == stage and worker.pid:
            ProcessId.of(worker.pid).send(signal.SIGKILL)
    lost = history.job_record(job.id).state == "lost"
    if lost:
        with pytest.raises(WorkerError, match="SIGKILL"):
            await job.result()
        assert path.read_bytes() == b"the last good one"
    assert lost or stage == "container", "only the last stage can end before the signal arrives"
    result, _ = await finished(worker, "export", recipe=recipe, path=str(path), force=True)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == result["sha256"]
    assert [p.name for p in tmp_path.iterdir()] == ["small.rknn"]
    fresh = made(recipe)
    assert path.read_bytes() == fresh.container
    await worker.close()


TWIN = """
import json, sys
from engine import EngineError, run_job
from engine.base.events import Progress
def tell(event):
    if isinstance(event, Progress):
        print("working", flush=True)
try:
    run_job("build", {"recipe": json.loads(sys.argv[1])}, tell)
except EngineError as error:
    print("ended", error.kind, flush=True)
"""


def test_ctrl_c_cancels_the_blocking_twin(
    recipe: dict[str, Any], place: Path, tmp_path: Path
) -> None:
    (tmp_path / "long.txt").write_text(f"{place}/0.png\n" * 20_000)
    slow = json.dumps({**recipe, "dataset": str(tmp_path / "long.txt")})
    with subprocess.Popen(
        [sys.executable, "-P", "-c", TWIN, slow],
        stdout=subprocess.PIPE,
        env=child_environment(),
        text=True,
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "working\n"
        client.send_signal(signal.SIGINT)
        assert client.stdout.read().splitlines()[-1] == "ended cancelled"
    assert [r.state for r in history.list_jobs()] == ["cancelled"]


@pytest.mark.parametrize("stage", BUILD_STAGES)
def test_cancel_at_every_stage(recipe: dict[str, Any], tmp_path: Path, stage: str) -> None:
    from engine.base.errors import JobCancelledError

    reached: list[str] = []

    def on_event(event: Event) -> None:
        if isinstance(event, StageStarted):
            reached.append(event.stage)

    cache = StageCache(tmp_path)
    reporter = CallbackReporter(on_event, lambda: stage in reached)
    with pytest.raises(JobCancelledError):
        made(recipe, reporter=reporter, cache=cache)
    assert reached[-1] == stage
    names = {p.name.split("-")[0] for p in tmp_path.glob("[a-z]*")}
    assert stage not in names
    whole = made(recipe, cache=cache)
    assert [t.stage for t in whole.summary.stages if t.cached] == list(
        BUILD_STAGES[: BUILD_STAGES.index(stage)]
    )


@in_module
async def test_a_full_disk(recipe: dict[str, Any], tmp_path: Path) -> None:
    """A limit on the size of files stands for it: every larger write fails half-way."""
    worker = await Worker.start()
    assert worker.pid
    path = tmp_path / "small.rknn"
    _, hard = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (2000, hard))
    with pytest.raises(OutputError, match="integers could not be found out"):
        await finished(worker, "build", recipe=recipe)
    assert not list(StageCache().folder.glob("quantize-*"))
    size = len(made(recipe).container)
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (size - 1, hard))
    with pytest.raises(OutputError, match="could not be written"):
        await finished(worker, "export", recipe=recipe, path=str(path))
    assert list(tmp_path.iterdir()) == []
    await worker.close()


@pytest.mark.parametrize("file", ["graph.onnx", "facts.json", "index.json"])
def test_a_corrupt_cache_is_built_again(recipe: dict[str, Any], tmp_path: Path, file: str) -> None:
    cache = StageCache(tmp_path)
    first = made(recipe, cache=cache)
    damaged = list(tmp_path.rglob(file))
    assert damaged
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-7])
    again = made(recipe, cache=cache)
    assert again.container == first.container
    assert not all(t.cached for t in again.summary.stages)
    assert all(t.cached for t in made(recipe, cache=cache).summary.stages)


def test_a_read_only_cache_costs_a_finding(recipe: dict[str, Any]) -> None:
    done = made(recipe, cache=StageCache(Path("/proc/x"), 1 << 30))
    assert [f.code for f in done.summary.findings if f.severity == "warning"] == [
        "cache-not-written"
    ]
    assert done.container == made(recipe).container


# -- the same bytes everywhere -----------------------------------------------------------------


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_container_is_the_same_from_every_front_end_and_place(
    recipe: dict[str, Any], place: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = made(recipe).container

    run_job("export", {"recipe": recipe, "path": str(elsewhere / "worker.rknn")})
    assert (elsewhere / "worker.rknn").read_bytes() == expected

    crooked = {**recipe, "model": f"{place}/../{place.name}/./small.onnx"}
    assert made(crooked).container == expected

    monkeypatch.chdir(place)
    relative = {**recipe, "model": "small.onnx", "dataset": "./dataset.txt"}
    assert made(relative).container == expected
    rknn = RKNN(generation=2)
    rknn.config(mean_values=[128, 128, 128], std_values=[[128, 128, 128]])
    assert rknn.load_onnx("./small.onnx") == 0
    assert rknn.build(dataset="dataset.txt") == 0
    assert rknn.export_rknn(str(elsewhere / "api.rknn")) == 0
    assert (elsewhere / "api.rknn").read_bytes() == expected


@pytest.mark.parametrize("kept", range(len(BUILD_STAGES)))
def test_the_container_is_the_same_from_any_part_of_the_cache(
    recipe: dict[str, Any], tmp_path: Path, kept: int
) -> None:
    """Stages before ``kept`` come from disk, the others are computed from what was read back."""
    cache = StageCache(tmp_path)
    expected = made(recipe, cache=cache).container
    for stage in BUILD_STAGES[kept:]:
        for folder in tmp_path.glob(f"{stage}-*"):
            shutil.rmtree(folder)
    again = made(recipe, cache=cache)
    assert [t.cached for t in again.summary.stages] == [i < kept for i in range(len(BUILD_STAGES))]
    assert again.container == expected


def test_what_decides_the_container(recipe: dict[str, Any], place: Path, tmp_path: Path) -> None:
    expected = made(recipe).container
    renamed = tmp_path / "other.onnx"
    renamed.write_bytes((place / "small.onnx").read_bytes())
    changed = tmp_path / "small.onnx"
    onnx.save(small_net(seed=1), changed)
    (tmp_path / "dataset.txt").write_text("".join(f"{place}/{n}.png\n" for n in (3, 2, 1, 0)))
    for change in (
        {"model": str(renamed)},
        {"model": str(changed)},
        {"dataset": str(tmp_path / "dataset.txt")},
        {"custom_string": "mine"},
        {"target_platform": "rk3588"},
        {"optimization_level": 0},
    ):
        other = made({**recipe, **change}).container
        assert other != expected, change
