"""Python that recipes name: what may run, and that nothing else does."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import pytest_asyncio

from engine.base.errors import (
    ContainerError,
    JobCancelledError,
    OutputError,
    RecipeError,
    SimulationError,
    UsageError,
)
from engine.base.events import StageFinished
from engine.base.files import sha256_of
from engine.base.paths import state_folder
from engine.base.trust import trust_file, trusted_code, trusted_digest, trusting
from engine.jobs.client import Worker
from engine.pipeline.trusted_code import load_custom_ops
from engine.recipe import Recipe, load_recipe
from tests.custom.nets import branching
from tests.safety import PATIENCE

in_module = pytest.mark.asyncio(loop_scope="module")

CODE = """
from pathlib import Path
import numpy as np
from engine.api.custom_op import get_node_attr

Path(__file__).with_name("ran").write_text("it ran")
print("imported")


class cstSoftmax:
    op_type = "cstSoftmax"

    def shape_infer(self, node, in_shapes, in_dtypes):
        return in_shapes.copy(), in_dtypes.copy()

    def compute(self, node, inputs):
        print("computing")
        x = inputs[0] - inputs[0].max(axis=get_node_attr(node, "axis"), keepdims=True)
        return [np.exp(x) / np.exp(x).sum(axis=get_node_attr(node, "axis"), keepdims=True)]


class Failing(cstSoftmax):
    def compute(self, node, inputs):
        raise ValueError("wrong table")


class Hanging(cstSoftmax):
    def compute(self, node, inputs):
        while True:
            pass


