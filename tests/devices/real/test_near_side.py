"""The near side over a real sshd against the vendor's libraries; outputs and times mean nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.api import RKNN
from engine.base.events import NullReporter
from engine.devices.doctor.examine import examine_board
from engine.services.board import perf
from engine.wire.devices import ExamineParams
from engine.wire.doctor import Check
from tests.devices.conftest import SshBoards
from tests.devices.known_model import stored
from tests.devices.real.conftest import RealBoard
from tests.devices.real.qemu_shell import qemu_shell
from tests.devices.verbs import run, told
from tests.safety import PATIENCE, ends

pytestmark = [pytest.mark.boards, pytest.mark.long, pytest.mark.sshd, pytest.mark.vendor]

BIG = ("librknnrt-1.6.0-armhf", "librknnrt-1.5.2-rk356x-armhf")
MINI = "librknnmrt-2.3.2-armhf-uclibc"

Reached = Callable[[str], tuple[str, Path]]
"""By the name of a library: where its board is for ``ssh``, and the folder that is its ``/``."""


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    with ends(2 * PATIENCE):
        yield


def equip(root: Path, real: RealBoard) -> None:
    """Let a board start its agent under qemu-user, and no program of it be this machine's."""
    (root / "lib").symlink_to(real.folder / "sysroot" / "lib")
    shell, cat = root / "usr" / "bin" / "sh", root / "usr" / "bin" / "cat"
    usual = shell.rename(shell.with_name("board-sh"))
    shell.write_text(qemu_shell(usual, real.run, root))
    # the near side looks into it for the processor of the board
    text = f'#!/bin/sh\nexec {cat.resolve()} "$@"\n'
    cat.unlink()
    cat.write_text(text)
    for script in (shell, cat):
        script.chmod(0o755)


@pytest.fixture
def reached(
    ssh_board: SshBoards,
    real_board: Callable[[str], RealBoard],
    library: Callable[[str], Path],
) -> Reached:
    """Makes a board with one of the vendor's libraries.

    Its files are those of an emulated board, its agent and runtime run under qemu-user.
    """

    def make(name: str) -> tuple[str, Path]:
        mini = name.startswith("librknnmrt")
        real = real_board("rv1106" if mini else "armhf" if "armhf" in name else "arm64")
        made, address = ssh_board("rv1106" if mini else "rk3588")
        made.image.install_runtime(library(name))
        equip(made.root, real)
        return str(address), made.root

    return make


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    return stored(tmp_path / "picture.npy", np.zeros((1, 8, 8, 3), np.uint8))


def examined(address: str, model: Path) -> dict[str, Check]:
    """What doctor found, by the name of the step; of several the first."""
    found = tuple(examine_board(ExamineParams(address, str(model), test=True)))
    return {check.name: check for check in reversed(found)}


def test_what_a_user_does(reached: Reached, models: dict[str, Path], picture: Path) -> None:
    """Find the board, examine it, run a model, time it, look at its memory: each by its verb."""
    address, root = reached(MINI)
    model, here = str(models["rv1106"]), ("--device", address)
    found = told("devices", "list", "--ssh", address)
    (board,) = [device for device in found["devices"] if device["kind"] == "ssh"]
    assert (board["id"], board["state"]) == (address, "ready")
    done = run("perf", model, *here, "--threads", "2")
    assert done.returncode == 2
    assert "runs a model on one thread" in done.stderr
    assert list(root.rglob("model-*.rknn")) == []  # it was said before the model was sent
    checks = told("doctor", *here, "--model", model)["checks"]
    assert {check["state"] for check in checks} <= {"ok", "skipped"}
    assert "librknnmrt 2.3.2" in str(checks)
    assert checks[-1]["name"] == "test tensor"
    assert len(told("run", model, *here, "-i", str(picture))["outputs"]) == 1
    assert told("perf", model, *here, "--loops", "3")["points"][0]["count"] == 3
    assert told("memory", model, *here)["memory"]["weight"] == 320


@pytest.mark.parametrize("name", BIG)
def test_the_big_runtime(reached: Reached, models: dict[str, Path], name: str) -> None:
    address, _root = reached(name)
    model = models["rk3588"]
    found = examined(address, model)
    assert {check.state for check in found.values()} <= {"ok", "skipped"}
    assert name.split("-")[1] in found["runtime"].found
    asked = {"device": address, "path": str(model), "threads": [2], "loops": 3, "layers": True}
    timed = perf(asked, NullReporter())
    assert timed["points"][0]["count"] == 6
    assert "conv" in timed["text"]


@pytest.mark.parametrize(
    ("name", "chip", "said"),
    [
        ("librknnmrt-1.5.2-armhf-uclibc", "rv1106", "crashed in rknn_init"),
        ("librknnrt-1.4.0-rk356x-aarch64", "rk3588", "Invalid RKNN model version 6"),
    ],
)
def test_a_runtime_that_does_not_read_the_container(
    reached: Reached, models: dict[str, Path], name: str, chip: str, said: str
) -> None:
    found = examined(reached(name)[0], models[chip])
    assert {check.name for check in found.values() if check.state == "bad"} == {
        "versions",
        "test tensor",
    }
    assert "does not load models whose container has version" in found["versions"].found
    assert said in found["test tensor"].remedy


@pytest.mark.parametrize("name", [MINI, BIG[0]])
def test_the_class(reached: Reached, models: dict[str, Path], name: str) -> None:
    """The vendor's calls, in Python."""
    mini = name == MINI
    chip = "rv1106" if mini else "rk3588"
    rknn = RKNN()
    assert rknn.load_rknn(str(models[chip])) == 0
    board = {"target": chip, "device_id": reached(name)[0]}
    assert rknn.init_runtime(**board, eval_mem=True) == 0
    (made,) = rknn.inference(inputs=[np.zeros((1, 8, 8, 3), np.uint8)], data_format=["nhwc"])
    assert made.size == 256
    assert rknn.eval_perf(is_print=False) != -1
    used = rknn.eval_memory(is_print=False)
    assert used["weight_memory"] == (320 if mini else 2880)
    assert name.split("-")[1] in str(rknn.get_sdk_version())
    rknn.release()
