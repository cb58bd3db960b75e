"""rknntui vendor, and doctor's lines on toolkits: the verbs over a small environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.toolkit.environments.standins import Stand, environment, put, site_of, toolkit


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment in which a toolkit can be imported."""
    setuptools = Stand("setuptools", "75.8.0", files={"pkg_resources.py": ""})
    folder = tmp_path_factory.mktemp("vendor") / "env"
    return environment(folder, toolkit("2.2.9", "onnx>=1.16"), setuptools)


def test_adopted_checked_shown_and_forgotten(warm: Run, place: Path) -> None:
    assert "rknntui vendor install" in warm("vendor", "list").out
    ran = warm("vendor", "adopt", place, "--name", "mine", "-q", exit=1)
    assert "mine: broken" in ran.out
    assert "onnx is missing" in ran.out
    assert "pip install" in ran.out
    picture = warm("doctor", exit=1)
    assert "bad  toolkit mine: onnx is missing" in picture.out
    put(place, Stand("onnx", "1.16.1", files={"onnx.py": ""}))
    ran = warm("vendor", "check", "mine", "--json", "-q", exit=0)
    assert (ran.json["state"], ran.json["generation"]) == ("ready", 2)
    assert "ok   toolkit mine: rknn-toolkit2 2.2.9" in warm("doctor").out
    ran = warm("vendor", "list", "--size", "--json")
    (row,) = ran.json["environments"]
    assert (row["name"], row["default"], row["managed"]) == ("mine", True, False)
    assert row["size"] > 0
    assert "mine" in warm("vendor", "default", "mine").out
    ran = warm("vendor", "remove", "mine", "-q")
    assert "stays as it is" in ran.out
    assert site_of(place).is_dir()
    assert warm("vendor", "list", "--json").json == {"environments": []}


def test_what_cannot_be_done_ends_with_15(warm: Run, tmp_path: Path) -> None:
    for arguments in (
        ["check"],
        ["remove", "nothing"],
        ["default", "nothing"],
        ["adopt", str(tmp_path)],
        ["install", "--version", "9.9.9"],
        # wheels are missing, or this Python is too new for the toolkit
        ["install", "--wheels", str(tmp_path), "--python", sys.executable],
    ):
        ran = warm("vendor", *arguments, "--json")
        assert ran.code == 15, arguments
        assert ran.json["error"]["kind"] == "toolkit"
        assert ran.json["error"]["remedy"], arguments