number = 3
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with ops.py, net.onnx and a dataset of three samples."""
    (tmp_path / "ops.py").write_text(CODE)
    onnx.save(branching(), tmp_path / "net.onnx")
    for number in range(3):
        sample = np.random.default_rng(number).normal(0, 1, (1, 3, 8, 8)).astype(np.float32)
        np.save(tmp_path / f"{number}.npy", sample)
    (tmp_path / "dataset.txt").write_text("0.npy\n1.npy\n2.npy\n")
    return tmp_path


def is_confirmed(path: Path) -> bool:
    """Whether a file was confirmed and is what it was then."""
    known = trusted_digest(path)
    return known is not None and path.is_file() and sha256_of(path) == known


def values(place: Path, name: str = "cstSoftmax") -> dict[str, Any]:
    return {
        "model": str(place / "net.onnx"),
        "dataset": str(place / "dataset.txt"),
        "custom_ops": [f"{place / 'ops.py'}:{name}"],
    }


def recipe(place: Path, name: str = "cstSoftmax") -> Recipe:
    return Recipe.from_values(values(place, name))


def test_nothing_runs_before_somebody_allows_it(place: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load_custom_ops(recipe(place))
    told = caught.value
    assert str(place / "ops.py") in told.what
    assert "nobody allowed it. Nothing of it ran." in told.what
    assert f"--allow-code {place / 'ops.py'}" in told.remedy
    assert "confirm it in the workbench" in told.remedy
    assert not (place / "ran").exists()
    operators = load_custom_ops(recipe(place), allowed={(place / "ops.py").resolve()})
    assert operators["cstSoftmax"].origin == "ops.py:cstSoftmax"
    assert (place / "ran").exists()
    assert not (place / "__pycache__").exists()
    assert str(place) not in sys.path
    # that was for one request
    with pytest.raises(RecipeError):
        load_custom_ops(recipe(place))


def test_a_confirmation_holds_for_one_path_and_one_content(place: Path) -> None:
    file, other = place / "ops.py", place / "copy.py"
    other.write_text(CODE)
    assert not is_confirmed(file)
    digest = trust_file(file)
    assert is_confirmed(file)
    assert not is_confirmed(other)
    assert list(load_custom_ops(recipe(place))) == ["cstSoftmax"]
    file.write_text(CODE + "# more\n")
    assert not is_confirmed(file)
    with pytest.raises(RecipeError, match="it has changed since it was confirmed"):
        load_custom_ops(recipe(place))
    trust_file(file)
    assert list(load_custom_ops(recipe(place))) == ["cstSoftmax"]
    # what was shown is what is confirmed, whatever lies there meanwhile
    trust_file(file, digest)
    with pytest.raises(RecipeError):
        load_custom_ops(recipe(place))
    trust_file(other)
    stored = json.loads((state_folder() / "confirmed-code.json").read_text())
    assert set(stored["files"]) == {str(file.resolve()), str(other.resolve())}


def test_a_link_is_the_file_that_it_leads_to(place: Path) -> None:
    trust_file(place / "ops.py")
    (place / "linked.py").symlink_to(place / "ops.py")
    assert is_confirmed(place / "linked.py")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": 9, "files": {}}'])
def test_a_damaged_list_confirms_nothing_and_is_written_anew(place: Path, text: str) -> None:
    trust_file(place / "ops.py")
    (state_folder() / "confirmed-code.json").write_text(text)
    assert not is_confirmed(place / "ops.py")
    trust_file(place / "ops.py")
    assert is_confirmed(place / "ops.py")


def test_a_file_that_is_gone_cannot_be_confirmed(place: Path) -> None:
    with pytest.raises(OutputError):
        trust_file(place / "gone.py")
    assert not is_confirmed(place / "gone.py")


def test_paths_of_a_recipe_file_start_at_its_folder(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "my.yaml").write_text(
        "version: 1\nsource:\n  model: net.onnx\n  custom_ops: [ops.py:cstSoftmax]\n"
    )
    monkeypatch.chdir("/")
    trust_file(place / "ops.py")
    assert list(load_custom_ops(load_recipe(place / "my.yaml"))) == ["cstSoftmax"]


@pytest.mark.parametrize(
    ("code", "name", "words"),
    [
        (CODE, "cstSoftMax", "has no class cstSoftMax"),
        (CODE, "number", "is a class; 3 was given"),
        (CODE.replace("op_type =", "kind ="), "cstSoftmax", "ops.py:cstSoftmax has no op_type"),
        ("def broken(:\n", "cstSoftmax", "does not run: SyntaxError"),
        ("raise OSError('no table')\n", "cstSoftmax", "does not run: OSError: no table"),
        ("import sys\nsys.exit(4)\n", "cstSoftmax", "does not run: SystemExit: 4"),
        ("import helper_beside\n", "cstSoftmax", "does not run: ModuleNotFoundError"),
    ],
    ids=["name", "number", "class", "syntax", "raises", "exits", "imports"],
)
def test_a_file_that_does_not_hold_the_class_is_told(
    place: Path, code: str, name: str, words: str
) -> None:
    (place / "ops.py").write_text(code)
    (place / "helper_beside.py").write_text(CODE)
    trust_file(place / "ops.py")
    with pytest.raises(RecipeError) as caught:
        load_custom_ops(recipe(place, name))
    assert words in caught.value.what
    assert caught.value.remedy


def test_missing_files_and_packages_are_told(place: Path) -> None:
    (place / "ops.py").unlink()
    with pytest.raises(RecipeError, match="does not exist"):
        load_custom_ops(recipe(place))
    os.mkfifo(place / "ops.py")
    with pytest.raises(RecipeError, match="is not a file"):
        load_custom_ops(recipe(place))
    assert not is_confirmed(place / "ops.py")
    broken = place / "broken.rknnop"
    broken.write_bytes(b"RKNN" + bytes(100))
    with pytest.raises(ContainerError):
        load_custom_ops(Recipe.from_values({"op_packages": [str(broken)]}))


def test_a_class_knows_more_than_the_package_of_its_operator(zoo: Path, place: Path) -> None:
    file = place / "area.py"
    file.write_text(CODE.replace("cstSoftmax", "ResizeArea"))
    trust_file(file)
    package = str(zoo / "rknn_vendor" / "ResizeArea.rknnop")
    alone = load_custom_ops(Recipe.from_values({"op_packages": [package]}))
    assert alone["ResizeArea"].compute is None
    both = {"op_packages": [package], "custom_ops": [f"{file}:ResizeArea"]}
    assert load_custom_ops(Recipe.from_values(both))["ResizeArea"].compute is not None


def test_what_a_request_allows_ends_with_it(place: Path) -> None:
    with trusting([str(place / "ops.py")]):
        assert trusted_code() == {(place / "ops.py").resolve()}
    assert trusted_code() == frozenset()
    for wrong in ("ops.py", [3], [""]):
        with pytest.raises(UsageError, match="allow_code is a list"), trusting(wrong):
            pass


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Worker]:
    home = tmp_path_factory.mktemp("worker")
    folders = {"XDG_STATE_HOME": str(home / "state"), "XDG_CACHE_HOME": str(home / "cache")}
    started = await Worker.start({**os.environ, **folders})
    yield started
    await started.close()


async def finished(worker: Worker, method: str, **params: Any) -> tuple[Any, list[Any]]:
    job = await worker.submit(method, params)
    events = [event async for event in job.events()]
    return await job.result(), events


@in_module
async def test_the_worker_builds_simulates_and_analyses_what_was_allowed(
    worker: Worker, place: Path
) -> None:
    allow = [str(place / "ops.py")]
    asked = values(place)
    with pytest.raises(RecipeError, match="nobody allowed it"):
        await finished(worker, "build", recipe=asked)
    assert not (place / "ran").exists()
    job = await worker.submit("build", {"recipe": asked, "allow_code": allow})
    summary = await job.result()
    (note,) = [f for f in summary["findings"] if f["code"] == "custom-operators"]
    assert "cstSoftmax (2) by ops.py:cstSoftmax" in note["what"]
    # what it prints is in the job's log and tears no protocol
    assert "computing" in (job.folder / "log.txt").read_text()
    assert (place / "ran").exists()
    reasons = {layer["layer"]: layer["reason"] for layer in summary["layers"]}
    assert "custom operator" in reasons["s1"]
    one = {"inputs": [str(place / "0.npy")], "recipe": asked}
    simulated, _ = await finished(worker, "simulate", **one, allow_code=allow)
    report, _ = await finished(worker, "accuracy", **one, allow_code=allow)
    assert {layer["op"] for layer in report["layers"]} >= {"cstSoftmax"}
    # results of an allowed request are not given to one that is not
    for method, params in (("build", {"recipe": asked}), ("simulate", one), ("accuracy", one)):
        with pytest.raises(RecipeError, match="nobody allowed it"):
            await finished(worker, method, **params)
    # another content is another build
    _, events = await finished(worker, "build", recipe=asked, allow_code=allow)
    assert all(e.cached for e in events if isinstance(e, StageFinished))
    (place / "ops.py").write_text(CODE.replace("np.exp(x) /", "3 * np.exp(x) /"))
    _, events = await finished(worker, "build", recipe=asked, allow_code=allow)
    assert not any(e.cached for e in events if isinstance(e, StageFinished))
    changed, _ = await finished(worker, "simulate", **one, allow_code=allow)
    assert changed["outputs"] != simulated["outputs"]


@in_module
async def test_the_workbench_asks_confirms_and_goes_on(worker: Worker, place: Path) -> None:
    asked = {"recipe": values(place)}
    (file,) = (await worker.call("code.files", asked))["files"]
    assert (file["state"], file["names"]) == ("new", ["cstSoftmax"])
    assert not (place / "ran").exists()
    await worker.call("code.confirm", {"path": file["path"], "sha256": file["sha256"]})
    assert (await worker.call("code.files", asked))["files"][0]["state"] == "confirmed"
    await finished(worker, "build", **asked)
    (place / "ops.py").write_text(CODE + "# more\n")
    assert (await worker.call("code.files", asked))["files"][0]["state"] == "changed"
    with pytest.raises(RecipeError, match="it has changed"):
        await finished(worker, "build", **asked)
    allowed = {**asked, "allow_code": [str(place / "ops.py")]}
    assert (await worker.call("code.files", allowed))["files"][0]["state"] == "allowed"
    (place / "ops.py").unlink()
    assert (await worker.call("code.files", asked))["files"][0]["state"] == "missing"
    with pytest.raises(UsageError, match="sha256"):
        await worker.call("code.confirm", {"path": file["path"], "sha256": "all of it"})


@in_module
async def test_opening_a_recipe_or_container_from_elsewhere_runs_nothing(
    worker: Worker, place: Path
) -> None:
    allow = [str(place / "ops.py")]
    path = place / "net.rknn"
    await finished(
        worker, "export", recipe=values(place), path=str(path), format="rknn", allow_code=allow
    )
    (place / "ran").unlink()
    yaml = place / "theirs.yaml"
    yaml.write_text(
        "version: 1\nsource:\n  model: net.onnx\n  custom_ops: [ops.py:cstSoftmax]\n"
        "dataset:\n  dataset: dataset.txt\n"
    )
    for opened in (yaml, path):
        view = await worker.call("open", {"path": str(opened)})
        assert view["nodes"] >= 8
        shown = await worker.call("graph", {"path": str(opened)})
        assert "cst:cstSoftmax" in {row[1] for row in shown["nodes"]}
        if opened == yaml:
            assert "nobody allowed it" in view["findings"][0]["what"]
    await worker.call("recipe.load", {"path": str(yaml)})
    checked = await worker.call("validate", {"recipe": values(place)})
    (problem,) = checked["problems"]
    assert problem["option"] == "custom_ops"
    assert "nobody allowed it" in problem["message"]
    with pytest.raises(SimulationError, match="no class is registered"):
        await finished(worker, "simulate", path=str(path), inputs=[str(place / "0.npy")])
    assert not (place / "ran").exists()
    # the class beside the container, allowed by whoever runs it
    found, _ = await finished(
        worker,
        "simulate",
        path=str(path),
        inputs=[str(place / "0.npy")],
        custom_ops=values(place)["custom_ops"],
        allow_code=allow,
    )
    assert found["quantized"] is True


@in_module
async def test_a_class_that_raises_costs_one_job(worker: Worker, place: Path) -> None:
    allow = [str(place / "ops.py")]
    with pytest.raises(SimulationError) as caught:
        await finished(worker, "build", recipe=values(place, "Failing"), allow_code=allow)
    assert "ops.py:Failing: compute failed at node 's1'" in caught.value.what
    assert "ValueError: wrong table" in caught.value.what
    await finished(worker, "build", recipe=values(place), allow_code=allow)


@pytest.mark.long
@in_module
async def test_a_class_that_hangs_is_cancelled_by_the_worker_s_end(
    worker: Worker, place: Path
) -> None:
    allow = {"allow_code": [str(place / "ops.py")]}
    job = await worker.submit("build", {"recipe": values(place, "Hanging"), **allow})
    await asyncio.sleep(2)
    async with asyncio.timeout(PATIENCE):
        await job.cancel()
        with pytest.raises(JobCancelledError):
            await job.result()
    await finished(worker, "build", recipe=values(place), **allow)
