"""Sweeps: what is combined, where it runs, and what a bad combination or a dead process costs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import DatasetError, JobCancelledError, RecipeError, UsageError, WorkerError
from engine.base.events import CallbackReporter, Event, NullReporter, Partial
from engine.jobs.cluster import ClusterAddress, open_cluster
from engine.services.sweep import combinations, sweep
from rknntui.demo import demo_folder, demo_recipe
from tests.safety import ends, ran


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
        (ClusterAddress("192.0.2.1:8786"), "not an address"),
        (ClusterAddress("tcp://192.0.2.1:8786"), "not encrypted"),
        # every user of this machine can speak there, and can listen there first
        (ClusterAddress("tcp://127.0.0.1:8786"), "not encrypted"),
        (ClusterAddress("tcp://localhost.example.org:8786"), "not encrypted"),
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

    monkeypatch.setattr("distributed.SpecCluster", fails)
    with pytest.raises(WorkerError, match="could not be started"), open_cluster(None, 1):
        pass


def test_a_key_with_a_password_is_refused_before_somebody_is_asked(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_text("-----BEGIN CERTIFICATE-----\n")
    key.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    with pytest.raises(UsageError, match="password"):
        ClusterAddress("tls://192.0.2.1:8786", cert, cert, key).check()


@pytest.mark.long
def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    cert, key = strange_pair(tmp_path)
    with (
        ends(),
        pytest.raises(WorkerError, match="does not answer"),
        open_cluster(ClusterAddress("tls://127.0.0.1:9", cert, cert, key), 1),
    ):
        pytest.fail("nobody listens there")


@pytest.mark.long
def test_a_limit_of_open_files_that_is_too_low_is_told_and_nothing_hangs() -> None:
    pytest.importorskip("distributed")
    code = "from engine.jobs.cluster import open_cluster\nopen_cluster(None, 2).__enter__()"
    script = f"ulimit -n 16 && exec \"{sys.executable}\" -c '{code}'"
    found = ran("bash", "-c", script, timeout=120)
    assert found.returncode == 1
    assert "open files at a time, and 16 are allowed" in found.stderr


def strange_pair(folder: Path) -> tuple[Path, Path]:
    """Certificate and key of somebody else, in files that everybody may read."""
    pytest.importorskip("cryptography")
    from distributed import Security

    made = Security.temporary()
    cert, key = folder / "strange.crt", folder / "strange.key"
    cert.write_text(made.tls_client_cert)
    key.write_text(made.tls_client_key)
    for path in (cert, key):
        path.chmod(0o644)
    return cert, key


STRANGER = """
import encodings.idna, json, os, socket, ssl, sys  # what is imported later, nobody may not read
cert, key, *ports = sys.argv[1:]
bare, other = (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) for _ in range(2))
for context in (bare, other):
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
other.load_cert_chain(cert, key)
if os.geteuid() == 0:  # somebody else, where that is to be had
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)

def heard(port, wrap, words):
    found = b""
    try:
        with socket.create_connection(("127.0.0.1", port), 20) as plain:
            plain.settimeout(20)
            stream = wrap(plain)
            stream.sendall(words)
            while part := stream.recv(4096):
                found += part
    except OSError:
        pass
    return found.decode("latin-1")

