"""The near side over a real sshd against the vendor's libraries; outputs and times mean nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.devices.address import Address
from engine.devices.emulator.emulator import BoardEmulator
from tests.devices.end_to_end.conftest import told
from tests.devices.real.conftest import RealBoard
from tests.devices.real.qemu_shell import qemu_shell
from tests.safety import PATIENCE, ends

pytestmark = [pytest.mark.boards, pytest.mark.long, pytest.mark.sshd, pytest.mark.vendor]

BIG = ("librknnrt-1.6.0-armhf", "librknnrt-1.5.2-rk356x-armhf")
MINI = "librknnmrt-2.3.2-armhf-uclibc"


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
    ssh_board: Callable[..., tuple[BoardEmulator, Address]],
    real_board: Callable[[str], RealBoard],
    library: Callable[[str], Path],
) -> Callable[[str], str]:
    """Makes a board with one of the vendor's libraries; where it is for ``ssh``.

    Its files are those of an emulated board, its agent and runtime run under qemu-user.
    """

    def make(name: str) -> str:
        mini = name.startswith("librknnmrt")
        real = real_board("rv1106" if mini else "armhf")
        made, address = ssh_board("rv1106" if mini else "rk3588")
        made.image.install_runtime(library(name))
        equip(made.root, real)
        return str(address)

    return make


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.npy"
    np.save(path, np.zeros((1, 8, 8, 3), np.uint8))
    return path


def checks(address: str, *more: str) -> dict[str, Any]:
    """What doctor found, by the name of the step."""
    return {check["name"]: check for check in told("doctor", "--device", address, *more)["checks"]}


@pytest.mark.parametrize("name", [MINI, *BIG])
def test_doctor(reached: Callable[[str], str], name: str) -> None:
    found = checks(reached(name))
    assert found["runtime"]["state"] == "ok"
    assert name.split("-")[1] in str(found["runtime"])


@pytest.mark.parametrize("name", [MINI, *BIG])
def test_memory(reached: Callable[[str], str], models: dict[str, Path], name: str) -> None:
    model = models["rv1106" if name == MINI else "rk3588"]
    found = told("memory", str(model), "--device", reached(name))
    assert found["memory"]["weight"] == (320 if name == MINI else 2880)


def check_run_and_perf(model: Path, address: str, picture: Path, *more: str) -> None:
    done = told("run", str(model), "--device", address, "-i", str(picture))
    assert len(done["outputs"]) == 1
    timed = told("perf", str(model), "--device", address, "--loops", "3", *more)
    assert timed["points"][0]["count"] >= 3


@pytest.mark.parametrize("name", BIG)
def test_run_and_perf(
    reached: Callable[[str], str], models: dict[str, Path], picture: Path, name: str
) -> None:
    check_run_and_perf(models["rk3588"], reached(name), picture, "--threads", "2")


def test_run_and_perf_on_the_mini_runtime(
    reached: Callable[[str], str], models: dict[str, Path], picture: Path
) -> None:
    check_run_and_perf(models["rv1106"], reached(MINI), picture)
