"""The source archive and the wheel carry what the program reads at run time, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.docs.test_tutorial import follow_tutorial
from tests.safety import ran

pytestmark = pytest.mark.long

PROBE = """
import sys
from importlib.resources import files
from pathlib import Path
import engine, rknntui
from engine.facts import chips
from engine.toolkit.environments.wheels import pins_of
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


SCRIPT = """
import sys
import cv2
import numpy as np
from rknn.api import RKNN
from rknn.api.custom_op import get_node_attr
from rknn.utils import onnx_edit
from rknnlite.api import RKNNLite

if __name__ == '__main__':
    rknn = RKNN(verbose=False)
    rknn.config(mean_values=[[127.5]], std_values=[[127.5]], target_platform='rk3566')
    ret = rknn.load_onnx(model='model.onnx')
    if ret != 0:
        exit(ret)
    ret = rknn.build(do_quantization=True, dataset='dataset.txt')
    if ret != 0:
        exit(ret)
    ret = rknn.export_rknn('model.rknn')
    if ret != 0:
        exit(ret)
    ret = rknn.init_runtime()
    if ret != 0:
        exit(ret)
    image = cv2.imread('photos/000.png', cv2.IMREAD_GRAYSCALE)
    outputs = rknn.inference(inputs=[np.reshape(image, (1, 8, 8, 1))], data_format=['nhwc'])
    print(outputs[0].shape, sys.modules['rknn.api'].__file__)
    rknn.release()
"""


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive and the wheel that is built from it."""
    return built_of(repository, tmp_path_factory.mktemp("dist"))


def built_of(repository: Path, out: Path) -> Path:
    done = ran(sys.executable, "-m", "build", "--outdir", out, repository)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def names_in(built: Path) -> set[str]:
    """The files of the wheel in a folder, without what tells of the distribution."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        return {name for name in wheel.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def names(built: Path) -> set[str]:
    return names_in(built)


def tracked(repository: Path, folder: str) -> set[str]:
    """The project's files below ``folder``, relative to it."""
    return {
        path.relative_to(repository / folder).as_posix()
        for path in (repository / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheel_carries_code_and_data(repository: Path, names: set[str]) -> None:
    expected = {f"rknntui/themes/{name}" for name in tracked(repository, "themes")}
    for folder in (
        *("engine/facts", "engine/api/drop_in", "engine/devices"),
        *("rknntui/styles", "rknntui/demo"),
    ):
        expected |= {f"{folder}/{name}" for name in tracked(repository, folder)}
    expected |= {"engine/py.typed", "engine/api/shown.pyi", "rknntui/__main__.py"}
    assert "rknntui/demo/calibration/099.png" in expected
    assert not expected - names


def test_wheel_carries_nothing_else(names: set[str]) -> None:
    assert {name.partition("/")[0] for name in names} == {"engine", "rknntui"}
    assert not [
        name
        for name in names
        if name.endswith(".pyc") or Path(name).name.startswith(("test_", "conftest"))
    ]


def test_source_archive_builds_and_tests_itself(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for needed in (
        "emulator/pyproject.toml",
        "emulator/rknntui_emulator/runtime/standin.c",
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
        "engine/api/drop_in/rknn/api/__init__.py",
        "compat/rknn/api/__init__.py",
        "compat/rknnlite/__init__.py",
    ):
        assert needed in inside


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_from(built, tmp_path_factory.mktemp("place"))


def installed_from(built: Path, folder: Path) -> Path:
    """The ``bin`` of an environment with the wheel, and the other packages of this one."""
    place = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    packages = next((place / "lib").glob("python3.*/site-packages"))
    # Lines of a .pth are read here, those of the folders that it names are not: the editable
    # install of the checkout stays out.
    others = [entry for entry in sys.path if Path(entry).name == "site-packages"]
    (packages / "others.pth").write_text("\n".join(others) + "\n")
    install = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install"]
    wheel = next(built.glob("*.whl"))
    subprocess.run([*install, "--quiet", "--no-deps", "--force-reinstall", str(wheel)], check=True)
    return place / "bin"


def from_wheel(installed: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    drop = ("PYTHON", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    path = {"PATH": f"{installed}:{os.environ['PATH']}"}
    return ran(*words, cwd=cwd, env=kept | path, timeout=300)


def test_installed_wheel_finds_its_data(built: Path, installed: Path, tmp_path: Path) -> None:
    place = str(installed.parent)
    done = from_wheel(installed, "python", "-P", "-c", PROBE, place, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [next(built.glob("*.whl")).name.split("-")[1]]


def test_the_tutorial_works_from_the_wheel(
    repository: Path, installed: Path, tmp_path: Path
) -> None:
    follow_tutorial(repository, tmp_path, installed)
    assert (tmp_path / "tutorial" / "model.rknn").is_file()


def test_a_script_of_the_vendors_toolkit_runs_from_the_wheel(
    installed: Path, tmp_path: Path
) -> None:
    """In the form of the vendor's examples: the names of both packages, exit codes, one picture."""
    assert from_wheel(installed, "rknntui", "demo", "--copy", "try", cwd=tmp_path).returncode == 0
    folder = tmp_path / "try"
    (folder / "dataset.txt").write_text("photos/000.png\nphotos/001.png\n")
    (folder / "test.py").write_text(SCRIPT)
    done = from_wheel(installed, "rknntui", "script", "test.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["(1,", "10)", place_of(installed)]
    assert (folder / "model.rknn").read_bytes().startswith(b"RKNN")


def place_of(installed: Path) -> str:
    packages = next((installed.parent / "lib").glob("python3.*/site-packages"))
    return str(packages / "engine" / "api" / "drop_in" / "rknn" / "api" / "__init__.py")