get = b"GET /info/main/workers.html HTTP/1.0\\r\\n\\r\\n"
ways = (lambda s: s, bare.wrap_socket, other.wrap_socket)
print(json.dumps([heard(int(p), w, t) for p in ports for w in ways for t in (get, bytes(64))]))
"""


def asked(process: Any, what: str) -> list[Any]:
    """What a process says of itself; nothing where it has ended, a zombie of another test too."""
    import psutil

    try:
        return list(getattr(process, what)())
    except psutil.NoSuchProcess:
        return []


def listening(process: Any) -> dict[int, str]:
    """Port -> address of every TCP socket that a process and its children listen on."""
    everyone = [process, *process.children(recursive=True)]
    sockets = [c for p in everyone for c in asked(p, "net_connections") if c.status == "LISTEN"]
    return {c.laddr.port: c.laddr.ip for c in sockets}


@pytest.mark.long
def test_a_stranger_is_refused_at_every_port_of_a_local_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    import psutil
    from distributed import Client, Security

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cert, key = strange_pair(tmp_path)
    before = listening(psutil.Process())
    with open_cluster(None, 2) as cluster:
        assert list(cluster.run(slow, {1: "0.01"}, NullReporter())) == [(1, "0.01")]
        ports = {n: a for n, a in listening(psutil.Process()).items() if n not in before}
        assert set(ports.values()) == {"127.0.0.1"}
        assert len(ports) == 5  # the scheduler, two nannies and two workers; nobody's HTTP
        words = [sys.executable, "-I", "-c", STRANGER, cert, key, *ports]
        heard = ran(*words, check=True, timeout=300)
        # nothing but a TLS alert at most: no word of Dask's or of HTTP
        assert [a for a in json.loads(heard.stdout) if len(a) > 16] == []
        address = cluster._client.scheduler.address
        with pytest.raises(OSError, match="TLS certificate"):
            Client(address, security=Security.temporary(), timeout=5, set_as_default=False)
        with pytest.raises(OSError, match=r"reset|closed|connect"):
            Client(address.replace("tls", "tcp"), timeout=5, set_as_default=False)
        children = psutil.Process().children(recursive=True)
        lines = [line for line in (asked(p, "cmdline") for p in children) if line]
        assert len(lines) >= 2
        assert not any("PRIVATE KEY" in word for line in lines for word in line)
        (folder,) = tmp_path.glob("rknntui-sweep-*")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.glob("rknntui-sweep-*"))


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
    with ends(), open_cluster(None, 1) as cluster:
        [(number, answer)] = cluster.run(crash, {7: ""}, NullReporter())
        assert number == 7
        assert isinstance(answer, Exception)
        assert list(cluster.run(slow, {1: "0.01"}, NullReporter())) == [(1, "0.01")]
        with pytest.raises(JobCancelledError):
            list(cluster.run(slow, {1: "3600"}, CallbackReporter(lambda _: None, lambda: True)))
        enough = CallbackReporter(lambda _: None, finish=lambda: True)
        found = cluster.run(slow, {1: "3600"}, enough)
        assert list(found) == []


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
    ran(*asked, check=True)
    note = tmp_path / "scheduler.json"
    common = ["--tls-ca-file", str(cert), "--tls-cert", str(cert), "--tls-key", str(key)]
    common += ["--protocol", "tls", "--no-dashboard", "--host", "127.0.0.1"]
    common += ["--scheduler-file", str(note)]

    def started(program: str, *more: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", f"distributed.cli.dask_{program}", *common, *more]
        own = {**os.environ, "TMPDIR": str(tmp_path)}  # not /tmp/dask-scratch-space
        return subprocess.Popen(words, stderr=subprocess.DEVNULL, env=own)

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


def test_a_missing_evaluation_is_told_before_anything_is_built(tmp_path: Path) -> None:
    events: list[Event] = []
    asked = {
        "recipe": demo_recipe(),
        "axes": {"quantized_dtype": ["w8a8"]},
        "evaluation": str(tmp_path / "none.txt"),
    }
    with pytest.raises(DatasetError, match=r"none\.txt"):
        sweep(asked, CallbackReporter(events.append))
    listed = tmp_path / "list.txt"
    listed.write_text(f"{demo_folder() / 'calibration' / '000.png'}\nnone_1.png\n\nnone_2.png\n")
    asked["evaluation"] = str(listed)
    with pytest.raises(DatasetError, match=r"line 2: .*none_1\.png.* 1 more of its files"):
        sweep(asked, CallbackReporter(events.append))
    assert not events
