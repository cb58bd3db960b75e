"""Which package keeps a toolkit from being imported: environments that are really broken."""

from __future__ import annotations

import ast
import os
import pwd
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import JobCancelledError, ToolkitError, UsageError
from engine.base.events import CallbackReporter, NullReporter
from engine.toolkit.environments import adopt, check, far_probe, find, known, make_default, remove
from engine.toolkit.environments.checking import judge
from engine.toolkit.environments.places import READY, held
from engine.toolkit.environments.probe import Attempt, Package, Probe, probe
from engine.toolkit.toolkit import Toolkit
from engine.wire.vendor import ToolkitAdoptParams, ToolkitEnvironment, ToolkitName
from tests.toolkit.environments.standins import Stand, environment, put, site_of, toolkit

NUMPY = Stand("numpy", "1.26.4", files={"numpy/__init__.py": ""})
SETUPTOOLS = Stand("setuptools", "75.8.0", files={"pkg_resources.py": ""})
REQUIRED = ("numpy <=1.26.4", "onnx >=1.16.1", "tqdm; python_version < '3'")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One venv for all tests; each puts its own packages into it."""
    return environment(tmp_path_factory.mktemp("bare") / "env")


@pytest.fixture
def place(bare: Path) -> Path:
    """It, with a toolkit that can be imported."""
    site = site_of(bare)
    shutil.rmtree(site)
    site.mkdir()
    onnx = Stand("onnx", "1.16.1", files={"onnx.py": "import numpy\n"})
    code = "import numpy, onnx\nclass RKNN: pass\n"
    for one in (toolkit("2.2.9", *REQUIRED, code=code), NUMPY, SETUPTOOLS, onnx):
        put(bare, one)
    return bare


def adopted(place: Path | str, name: str | None = None) -> ToolkitEnvironment:
    return adopt(ToolkitAdoptParams(str(place), name), NullReporter())


def test_one_that_the_user_made(place: Path) -> None:
    """Adopted by folder or interpreter, used, the default, forgotten; nothing is written there."""
    before = sorted(place.rglob("*"))
    found = adopted(place)
    assert (found.name, found.generation, found.version) == ("toolkit2", 2, "2.2.9")
    assert (found.state, found.managed, found.folder) == ("ready", False, str(place))
    assert found.python == str(place / "bin" / "python")
    assert find(2) == found
    again = adopted(found.python, "mine")
    assert (again.name, len(known())) == ("mine", 1)
    assert make_default("mine").default
    assert check("mine", NullReporter()).state == "ready"
    gone = remove(ToolkitName("mine"), NullReporter())
    assert not gone.files_removed
    assert known() == ()
    assert sorted(place.rglob("*")) == before


def test_one_that_runs_is_not_removed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = place / READY
    mark.write_text("x", "utf-8")
    monkeypatch.setenv("RKNNTUI_VENDOR", str(place))
    found = find(2)
    assert found.managed
    with Toolkit(found), pytest.raises(ToolkitError, match="in use"):
        remove(ToolkitName(), NullReporter())
    with held(place, alone=True):  # it is free again
        mark.unlink()


def test_what_is_no_environment_of_a_toolkit(place: Path, tmp_path: Path) -> None:
    shutil.rmtree(site_of(place) / "rknn_toolkit2-2.2.9.dist-info")
    with pytest.raises(ToolkitError, match="neither rknn-toolkit2 nor rknn-toolkit"):
        adopted(place)
    with pytest.raises(ToolkitError, match="no bin/python"):
        adopted(tmp_path)
    with pytest.raises(ToolkitError, match="There is no program"):
        adopted(tmp_path / "nothing")
    shouting = tmp_path / "python"
    shouting.write_text("#!/bin/sh\nexec yes '{\"facts\": 3}'\n", encoding="utf-8")
    shouting.chmod(0o755)
    with pytest.raises(ToolkitError, match="says more than any Python"):
        adopted(shouting)
    shouting.write_text("#!/bin/sh\necho no; exit 3\n", encoding="utf-8")
    with pytest.raises(ToolkitError, match="ended with exit code 3") as raised:
        adopted(shouting)
    assert "It said: no" in raised.value.cause
    with pytest.raises(UsageError):
        adopted(place, "a b")
    assert known() == ()


LIBRARY = "libGL.so.1: cannot open shared object file: No such file or directory"
GLIBC = "/lib/libc.so.6: version `GLIBC_2.99' not found (required by x.so)"
SPOILT = {
    "a crash": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
    "a library": f"raise ImportError({LIBRARY!r})\n",
    "glibc": f"raise ImportError({GLIBC!r})\n",
    "damage": "def (\n",
}
"""What stands in the place of onnx."""


@pytest.mark.parametrize(
    ("spoil", "package", "said", "fix"),
    [
        ("no onnx", "onnx", "onnx is missing", "pip install 'onnx>=1.16.1'"),
        ("numpy 2", "numpy", "numpy 2.2.6 does not fit", "pip install 'numpy<=1.26.4'"),
        pytest.param(
            "setuptools 82",
            "setuptools",
            "has no pkg_resources",
            "pip install 'setuptools<81'",
            marks=pytest.mark.long,
        ),
        ("a crash", "onnx", "was killed by SIGSEGV", "--force-reinstall"),
        ("a library", "onnx", "this system has no libGL.so.1", "apt-get install libgl1"),
        pytest.param("glibc", "onnx", "needs GLIBC_2.99", "newer system", marks=pytest.mark.long),
        pytest.param("damage", "onnx", "SyntaxError", "--force-reinstall", marks=pytest.mark.long),
        pytest.param(
            "the toolkit itself",
            "rknn-toolkit2",
            "ZeroDivisionError",
            "--force-reinstall",
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_one_bad_package_is_named(
    place: Path, spoil: str, package: str, said: str, fix: str
) -> None:
    name = adopted(place).name
    site = site_of(place)
    onnx = site / "onnx.py"
    if spoil == "no onnx":
        onnx.unlink()
        shutil.rmtree(site / "onnx-1.16.1.dist-info")
    elif spoil == "numpy 2":
        shutil.rmtree(site / "numpy-1.26.4.dist-info")
        put(place, replace(NUMPY, version="2.2.6"))
        # as onnxruntime 1.18 says it
        text = "import sys\nsys.stderr.write('compiled using NumPy 1.x cannot be run in\\n')\n"
        onnx.write_text(text + "raise ImportError('onnx failed')\n", "utf-8")
    elif spoil == "setuptools 82":
        shutil.rmtree(site / "setuptools-75.8.0.dist-info")
        (site / "pkg_resources.py").unlink()
        put(place, replace(SETUPTOOLS, version="82.0", files={}))
    elif spoil in SPOILT:
        onnx.write_text(SPOILT[spoil], "utf-8")
    else:
        (site / "rknn" / "api" / "__init__.py").write_text("1 / 0\n", "utf-8")
    found = check(name, NullReporter())
    assert found.state == "broken"
    (finding,) = found.findings
    assert finding.where == package
    assert said in finding.what
    assert fix in finding.remedy
    # it is remembered, and not used, until it is put right
    with pytest.raises(ToolkitError, match=re.escape(finding.what)) as raised:
        find(2)
    assert raised.value.remedy == finding.remedy
    assert known()[0].findings == (finding,)


def test_another_version_that_works_is_a_warning(place: Path) -> None:
    shutil.rmtree(site_of(place) / "numpy-1.26.4.dist-info")
    put(place, replace(NUMPY, version="2.2.6"))
    found = adopted(place)
    assert found.state == "ready"
    (finding,) = found.findings
    assert (finding.severity, finding.where) == ("warning", "numpy")
    assert find(2).name == found.name


def test_one_that_hangs_is_ended(place: Path) -> None:
    (site_of(place) / "onnx.py").write_text("import time\ntime.sleep(600)\n", "utf-8")
    python = str(place / "bin" / "python")
    found = probe(python, NullReporter(), ["onnx"], seconds=1.0)
    assert found.attempts == (Attempt("onnx", ended="did not end in time"),)
    answers = iter([False, False, True])
    stop = CallbackReporter(lambda _: None, lambda: next(answers))
    with pytest.raises(JobCancelledError):
        probe(python, stop, ["onnx"])


def test_nothing_of_where_the_user_stands_is_imported(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit(9)\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))
    assert adopted(place).state == "ready"


def test_generation_1_is_told_apart(place: Path) -> None:
    shutil.rmtree(site_of(place) / "rknn_toolkit2-2.2.9.dist-info")
    put(place, toolkit("1.7.5", "numpy==1.26.4", generation=1))
    found = adopted(place)
    assert (found.name, found.generation, found.version) == ("toolkit1", 1, "1.7.5")
    assert find(1) == found
    with pytest.raises(ToolkitError):
        find(2)


def test_the_far_side_is_in_the_language_of_python_36() -> None:
    source = Path(far_probe.__file__).read_text("utf-8")
    ast.parse(source, feature_version=(3, 6))


def test_it_runs_in_the_oldest_python_that_is_here() -> None:
    root = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pyenv" / "versions"
    found = [path for version in ("3.6", "3.7", "3.8") for path in root.glob(f"{version}.*")]
    if not found:
        pytest.skip("there is no Python 3.6 to 3.8 of pyenv")
    seen = probe(str(found[0] / "bin" / "python"), NullReporter(), ["json", "rknn.api"])
    assert seen.version.startswith(".".join(found[0].name.split(".")[:2]))
    assert seen.attempts[0].ok
    assert seen.attempts[1].missing == "rknn"
    assert "pip" in seen.packages


def test_known_texts_of_real_packages() -> None:
    """What real packages say, where it cannot be brought about here."""

    def blamed(module: str, error: str, **versions: str) -> str:
        packages = {name: Package(name, version) for name, version in versions.items()}
        requires = ("protobuf<=4.25.4,>=4.21.6", "numpy<=1.26.4", "opencv-python>=4.5", "torch")
        packages["rknn-toolkit2"] = Package("rknn-toolkit2", "2.3.2", requires)
        packages["opencv-python"] = Package("opencv-python", "4.11.0.86")
        packages["torch"] = Package("torch", "2.4.0")
        seen = Probe("3.11.7", "/env", "x86_64", "glibc 2.31", packages, (Attempt(module, error),))
        (finding,) = judge(seen, "/env/bin/python")
        return f"{finding.where}: {finding.what} {finding.remedy}"

    versions = {"numpy": "1.26.4", "protobuf": "6.31.1"}
    text = "TypeError: Descriptors cannot be created directly."
    assert blamed("onnx", text, **versions).startswith("protobuf: protobuf 6.31.1 does not fit")
    assert "protobuf==4.25.4" in blamed("onnx", text, **versions)
    told = blamed("cv2", f"ImportError: {LIBRARY}", numpy="1.26.4", protobuf="4.25.4")
    assert "libgl1" in told
    assert "opencv-python-headless==4.11.0.86" in told
    text = "OSError: libcublas.so.12: cannot open shared object file: No such file or directory"
    told = blamed("torch", text, numpy="1.26.4", protobuf="4.25.4")
    assert told.startswith("torch: torch 2.4.0 cannot be loaded: libcublas.so.12 is missing")
    assert "torch==2.4.0" in told
