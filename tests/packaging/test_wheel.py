"""The source archive and the wheel carry what the program reads at run time, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

PROBE = """
import sys
from importlib.resources import files
from pathlib import Path
import engine, rknntui
from engine.chips import chips
from engine.compile.environments.pins import pins_of
from rknntui.demo import demo_recipe, demo_test_samples
place = Path(sys.argv[1])
for package in (engine, rknntui):
    assert Path(package.__file__).is_relative_to(place), package.__file__
assert [t for t in (files("rknntui") / "themes").iterdir() if t.name.endswith(".toml")]
assert chips()
assert pins_of(None)
recipe = demo_recipe()
for path in (Path(recipe["model"]), Path(recipe["dataset"]), demo_test_samples()):
    assert path.is_relative_to(place) and path.is_file(), path
print(engine.__version__)
"""


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive and the wheel that is built from it."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(out), str(repository)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def names(built: Path) -> set[str]:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        return set(wheel.namelist())


def tracked(repository: Path, folder: str) -> set[str]:
    """The project's files below ``folder``, relative to it."""
    return {
        path.relative_to(repository / folder).as_posix()
        for path in (repository / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheel_carries_code_and_data(repository: Path, names: set[str]) -> None:
    expected = {f"rknntui/themes/{name}" for name in tracked(repository, "themes")}
    expected |= {f"engine/chips/{name}" for name in tracked(repository, "engine/chips")}
    expected |= {f"rknntui/styles/{name}" for name in tracked(repository, "rknntui/styles")}
    expected |= {f"rknntui/demo/{name}" for name in tracked(repository, "rknntui/demo")}
    expected |= {f"engine/devices/{name}" for name in tracked(repository, "engine/devices")}
    expected |= {"engine/py.typed", "rknntui/__main__.py"}
    assert "rknntui/demo/calibration/099.png" in expected
    assert not expected - names


def test_wheel_carries_nothing_else(names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"engine", "rknntui"}
    assert not [
        name
        for name in names
        if name.endswith(".pyc") or Path(name).name.startswith(("test_", "conftest"))
    ]


def test_source_archive_builds_and_tests_itself(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for needed in (
        "demo",
        "test",
        ".ci/run",
        ".ci/core.lock",
        "scripts/environment.sh",
        "tests/conftest.py",
        "README.md",
        "LICENSE",
        "themes/dark.toml",
        "rknntui/themes/dark.toml",
    ):
        assert needed in inside


def test_installed_wheel_finds_its_data(built: Path, tmp_path: Path) -> None:
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    elsewhere.mkdir()
    wheel = str(next(built.glob("*.whl")))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*install, str(place), wheel], check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROBE, str(place)],
        cwd=elsewhere,
        env=os.environ | {"PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [Path(wheel).name.split("-")[1]]
