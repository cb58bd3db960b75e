"""The README's first command as a new user runs it, and the figures the README gives for it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from engine import run_job
from rknntui.demo import demo_recipe, demo_test_samples
from tests.safety import ran

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def clone(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's files as they are now, without any environment."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = ran(*words, cwd=repository, check=True).stdout
    place = tmp_path_factory.mktemp("new") / "clone"
    for name in filter(None, listed.split("\0")):
        if (repository / name).exists():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(repository / name, place / name, follow_symlinks=False)
    return place


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("empty-home")


def environment(home: Path) -> dict[str, str]:
    """A login's variables: nothing of ours, of the tests' or of an active environment."""
    drop = ("RKNNTUI_", "XDG_", "PYTHON", "VIRTUAL_ENV", "PYTEST", "ORT_")
    return {k: v for k, v in os.environ.items() if not k.startswith(drop)} | {"HOME": str(home)}


@pytest.fixture(scope="module")
def report(clone: Path, home: Path) -> dict[str, object]:
    """What ``./demo --headless --json`` prints in a fresh clone with an empty home."""
    words = ["./demo", "--headless", "--json"]
    done = ran(*words, cwd=clone, env=environment(home), stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    parsed = json.loads(done.stdout)
    assert isinstance(parsed, dict)
    return parsed


@pytest.fixture(scope="module")
def rows(repository: Path) -> dict[str, tuple[int, float | None]]:
    """First words of a row of the README's table -> right answers of 500, SQNR in dB."""
    table = (repository / "README.md").read_text(encoding="utf-8").partition("demo figures")[2]
    row = r"^\| (.+?) \| [\d.]+ % \| (\d+) of 500 \| (?:([\d.]+) dB)? ?\|$"
    found = re.findall(row, table, re.MULTILINE)
    return {name: (int(right), float(sqnr) if sqnr else None) for name, right, sqnr in found}


def test_the_figures_of_the_readme_are_real(
    report: dict[str, object], rows: dict[str, tuple[int, float | None]]
) -> None:
    score, outputs = report["score"], report["outputs"]
    assert isinstance(score, dict)
    assert isinstance(outputs, list)
    assert score["samples"] == 500
    real = [round(score[name] * 500) for name in ("float_top1", "simulated_top1")]
    shown = [rows["float32 in ONNX Runtime"][0], rows["w8a8"][0]]
    # One sample may turn with the last bits of another CPU's kernels.
    assert all(abs(a - b) <= 1 for a, b in zip(shown, real, strict=True)), (shown, real)
    assert rows["w8a8"][1] == pytest.approx(outputs[0]["sqnr_db"], abs=0.1)


def test_the_other_figures_of_the_readme_are_real(
    rows: dict[str, tuple[int, float | None]],
) -> None:
    recipe = demo_recipe()
    proposed = run_job("hybrid.propose", {"recipe": recipe})["layers"]
    assert len(proposed) == 2
    changes: dict[str, dict[str, object]] = {
        "w8a8, our": {"quantized_algorithm": "accurate"},
        "w8a8, hybrid": {"quantized_layers": proposed},
        "w8a16": {"quantized_dtype": "w8a16"},
        "w4a8": {"quantized_dtype": "w4a8"},
    }
    for name, change in changes.items():
        right, decibels = next(row for words, row in rows.items() if words.startswith(name))
        changed = {**recipe, **change}
        built = run_job("build", {"recipe": changed})
        labelled = {"recipe": changed, "labels": str(demo_test_samples()), "top": 1}
        score = run_job("evaluate", labelled)["scores"][0]
        assert abs(round(score["simulated"] * 500) - right) <= 1, name
        assert decibels == pytest.approx(built["outputs"][0]["sqnr_db"], abs=0.2), name


def test_the_home_holds_only_our_folders(report: dict[str, object], home: Path) -> None:
    assert report
    left = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    ours = (".local/state/rknntui/", ".cache/rknntui/", ".config/rknntui/")
    assert left, "the build left neither history nor cache"
    assert not [name for name in left if not name.startswith(ours)]


def test_a_second_run_sets_nothing_up(report: dict[str, object], clone: Path, home: Path) -> None:
    assert report
    done = ran(clone / "demo", "--help", cwd=home, env=environment(home))
    assert done.returncode == 0
    assert done.stderr == ""
    assert "--headless" in done.stdout
