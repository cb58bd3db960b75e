"""What tests of boards stand on: a real adb server, and emulated boards that it knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engine.devices.address import Address
from engine.devices.probe.versions import LIBRARIES
from rknntui_emulator.programs import LOADERS
from rknntui_emulator.runtime.build import Kind, build, compiler
from tests.container.vendor import build as vendor
from tests.devices.adb_server import AdbServer, known, serving
from tests.devices.fake_board import FakeBoard
from tests.devices.faulty_board import FaultyBoard
from tests.devices.ssh import server
from tests.devices.ways import WAYS, Way, way_to

Equip = Callable[[FaultyBoard], FaultyBoard]
FAULTS = Path(__file__).parent / "agent" / "faults.c"
"""What the libraries of tests do wrong when they are told."""
Libraries = Callable[..., Path]
Machine = Callable[..., FakeBoard]
SshBoards = Callable[..., tuple[FaultyBoard, Address]]
Boards = Callable[..., FaultyBoard]
"""``board(chip, **options)`` of :class:`FaultyBoard`; ``connect=False`` leaves adb out of it."""


def add_c_library(made: FaultyBoard) -> None:
    """Let a board have the C library of this machine: an Android board has none that runs the
    agents that come with the program. It stands for an agent that the user built with the NDK.
    """
    for name in LOADERS:
        loader = made.root / name.lstrip("/")
        if Path(name).exists() and not loader.is_symlink():
            loader.parent.mkdir(parents=True, exist_ok=True)
            loader.symlink_to(name)


@pytest.fixture
def adb_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdbServer]:
    """A server of this test alone."""
    with serving(tmp_path_factory.mktemp("adb")) as adb, known(adb):
        yield adb


@pytest.fixture
def emulated() -> Iterator[Boards]:
    """Makes emulated boards that end with the test; adb hears nothing of them."""
    with ExitStack() as boards:

        def make(chip: str = "rk3588", **options: Any) -> FaultyBoard:
            return boards.enter_context(FaultyBoard(chip, **options))

        yield make


@pytest.fixture
def board(adb_server: AdbServer, emulated: Boards) -> Boards:
    """Makes emulated boards that the test's server is connected to."""

    def make(chip: str = "rk3588", *, connect: bool = True, **options: Any) -> FaultyBoard:
        made = emulated(chip, **options)
        if connect:
            adb_server.connect(made.address)
        return made

    return make


@pytest.fixture
def ssh_board(
    emulated: Boards, own_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SshBoards]:
    """Makes an emulated board behind a real sshd, one in a test; where it is for ``ssh``."""
    with ExitStack() as ends:

        def make(chip: str = "rk3588", **options: Any) -> tuple[FaultyBoard, Address]:
            made = emulated(chip, **options)
            folder = tmp_path_factory.mktemp("sshd") / "server"
            made.sshd = ends.enter_context(server.serving(folder, own_home))
            made.sshd.configure(ForceCommand=str(made.login()))
            return made, Address("ssh", "127.0.0.1", "", made.sshd.port)

        yield make


@pytest.fixture(params=WAYS.values())
def way(request: pytest.FixtureRequest, own_home: Path, tmp_path: Path) -> Iterator[Way]:
    """A board that is reached in each way."""
    with way_to(request.param, request, own_home, tmp_path) as reached:
        yield reached


@pytest.fixture(scope="session")
def equip(tmp_path_factory: pytest.TempPathFactory) -> Equip:
    """Gives a board its runtime library, each compiled once, whose answers are simulated."""
    if compiler() is None:
        pytest.skip("there is no C compiler")

    def ready(made: FaultyBoard) -> FaultyBoard:
        made.equip(tmp_path_factory.getbasetemp() / "stand-ins", pytest.fail)
        made.simulate()
        return made

    return ready


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    """Stand-in libraries by their file or generation, each compiled once."""
    if compiler() is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # the processes of one run share them
        folder = folder.parent
    folder /= "stand-ins-of-tests"
    kinds: dict[Kind | int, Kind] = {1: "librknn_runtime.so", 2: "librknnrt.so"}

    def built(which: Kind | int = 2, version: str = "") -> Path:
        kind = kinds.get(which, which)
        return build(kind, folder / (version or "newest"), version=version or None, also=[FAULTS])

    return built


@pytest.fixture
def machine(
    tmp_path: Path, libraries: Libraries, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    """Makes this machine a board; a stand-in of its runtime library is in ``root / "lib"``."""
    with ExitStack() as boards:

        def make(generation: int = 2) -> FakeBoard:
            made = FakeBoard(tmp_path / "board")
            boards.callback(made.close)
            name = "librknnrt.so" if generation == 2 else "librknn_runtime.so"
            library = made.root / "lib" / name
            library.parent.mkdir(parents=True)
            library.write_bytes(libraries(generation).read_bytes())
            monkeypatch.setitem(LIBRARIES, generation, (str(library),))
            return made

        yield make


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A compiled model of generation 2, for RK3588."""
    path = tmp_path / "it's a $(touch x) model.rknn"
    path.write_bytes(vendor.npu(s2=[vendor.graph(4)]))
    return path


@pytest.fixture
def first_model(tmp_path: Path) -> Path:
    """One of generation 1."""
    path = tmp_path / "first.rknn"
    path.write_bytes(vendor.precompiled())
    return path


@pytest.fixture
def no_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent in C comes with the program, as on a processor that none is built for."""
    monkeypatch.setattr("engine.devices.agent.built.PREBUILT", tmp_path / "nothing")
