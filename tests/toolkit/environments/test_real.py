"""The vendor's real toolkit, in environments of links to its packages that are then broken."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy
import pytest

from engine.base.events import NullReporter
from engine.toolkit.environments import adopt, check, find
from engine.wire.vendor import ToolkitAdoptParams
from tests.toolkit.environments.standins import site_of

pytestmark = [pytest.mark.long, pytest.mark.vendor]


@pytest.fixture
def linked(vendor_folder: Path, tmp_path: Path) -> Path:
    """An environment whose packages are links: taking one away spoils nothing."""
    python, folder = vendor_folder / "bin" / "python", tmp_path / "env"
    command = [str(python), "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    site = site_of(folder)
    for entry in site_of(vendor_folder).iterdir():
        (site / entry.name).symlink_to(entry)
    assert adopt(ToolkitAdoptParams(str(folder)), NullReporter()).state == "ready"
    return folder


def told(package: str, *words: str) -> None:
    """That it is broken, by which package, and what is said of that."""
    found = check(None, NullReporter())
    assert found.state == "broken"
    (finding,) = found.findings
    assert finding.where == package
    for word in words:
        assert word in f"{finding.what} {finding.remedy}"


def _take_out(folder: Path, *patterns: str) -> None:
    for pattern in patterns:
        found = list(site_of(folder).glob(pattern))
        assert found, pattern
        for path in found:
            path.unlink()


def test_the_real_one_is_ready(toolkit2: Path) -> None:
    found = check(None, NullReporter())
    assert (found.state, found.findings) == ("ready", ())
    assert (found.generation, found.version) == (2, "2.3.2")
    assert find(2).folder == str(toolkit2)


def test_it_is_adopted_and_then_broken_package_by_package(linked: Path) -> None:
    # the toolkit does not ask for setuptools, can be imported without, and fails in a build
    _take_out(linked, "pkg_resources")
    told("setuptools", "no pkg_resources", "'setuptools<81'")
    real = (site_of(linked) / "rknn").resolve().parent
    (site_of(linked) / "pkg_resources").symlink_to(real / "pkg_resources")
    _take_out(linked, "onnx", "onnx-*")
    told("onnx", "onnx is missing", "onnx==1.16.1")


def test_a_package_whose_library_is_gone(linked: Path) -> None:
    """Another file in place of a native library: the package is named, with what it said."""
    site = site_of(linked)
    real = (site / "onnx").resolve()
    (site / "onnx").unlink()
    shutil.copytree(real, site / "onnx", symlinks=True, ignore=shutil.ignore_patterns("backend"))
    library = next((site / "onnx").glob("onnx_cpp2py_export*.so"))
    library.write_bytes(b"no library")
    told("onnx", "onnx 1.16.1 cannot be imported", "--force-reinstall")


def test_numpy_2(linked: Path) -> None:
    """The numpy of these tests in place of its own: onnxruntime 1.18 is built for numpy 1."""
    _take_out(linked, "numpy", "numpy-*.dist-info", "numpy.libs")
    ours = Path(numpy.__file__).parents[1]
    for entry in (*ours.glob("numpy-*.dist-info"), ours / "numpy", ours / "numpy.libs"):
        (site_of(linked) / entry.name).symlink_to(entry)
    told("numpy", f"numpy {numpy.__version__} does not fit", "numpy==1.26.4")
