"""The emulated board: a distribution of its own, behind one door, and what is said without it."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import rknntui_emulator
from engine import EMULATED_CHIPS, DeviceError, emulate
from engine.base.version import __version__, install_line
from rknntui_emulator.boards import BOARDS
from tests.packaging.test_wheel import built_of, from_wheel, installed_from, names_in, tracked


def test_both_distributions_have_one_version_and_licence(repository: Path) -> None:
    main = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    own = tomllib.loads((repository / "emulator" / "pyproject.toml").read_text())["project"]
    (needed,) = map(Requirement, main["optional-dependencies"]["emulator"])
    (engine,) = map(Requirement, own["dependencies"])
    assert rknntui_emulator.__version__ == __version__
    assert (needed.name, str(needed.specifier)) == (own["name"], f"=={__version__}")
    assert (engine.name, str(engine.specifier)) == (main["name"], f"=={__version__}")
    assert own["requires-python"] == main["requires-python"]
    licences = [(repository / folder / "LICENSE").read_bytes() for folder in (".", "emulator")]
    assert licences[0] == licences[1]


def test_every_board_has_its_name_at_the_door() -> None:
    assert tuple(BOARDS) == EMULATED_CHIPS


def start() -> None:
    emulate(
        "rk3588",
        stop=threading.Event(),
        started=lambda *_: pytest.fail("there is none"),
        warn=print,
    )


def test_without_it_the_engine_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rknntui_emulator", None)
    with pytest.raises(DeviceError, match="it is not installed") as caught:
        start()
    assert "extra 'emulator'" in caught.value.cause
    assert caught.value.remedy == install_line("emulator")


def test_that_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rknntui_emulator, "__version__", "0.0.9")
    with pytest.raises(DeviceError, match=f"version 0.0.9, and this program of {__version__}"):
        start()


@pytest.mark.long
def test_the_program_works_from_its_wheel_with_and_without_it(
    repository: Path, tmp_path: Path
) -> None:
    main = built_of(repository, tmp_path / "main")
    own = built_of(repository / "emulator", tmp_path / "own")
    package = "rknntui_emulator"
    assert names_in(own) == {
        f"{package}/{name}" for name in tracked(repository / "emulator", package)
    }
    place = installed_from(main, tmp_path)
    done = from_wheel(place, "rknntui", "devices", "emulate", "rk3588", cwd=tmp_path)
    assert done.returncode == DeviceError.exit_code
    assert "it is not installed" in done.stderr
    assert "pip install rknntui-emulator==" in done.stderr
    for words in (["devices", "emulate", "--help"], ["demo", "--headless"]):
        assert from_wheel(place, "rknntui", *words, cwd=tmp_path).returncode == 0

    wheel_of_it = str(next(own.glob("*.whl")))
    install = [sys.executable, "-m", "pip", "--python", str(place / "python"), "install", "-q"]
    subprocess.run([*install, "--no-deps", "--force-reinstall", wheel_of_it], check=True)
    words = shlex.join(["rknntui", "devices", "emulate", "rk3588", "--json"])
    done = from_wheel(
        place, "timeout", "-s", "INT", "20", "sh", "-c", f"exec {words}", cwd=tmp_path
    )
    assert '"emulated": true' in done.stdout, done.stderr
