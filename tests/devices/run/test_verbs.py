"""``rknntui run``, ``memory``, ``perf`` and ``doctor`` against an emulated board behind adb."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rknntui_emulator.runtime.answers import input_digest
from tests.devices.conftest import Boards, Libraries
from tests.devices.known_model import IMAGE, ROW, SCORES, answers, stored
from tests.devices.verbs import run, told

pytestmark = [pytest.mark.adb, pytest.mark.cc, pytest.mark.long]

ZEROS = np.zeros_like(IMAGE)


@pytest.fixture
def address(board: Boards, libraries: Libraries, model: Path) -> str:
    """Of a board that knows the model, by the image and by zeros."""
    results = {input_digest([each.tobytes()]): (SCORES.tobytes(),) for each in (IMAGE, ZEROS)}
    made = board("rk3588")
    made.knows(libraries(), answers(results=results), model)
    return made.address


@pytest.fixture
def image(tmp_path: Path) -> str:
    return str(stored(tmp_path / "image.npy", IMAGE))


def test_run(address: str, model: Path, image: str) -> None:
    words = ["run", str(model), "--device", address, "--input", image, "--layers", "--loops", "3"]
    done = run(*words)
    (scores,) = (line.split() for line in done.stdout.splitlines() if line.startswith("scores "))
    assert scores[:3] == ["scores", "1x5", "float32"]
    assert "-25" in scores
    assert "0.7000 ms an inference on the board (emulated)" in done.stdout
    assert "Send the model" in done.stderr
    assert told("run", str(model), "--input", image, "--device", address, "--cores", "2")


def test_without_a_board_it_says_what_it_needs(model: Path, image: str, adb_server: object) -> None:
    done = run("run", str(model), "--input", image)
    assert done.returncode == 13, done.stderr
    assert "There is no board" in done.stderr
    assert "fix:" in done.stderr


def test_memory(address: str, model: Path) -> None:
    done = run("memory", str(model), "--device", address)
    assert "Memory Profile Info Dump (emulated)" in done.stdout
    assert "available with the model loaded" in done.stdout


def test_perf_over_cores_and_threads(address: str, model: Path) -> None:
    words = ["perf", str(model), "--device", address, "--loops", "7", "--layers", "--fix-clocks"]
    words += ["--cores", "auto", "--cores", "0_1_2", "--threads", "2"]
    timed = told(*words)
    assert (timed["label"], timed["chip"]) == ("emulated", "rk3588")
    assert [(p["cores"], p["threads"]) for p in timed["points"]] == [("auto", 2), ("0_1_2", 2)]
    for point in timed["points"]:
        assert point["count"] == 14
        assert 0 < point["minimum"] <= point["median"] <= point["p99"] <= point["maximum"]
        assert point["clocks"]["NPU"] == 1_000_000_000
    assert [layer["name"] for layer in timed["layers"]] == ["Conv:conv1"]
    assert timed["memory"]["total"] == 5939200
    assert timed["kept"]
    table = run(*words)
    assert table.returncode == 0, table.stderr
    assert "(emulated)" in table.stdout
    assert "FPS" in table.stdout


def test_what_is_no_model_and_no_chip_is_refused(board: Boards, model: Path, image: str) -> None:
    made = board("rk3588")
    refused = run("perf", str(Path(__file__)), "--device", made.address)
    assert refused.returncode == 9
    assert "fix:" in refused.stderr
    (made.root / "proc/device-tree/compatible").write_bytes(b"somebody,board\0")
    refused = run("perf", str(model), "--device", made.address)
    assert refused.returncode == 13
    assert "is not known" in refused.stderr


def test_measured_runs_are_listed_and_compared(address: str, model: Path) -> None:
    words = ["perf", str(model), "--device", address, "--loops", "5", "--layers"]
    first, second = told(*words)["kept"], told(*words)["kept"]
    listed = told("perf", "--history")["runs"]
    assert {first, second} <= {each["id"] for each in listed}
    assert {each["label"] for each in listed} == {"emulated"}
    table = run("perf", "--compare", first, second).stdout
    assert "first emulated, second emulated" in table
    assert first in run("perf", "--history", "--device", address).stdout
    assert run("perf", "--compare", "1", "2").returncode == 2


def test_the_doctor_runs_a_model(address: str, model: Path, first_model: Path) -> None:
    done = run("doctor", "--device", address, "--model", str(model))
    assert done.returncode == 0, done.stdout
    assert "ok   test tensor: runs with zeros in 0.700 ms (emulated)" in done.stdout
    assert "scores 1x5 from -25 to 38.75" in done.stdout
    assert [line.split(":")[0] for line in done.stdout.splitlines()[:2]] == [
        "ok   transport",
        "ok   model",
    ]
    checks = told("doctor", "--device", address, "--model", str(model), "--no-test")["checks"]
    assert (checks[-1]["name"], checks[-1]["state"]) == ("test tensor", "skipped")
    done = run("doctor", "--device", address, "--model", str(first_model))
    assert done.returncode == 1
    assert "bad  versions: first.rknn is of generation 1" in done.stdout
    assert ROW.name not in done.stdout
