"""Sweeps: what is combined, where it runs, and what a bad combination or a dead process costs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import JobCancelledError, RecipeError, UsageError, WorkerError
from engine.base.events import CallbackReporter, Event, NullReporter, Partial
from engine.jobs.cluster import ClusterAddress, open_cluster
from engine.jobs.sweep import combinations, sweep
from rknntui.demo import demo_recipe


def crash(_text: str) -> str:
    os.abort()


def slow(text: str) -> str:
    time.sleep(float(text))
    return text


def test_axes_are_combined_and_what_is_shared_is_known() -> None:
    axes = {"quantized_method": ["channel", "layer"], "optimization_level": [0, 3]}
    found = combinations({"model": "m.onnx"}, axes)
    assert [c.values for c in found] == [
        {"quantized_method": m, "optimization_level": o}
        for m in ("channel", "layer")
        for o in (0, 3)
    ]
    assert len({c.shared for c in found}) == 2  # the level decides a first stage, the method none
    two = combinations({}, axes, [{"model": "a.onnx"}, {"model": "b.onnx"}])
    assert len(two) == 8
    assert two[4].values["model"] == "b.onnx"


@pytest.mark.parametrize(
    ("axes", "error", "words"),
    [
        ({"quantized_metod": ["layer"]}, UsageError, "quantized_metod"),
        ({"quantized_method": []}, UsageError, "no values"),
        ({"quantized_method": ["chanel"]}, RecipeError, "chanel"),
        ({"dataset_seed": list(range(1001))}, UsageError, "1001"),
    ],
)
def test_axes_that_do_not_fit(axes: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        combinations({"model": "m.onnx"}, axes)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (ClusterAddress("192.0.2.1:8786"), "no address"),
        (ClusterAddress("tcp://192.0.2.1:8786"), "not encrypted"),
        (ClusterAddress("tls://192.0.2.1:8786"), "three files"),
    ],
)
def test_a_cluster_that_others_could_speak_to_is_refused(where: ClusterAddress, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        where.check()


@pytest.mark.long
def test_processes_that_do_not_start_are_no_mistake_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("distributed")

    def fails(**options: Any) -> None:
        raise RuntimeError("Nanny failed to start.")  # what Dask raises where one was killed

    monkeypatch.setattr("distributed.LocalCluster", fails)
    with pytest.raises(WorkerError, match="could not be started"), open_cluster(None, 1):
        pass


@pytest.mark.long
def test_a_cluster_that_is_not_there() -> None:
    pytest.importorskip("distributed")
    began = time.monotonic()
    with (
        pytest.raises(WorkerError, match="does not answer"),
        open_cluster(ClusterAddress("tcp://127.0.0.1:9"), 1),
    ):
        pytest.fail("nobody listens there")
    assert time.monotonic() - began < 60


@pytest.mark.long
def test_a_sweep_of_the_demo_and_a_combination_that_fails(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    told: list[Event] = []
    recipe = demo_recipe()
    axes = {"quantized_method": ["channel", "layer"], "dataset": [recipe["dataset"], str(empty)]}
    result = sweep({"recipe": recipe, "axes": axes}, CallbackReporter(told.append))
    json.dumps(result)
    states = [row["state"] for row in result["rows"]]
    assert states == ["done", "failed", "done", "failed"]
    assert "empty" in result["rows"][1]["error"]["what"]
    finer, coarser = result["rows"][0], result["rows"][2]
    assert finer["outputs"][0]["sqnr_db"] > coarser["outputs"][0]["sqnr_db"] > 20
    seen = [e.data["index"] for e in told if isinstance(e, Partial)]
    assert sorted(seen) == [0, 1, 2, 3]


@pytest.mark.long
def test_a_process_that_dies_costs_one_task_and_cancel_ends_all() -> None:
    pytest.importorskip("distributed")
    with open_cluster(None, 1) as cluster:
        [(number, answer)] = cluster.run(crash, {7: ""}, NullReporter())
        assert number == 7
        assert isinstance(answer, Exception)
        assert list(cluster.run(slow, {1: "0.01"}, NullReporter())) == [(1, "0.01")]
        began = time.monotonic()
        with pytest.raises(JobCancelledError):
            list(cluster.run(slow, {1: "60"}, CallbackReporter(lambda _: None, lambda: True)))
        found = cluster.run(slow, {1: "60"}, CallbackReporter(lambda _: None, finish=lambda: True))
        assert list(found) == []
    assert time.monotonic() - began < 20


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[ClusterAddress]:
    """A scheduler and a worker of their own over TLS, and how to reach them."""
    pytest.importorskip("distributed")
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make certificates")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    asked = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    asked += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(asked, check=True, capture_output=True)
    note = tmp_path / "scheduler.json"
    common = ["--tls-ca-file", str(cert), "--tls-cert", str(cert), "--tls-key", str(key)]
    common += ["--protocol", "tls", "--no-dashboard", "--host", "127.0.0.1"]
    common += ["--scheduler-file", str(note)]

    def started(program: str, *more: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", f"distributed.cli.dask_{program}", *common, *more]
        return subprocess.Popen(words, stderr=subprocess.DEVNULL)

    scheduler = started("scheduler", "--port", "0")
    worker = started("worker", "--nthreads", "1")
    for _ in range(300):
        if note.is_file() and note.stat().st_size:
            break
        time.sleep(0.1)
    yield ClusterAddress(json.loads(note.read_text())["address"], cert, cert, key)
    for process in (worker, scheduler):
        process.terminate()
        process.wait(20)


@pytest.mark.long
def test_a_cluster_by_its_address_over_tls(tls: ClusterAddress) -> None:
    where = {
        "address": tls.address,
        "authority": str(tls.authority),
        "certificate": str(tls.certificate),
        "key": str(tls.key),
    }
    assert tls.address.startswith("tls://")
    axes = {"quantized_method": ["channel", "layer"]}
    result = sweep({"recipe": demo_recipe(), "axes": axes, "cluster": where}, NullReporter())
    assert [row["state"] for row in result["rows"]] == ["done", "done"], result["rows"]
