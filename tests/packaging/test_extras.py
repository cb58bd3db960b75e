"""What an error tells to install is what the extras of ``pyproject.toml`` bring."""

from __future__ import annotations

import importlib.util
import shlex
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from engine.base.errors import UsageError
from engine.base.version import install_line, requirements
from engine.frontends.converter_process import FRAMEWORKS
from engine.jobs.cluster import open_cluster
from engine.services.machine import EXTRAS, machine_checks


def test_the_lines_are_those_of_the_extras(repository: Path) -> None:
    """As pip was told when it installed this program."""
    extras = tomllib.loads((repository / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    used = {kind.extra for kind in FRAMEWORKS.values()} | {"sweep", "emulator"}
    assert used == set(EXTRAS)
    assert shlex.split(install_line("emulator"))[4:] == ["-e", str(repository / "emulator")]
    for extra in used - {"emulator"}:
        wanted = sorted(str(Requirement(line)) for line in extras[extra])
        python, module, pip, install, *packages = shlex.split(install_line(extra))
        assert (python, module, pip, install) == (sys.executable, "-m", "pip", "install")
        assert sorted(packages) == wanted


def test_what_was_not_installed_by_pip_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_name: str) -> list[str]:
        raise PackageNotFoundError("rknntui")

    monkeypatch.setattr("engine.base.version.metadata.requires", none)
    assert requirements() == ()
    assert install_line("torch") == f"{sys.executable} -m pip install 'rknntui[torch]'"


def test_the_doctor_looks_at_all_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = {check.name: check for check in machine_checks()}
    for name in ("asyncssh", "cryptography", "flatbuffers", "tflite", "textual", "watchdog"):
        assert checks[f"library {name}"].found.startswith(version(name)), name
    asked = ["numpy>=2", "nothing-of-it>=1", "click<1", "here-only; python_version < '3'"]
    asked += ["dask<1; extra == 'sweep'", "click; extra == 'torch'"]
    monkeypatch.setattr("engine.base.version.metadata.requires", lambda _name: asked)
    checks = {check.name: check for check in machine_checks()}
    libraries = {name: check.state for name, check in checks.items() if "library" in name}
    assert libraries == {
        "C library": "ok",
        "library numpy": "ok",
        "library nothing-of-it": "bad",
        "library click": "note",
    }
    assert checks["PyTorch models"].found == f"click {version('click')}"
    assert checks["TensorFlow models"].found == "not installed"


def test_the_doctor_survives_without_the_library_that_reads_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "packaging.requirements", None)
    checks = {check.name: check for check in machine_checks()}
    assert checks["library packaging.requirements"].state == "bad"
    assert "adb" in checks


def test_the_doctor_names_only_the_adb_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adbutils brings one along, which is never started."""
    monkeypatch.setenv("PATH", "/nowhere")
    (check,) = [check for check in machine_checks() if check.name == "adb"]
    assert (check.state, check.found) == ("note", "no adb program")


def test_a_sweep_without_dask_gives_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(UsageError, match="needs Dask and cryptography") as caught:
        open_cluster(None, 1).__enter__()
    assert caught.value.remedy == install_line("sweep")
    assert "'dask[distributed]" in caught.value.remedy


@pytest.mark.parametrize("page", ["README.md", "docs", "compat/README.md", "CONTRIBUTING.md"])
def test_pages_link_the_clone_and_copy_nothing(repository: Path, page: str) -> None:
    """Without -e pip copies the program: after `git pull` the old code would run."""
    path = repository / page
    found = []
    for file in sorted(path.rglob("*.md")) if path.is_dir() else [path]:
        for line in file.read_text(encoding="utf-8").splitlines():
            for verb in ("pip install ", "uv tool install "):
                words = line.partition(verb)[2].partition("`")[0].partition("#")[0].split()
                places = [w for w in words if w.strip("'").startswith((".[", "./")) or w == "."]
                if places and not {"-e", "--editable"} & set(words):
                    found.append(f"{file.name}: {line.strip()}")
    assert not found
