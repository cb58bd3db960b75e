"""A toolkit that a hostile model took over: it has its own folder, and what it was given."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import CompilerError
from engine.base.events import NullReporter
from engine.toolkit.environments.probe import probe
from engine.toolkit.precompile import ToolkitCall, precompiled
from engine.wire.vendor import ToolkitEnvironment
from tests.base.confine import attack
from tests.base.confine.scene import DENIED, Scene, require_walls, scene
from tests.base.confine.test_attack import OF_A_TOOLKIT, OWN, SAYS_SO
from tests.toolkit.bridge.conftest import Start
from tests.toolkit.standin import make_environment

_CLASS = """

class RKNN:
    def __init__(self, **_):
        pass

    def config(self, **given):
        return attack(**given)

    def load_onnx(self, model):
        return len(read(model))

    def load_tflite(self, model):
        try:
            return len(read(model))
        except OSError as error:
            print("E load_tflite: %s" % os.strerror(error.errno), flush=True)
            return -1

    def build(self, **_):
        os.setsid()

    def release(self):
        pass
"""


@pytest.fixture(autouse=True)
def needs_walls() -> None:
    require_walls()


@pytest.fixture
def place() -> Iterator[Scene]:
    with scene(os.geteuid()) as made:
        yield made


@pytest.fixture
def hostile(tmp_path: Path) -> ToolkitEnvironment:
    text = Path(attack.__file__).read_text("utf-8").partition('\nif __name__ == "__main__"')[0]
    return make_environment(tmp_path / "hostile", code=text + _CLASS)


def attacked(start: Start, hostile: ToolkitEnvironment, place: Scene, **how: Any) -> dict[str, str]:
    """What came of it; how it is started may say that there is a board."""
    toolkit = start(hostile, reads=[Path(place.given["given"])], **how)
    rknn = toolkit.rknn()
    keywords = place.given | {"folder": str(toolkit.work)}
    if how:
        keywords["spared"] = ["connect by a file", "send from a pair"]
    found: dict[str, str] = rknn.call("config", **keywords)
    assert rknn.call("load_onnx", place.given["given"]) == len(b"precious")
    return found


@pytest.mark.parametrize("board", [False, True])
def test_it_reaches_nothing(
    board: bool, start: Start, hostile: ToolkitEnvironment, place: Scene
) -> None:
    said = attacked(start, hostile, place, **({"board": True} if board else {}))
    place.check_untouched()
    open_ = OWN | OF_A_TOOLKIT | SAYS_SO | ({"connect", "send"} if board else set())
    assert {name for name, how in said.items() if how == "done"} == open_
    assert {how for name, how in said.items() if name not in open_} <= DENIED


def test_what_was_refused_is_said(start: Start, hostile: ToolkitEnvironment, place: Scene) -> None:
    toolkit = start(hostile)
    rknn = toolkit.rknn()
    with pytest.raises(CompilerError, match="load_onnx of the toolkit was refused") as caught:
        rknn.call("load_onnx", str(place.secret))
    assert str(place.secret) in caught.value.what
    assert "sandbox" in caught.value.cause
    with pytest.raises(CompilerError, match="was refused a call of the system"):
        rknn.call("build")  # it would outlive its process group
    assert toolkit.alive


def test_what_a_toolkit_only_prints_is_explained(
    start: Start, hostile: ToolkitEnvironment, place: Scene
) -> None:
    toolkit = start(hostile)
    rknn = toolkit.rknn()
    for path, is_told in (("nowhere", False), (str(place.secret), True)):
        mark = toolkit.mark
        assert rknn.call("load_tflite", path) == -1
        assert ("sandbox" in toolkit.refused("load_tflite", mark).cause) is is_told


def test_an_import_that_is_looked_at_changes_nothing(tmp_path: Path, place: Scene) -> None:
    """`rknntui vendor check` and `adopt` import the packages of an environment."""
    made = make_environment(tmp_path / "environment", code=f"open({str(place.target)!r}, 'w')\n")
    (tried,) = probe(made.python, NullReporter(), ["rknn.api"]).attempts
    assert "Permission denied" in tried.error
    place.check_untouched()


def test_packages_that_are_links_are_read_where_they_are(tmp_path: Path) -> None:
    made = make_environment(tmp_path / "environment")
    package = next((tmp_path / "environment").rglob("rknn/__init__.py")).parent
    package.rename(tmp_path / "rknn")
    package.symlink_to(tmp_path / "rknn")
    (tried,) = probe(made.python, NullReporter(), ["rknn.api"]).attempts
    assert tried.ok, tried.error


def test_a_script_names_the_files_that_are_read(
    standin: ToolkitEnvironment, tmp_path: Path
) -> None:
    """Precompiling says a script again: model, list and samples lie where the user has them."""
    model, sample = tmp_path / "net.onnx", tmp_path / "samples" / "1.npy"
    sample.parent.mkdir()
    for path in (model, sample):
        path.write_bytes(b"x")
    dataset = tmp_path / "dataset.txt"
    dataset.write_text(f"{sample}\n")
    calls = [
        ToolkitCall("config", {"target_platform": ["rk1808"]}),
        ToolkitCall("load_onnx", {"model": str(model)}),
        ToolkitCall("build", {"dataset": str(dataset), "pre_compile": True}),
    ]
    assert precompiled(calls, standin)[:4] == b"RKNN"


def test_a_board_needs_what_its_programs_need(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vendor's proxy and adb are started from where the user has them, with a board only."""
    programs = tmp_path / "programs"
    programs.mkdir()
    shutil.copy("/bin/echo", programs / "npu_transfer_proxy")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    code = (
        "import subprocess\nclass RKNN:\n    def __init__(self, **_): pass\n"
        "    def list_devices(self):\n"
        "        return subprocess.check_output(['npu_transfer_proxy', 'devices']).decode()\n"
    )
    made = make_environment(tmp_path / "environment", code=code)
    assert start(made, board=True).rknn().call("list_devices") == "devices\n"
    with pytest.raises(CompilerError, match="was refused"):
        start(made).rknn().call("list_devices")
