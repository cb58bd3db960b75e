"""Writes and larger allocations of an export fail: an error or the same bytes.

As SQLite's tests do it: the n-th call fails, for n from 1 until a run has fewer. After each fault
nothing half-written is left, and a second run gives the right bytes: nothing wrong was cached.
Every fourth call fails in its turn, another one of four in each of the tests; ``RKNNTUI_FAULTS=1``
lets each fail.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rknntui.demo import demo_folder
from tests.safety import PATIENCE, told_by

STEP = int(os.environ.get("RKNNTUI_FAULTS", "4"))

pytestmark = [pytest.mark.cc]


@pytest.fixture(scope="module")
def injector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source = Path(__file__).with_name("injector.c")
    library = tmp_path_factory.mktemp("faults") / "injector.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return library


@pytest.mark.long
@pytest.mark.parametrize(("mode", "first"), [("once", 1), ("stays", 3)])
@pytest.mark.parametrize("kind", ["write", "allocation"])
def test_every_fault(
    injector: Path, repository: Path, tmp_path: Path, kind: str, mode: str, first: int
) -> None:
    words = ("tests.faults.attack", kind, min(first, STEP), STEP, mode, tmp_path)
    quiet = {"LD_PRELOAD": str(injector), "PYTHONDONTWRITEBYTECODE": "1"}
    seen: dict[str, Any] = told_by(repository, *words, **quiet)[-1]
    assert not seen["faults"], json.dumps(seen["wrong"], indent=1)
    assert seen["told"] + seen["same"] + seen["crashed"] == seen["attempts"]
    # ONNX Runtime's kernels for AMX (1.31) write to the buffer that they did not get
    assert seen["crashed"] <= (2 if "amx_int8" in Path("/proc/cpuinfo").read_text() else 0)
    assert seen["total"] > 20  # the faults reach the job
    assert seen["told"] or mode == "once"  # what fails for good is told


@pytest.mark.long
@pytest.mark.parametrize("kind", [0, 1])
def test_faults_in_every_process_of_a_command(injector: Path, tmp_path: Path, kind: int) -> None:
    """The command and its worker, from their start on: an answer, a documented exit code, no file
    that is not whole.
    """
    listing = tmp_path / "dataset.txt"
    names = [demo_folder() / "calibration" / f"{n:03d}.png" for n in range(4)]
    listing.write_text("".join(f"{name}\n" for name in names))
    model = demo_folder() / "digits_demo.onnx"
    command = [sys.executable, "-m", "rknntui", "export", str(model), "--dataset", str(listing)]
    codes = set()
    for nth in (*range(1, 80, 11), 10**9):
        home, out = tmp_path / f"{nth}", tmp_path / f"{nth}.rknn"
        (home / "tmp").mkdir(parents=True)
        ran = subprocess.run(
            [*command, "-o", str(out)],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "TMPDIR": str(home / "tmp"),
                "PYTHONDONTWRITEBYTECODE": "1",
                "LD_PRELOAD": str(injector),
                "RKNNTUI_FAULT": f"{kind}:{nth}:1",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if "MemoryError" in ran.stderr and "importlib" in ran.stderr:
            continue  # the interpreter itself did not start
        assert ran.returncode in (0, 8, 10, 12), ran.stderr
        assert "Traceback" not in ran.stderr
        assert out.exists() == (ran.returncode == 0)
        codes.add(ran.returncode)
    assert len(codes) > 1  # some were told, the last one went well
    assert 0 in codes
