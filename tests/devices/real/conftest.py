"""The room of ``.ci/boards``: the vendor's real board-side libraries, under qemu-user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.devices.agent.built import PREBUILT
from tests.conftest import ENVIRONMENT, REPOSITORY

CROSS = {"arm64": "aarch64-linux-gnu-gcc", "armhf": "arm-linux-gnueabihf-gcc"}
"""The compiler for a kind of board."""

AGENTS = {"arm64": "agent-aarch64", "armhf": "agent-armv7l", "rv1106": "agent-armv7l-uclibc"}
"""The agent for a kind of board."""


def room() -> Path:
    """Where ``.ci/boards`` made the boards; the home that it looked into is not a test's own."""
    given = ENVIRONMENT.get("RKNNTUI_BOARDS")
    if given:
        return Path(given)
    cache = ENVIRONMENT.get("XDG_CACHE_HOME") or Path(ENVIRONMENT.get("HOME", "/")) / ".cache"
    return Path(cache) / "rknntui" / "boards"


def facts() -> Path:
    """The vendor's libraries and headers, beside the checkout."""
    given = os.environ.get("RKNNTUI_SHARED")
    shared = Path(given) if given else REPOSITORY.parent / "shared"
    return shared / "facts" / "devices" / "real"


@dataclass(frozen=True)
class RealBoard:
    """A kind of board of the room.

    Attributes:
        name: ``arm64``, ``armhf`` or ``rv1106``.
        folder: what ``.ci/boards`` made for it.
    """

    name: str
    folder: Path

    @property
    def agent(self) -> Path:
        """The agent for it, of those that come with the program."""
        return PREBUILT / AGENTS[self.name]

    @property
    def run(self) -> str:
        """The program that runs one of the board's."""
        return str(self.folder / "run")


@pytest.fixture(scope="session")
def headers() -> list[Path]:
    """The vendor's headers, with the compilers that lay out their structures."""
    found = sorted((facts() / "include").glob("*.h"))
    if not found:
        pytest.skip(f"there are no headers in {facts() / 'include'}")
    for compiler in CROSS.values():
        if shutil.which(compiler) is None:
            pytest.skip(f"there is no {compiler}: run .ci/boards")
    return found


@pytest.fixture(scope="session")
def real_board() -> Callable[[str], RealBoard]:
    """A kind of board of the room, by name."""

    def get(name: str) -> RealBoard:
        board = RealBoard(name, room() / name)
        if not (board.folder / "run").exists():
            pytest.skip(f"there is no {board.folder}: run .ci/boards")
        return board

    return get


@pytest.fixture(scope="session")
def library() -> Callable[[str], Path]:
    """One of the vendor's libraries, by the name of its file without the ending."""

    def get(name: str) -> Path:
        path = facts() / "lib" / f"{name}.so"
        if not path.exists():
            pytest.skip(f"there is no {path}")
        return path

    return get


@pytest.fixture(scope="session")
def models(vendor_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A convolution compiled by the vendor's toolkit, by chip."""
    folder = tmp_path_factory.mktemp("models")
    weight = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"], "relu"),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 8])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)])
    model.ir_version = 8
    onnx.save(model, str(folder / "tiny.onnx"))
    np.save(folder / "sample.npy", np.zeros((1, 3, 8, 8), np.uint8))
    (folder / "dataset.txt").write_text("sample.npy\n")
    chips = ("rv1106", "rk3588")
    words = [word for chip in chips for word in ("--chip", chip)]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "rknntui", "compile", "tiny.onnx", "--dataset", "dataset.txt",
         *words, "-o", "{chip}.rknn"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "RKNNTUI_VENDOR": str(vendor_folder)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {chip: folder / f"{chip}.rknn" for chip in chips}
