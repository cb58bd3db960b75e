"""Emulated boards of every kind behind one adb server, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from rknntui.demo import demo_folder
from tests.devices.adb_server import AdbServer, known, serving
from tests.devices.conftest import Equip, add_c_library
from tests.devices.demo_container import LAYER, demo_container, digits, simulated
from tests.devices.faulty_board import FaultyBoard
from tests.devices.known_model import stored
from tests.safety import PATIENCE, ends

KINDS = {
    "rk3588": ("rk3588", False),
    "rk3566": ("rk3566", False),
    "rv1106": ("rv1106", False),
    "rk1808": ("rk1808", False),  # generation 1; its adbd has no shell_v2
    "android": ("rk3588", True),
}
"""Kind of a board -> its chip, and whether it runs Android."""

LOADS = {"rk3588": (10, 40, 90), "rk3566": (55,), "rv1106": (35,), "android": (20, 30, 70)}
"""What the NPU of a board is busy with, in percent of each core; rk1808's driver does not say."""

NO_MEMORY = "not available on this runtime"


@dataclass(frozen=True)
class Stand:
    """One emulated board with its model.

    Attributes:
        kind: of :data:`KINDS`.
        board: the board; its runtime answers as the simulator does.
        container: the demo model for its chip.
        recipe: the recipe of the same build.
        device: its address, as a user gives it.
    """

    kind: str
    board: FaultyBoard
    container: Path
    recipe: Path
    device: str

    @property
    def chip(self) -> str:
        return self.board.board.chip

    @property
    def generation(self) -> int:
        return self.board.board.generation

    @property
    def id(self) -> str:
        """Its address in the list."""
        return self.device if self.kind == "ssh" else f"adb:{self.device}"

    def expected(self, digit: np.ndarray) -> dict[str, np.ndarray]:
        """What the simulator makes of it."""
        return simulated(self.container, digit, generation=self.generation)

    def models(self) -> list[str]:
        """Names of the models that were sent."""
        return sorted(path.name for path in self.board.root.rglob("model-*.rknn"))

    def left(self) -> list[str]:
        """What a session made on the board and did not take away."""
        found = [*self.board.root.rglob("run-*"), *self.board.root.rglob("clocks.json")]
        return sorted(path.name for path in found)


def recipe_for(folder: Path, chip: str) -> Path:
    """The recipe of the demo model for a chip."""
    demo = demo_folder()
    recipe = folder / f"{chip}.yaml"
    first = chip == "rk1808"
    quantized = "quantization: {quantized_dtype: asymmetric_quantized-u8}\n" if first else ""
    recipe.write_text(
        "version: 1\n"
        f"source: {{model: {demo / 'digits_demo.onnx'}}}\n"
        "preprocess: {mean_values: [[0]], std_values: [[16]]}\n"
        f"dataset: {{dataset: {demo / 'dataset.txt'}}}\n"
        f"target: {{target_platform: {chip}}}\n{quantized}",
        encoding="utf-8",
    )
    return recipe


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    with ends(4 * PATIENCE):
        yield


def ready(kind: str, board: FaultyBoard, folder: Path, device: str = "") -> Stand:
    """A board that has its runtime, with its model."""
    chip = board.board.chip
    add_c_library(board)
    if kind in LOADS:
        board.set_load(LOADS[kind])
    container = folder / f"{chip}.rknn"
    if not container.exists():
        demo_container(container, chip, generation=board.board.generation)
    return Stand(kind, board, container, recipe_for(folder, chip), device or board.address)


@pytest.fixture(scope="module")
def equipped(
    tmp_path_factory: pytest.TempPathFactory, equip: Equip
) -> Iterator[Callable[[str], Stand]]:
    """Makes boards whose runtime answers as the simulator does; they end with the module."""
    folder = tmp_path_factory.mktemp("end-to-end")
    with ExitStack() as ending:

        def make(kind: str) -> Stand:
            chip, android = KINDS[kind]
            board = ending.enter_context(FaultyBoard(chip, android=android, serial=f"emu-{kind}"))
            return ready(kind, equip(board), folder)

        yield make


@pytest.fixture(scope="module")
def module_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdbServer]:
    """The adb server of a file's tests."""
    with serving(tmp_path_factory.mktemp("adb")) as server:
        yield server


@pytest.fixture(scope="module")
def stands(module_server: AdbServer, equipped: Callable[[str], Stand]) -> Callable[[str], Stand]:
    """Makes boards that the server is connected to, one of each kind."""
    made: dict[str, Stand] = {}

    def get(kind: str) -> Stand:
        if kind not in made:
            made[kind] = equipped(kind)
            module_server.connect(made[kind].device)
        return made[kind]

    return get


@pytest.fixture
def found_server(module_server: AdbServer) -> Iterator[AdbServer]:
    """Programs of this test find the server."""
    with known(module_server):
        yield module_server


@pytest.fixture(
    params=[pytest.param(k, marks=[pytest.mark.sshd] if k == "ssh" else []) for k in KINDS]
)
def stand(
    request: pytest.FixtureRequest,
    stands: Callable[[str], Stand],
    equip: Equip,
    tmp_path: Path,
    found_server: AdbServer,
) -> Iterator[Stand]:
    """A board of each kind; the test leaves nothing on it."""
    if request.param == "ssh":  # the keys are at the home of each test
        board, address = request.getfixturevalue("ssh_board")("rk3588")
        one = ready("ssh", equip(board), tmp_path, str(address))
    else:
        one = stands(request.param)
    yield one
    assert one.left() == []
    assert one.board.alive_orphans() == []


@pytest.fixture
def digit() -> np.ndarray:
    """A picture of a digit, uint8 NHWC."""
    return digits(1)[0]


@pytest.fixture
def digit_file(tmp_path: Path, digit: np.ndarray) -> Path:
    """The same as a file."""
    return stored(tmp_path / "a digit's $(touch x).npy", digit)


@pytest.fixture
def bent(stand: Stand) -> Iterator[str]:
    """A layer of which the board makes wrong values."""
    stand.board.bend(LAYER)
    yield LAYER
    stand.board.bend(None)
