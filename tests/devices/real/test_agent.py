"""The agents that come along against each release of the vendor's libraries, computing nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.base.peers.near import PeerEndedError
from tests.devices.agent.conftest import Agent, starting
from tests.devices.real.conftest import RealBoard
from tests.safety import ends

__all__ = ["starting"]
pytestmark = [pytest.mark.boards, pytest.mark.long]

MINI = ("1.6.0", "2.0.0b0", "2.1.0", "2.2.0", "2.3.0", "2.3.2")
"""Releases of librknnmrt that load a model of toolkit 2.3.2."""
MINI_DIE = ("1.4.0", "1.5.0", "1.5.2")
"""Those that die in ``rknn_init`` of one, after "failed to decode config data!"."""
BIG = ("librknnrt-1.6.0-armhf", "librknnrt-1.5.2-rk356x-armhf")
BIG_OLD = ("librknnrt-1.4.0-rk356x-aarch64", "librknnrt-1.3.0-rk3588-aarch64")
"""Those that refuse its container version."""


def mini(version: str) -> str:
    return f"librknnmrt-{version}-armhf-uclibc"


def kind_of(name: str) -> str:
    """The kind of board that a library is for."""
    if name.startswith("librknnmrt"):
        return "rv1106"
    return "armhf" if name.endswith("armhf") else "arm64"


@pytest.fixture
def start(
    real_board: Callable[[str], RealBoard],
    library: Callable[[str], Path],
    starting: Callable[..., Agent],
    tmp_path: Path,
) -> Callable[..., Agent]:
    """Starts agents on boards with one of the vendor's libraries."""

    def make(name: str, model: Path | None = None) -> Agent:
        board = real_board(kind_of(name))
        agent = starting([board.run, str(board.agent)], tmp_path, library(name))
        if model is not None:
            agent.model.write_bytes(model.read_bytes())
        return agent

    return make


def opened(agent: Agent, name: str, **params: Any) -> Any:
    """What the library told of the model: all of it comes from the library's own queries."""
    told = agent.open(**params)
    assert told["generation"] == 2
    assert told["api_version"].split()[0] == name.split("-")[1]
    assert told["driver_version"] == "0.9.8"
    (given,), (made,) = told["inputs"], told["outputs"]
    assert (given["name"], given["dims"], given["dtype"]) == ("x", [1, 8, 8, 3], "INT8")
    assert (made["name"], made["dtype"], made["size"]) == ("y", "INT8", 256)
    return told


def run(agent: Agent, **params: Any) -> Any:
    picture = {**agent.input(bytes(192), "UINT8"), "pass_through": False}
    return agent.run(picture, outputs=str(agent.folder), **params)


@pytest.mark.vendor
@pytest.mark.parametrize("version", MINI)
def test_the_mini_runtime_runs(
    start: Callable[..., Agent], models: dict[str, Path], version: str
) -> None:
    agent = start(mini(version), models["rv1106"])
    told = opened(agent, mini(version), perf=True)
    assert told["memory"]["weight"] == 320
    assert agent.result("memory") == told["memory"]
    for _ in range(2):  # the library does not bind memory twice
        done = run(agent, loops=2)
        assert [output["size"] for output in done["outputs"]] == [256]
        assert len(done["wall_us"]) == 2
        assert not done["perf"]  # it has no table of layers
    said = agent.error(
        "run", inputs=[{**agent.input(bytes(192), "UINT8"), "pass_through": False}], threads=2
    )
    assert "on one thread, not on 2" in said["what"]


@pytest.mark.vendor
@pytest.mark.parametrize("version", MINI_DIE)
def test_a_mini_runtime_that_dies_of_a_newer_model(
    start: Callable[..., Agent], models: dict[str, Path], version: str
) -> None:
    """The library itself is killed in ``rknn_init``; the near side tells of it."""
    agent = start(mini(version), models["rv1106"])
    with ends(), pytest.raises(PeerEndedError):
        agent.open()
    assert agent.child.process.wait(10) == -11


@pytest.mark.vendor
def test_the_oldest_mini_runtime_refuses(
    start: Callable[..., Agent], models: dict[str, Path]
) -> None:
    agent = start(mini("1.3.0b0"), models["rv1106"])
    said = agent.error("open", **agent.opening)
    assert "rknn_init" in said["what"]
    assert "config data" in said["cause"]  # it takes something else of the file for its size


@pytest.mark.vendor
@pytest.mark.parametrize("name", BIG)
@pytest.mark.parametrize("perf", [False, True])
def test_the_big_runtime_runs(
    start: Callable[..., Agent], models: dict[str, Path], name: str, perf: bool
) -> None:
    agent = start(name, models["rk3588"])
    told = opened(agent, name, perf=perf)
    assert told["memory"]["weight"] == 2880
    done = run(agent, loops=3, perf=perf)
    assert [output["size"] for output in done["outputs"]] == [256]
    assert len(done["wall_us"]) == 3
    assert ("Conv" in str(done["perf"])) is perf


@pytest.mark.vendor
@pytest.mark.parametrize("perf", [False, True])
@pytest.mark.parametrize("name", BIG)
def test_threads(
    start: Callable[..., Agent], models: dict[str, Path], name: str, perf: bool
) -> None:
    agent = start(name, models["rk3588"])
    opened(agent, name, perf=perf)
    agent.result("memory")
    done = run(agent, threads=2, loops=3)
    assert len(done["wall_us"]) == 6
    assert agent.result("memory")["weight"] == 2880


@pytest.mark.parametrize("name", BIG)
def test_threads_of_a_large_model(start: Callable[..., Agent], zoo: Path, name: str) -> None:
    """The library dies where the memory was asked for before a context was duplicated."""
    agent = start(name, zoo / "rknn_vendor" / "pp_human_segv2_RK3588.rknn")
    (facts,) = agent.open()["inputs"]
    picture = {**agent.input(bytes(facts["elements"]), "UINT8"), "pass_through": False}
    done = agent.run(picture, outputs=str(agent.folder), threads=2, loops=2)
    assert len(done["wall_us"]) == 4


@pytest.mark.vendor
@pytest.mark.parametrize("name", BIG_OLD)
def test_an_older_library_refuses_a_newer_container(
    start: Callable[..., Agent], models: dict[str, Path], name: str
) -> None:
    agent = start(name, models["rk3588"])
    said = agent.error("open", **agent.opening)
    assert "Invalid RKNN model version 6" in said["cause"]
    assert said["cause"].startswith("The model was built by a newer toolkit")


@pytest.mark.parametrize("name", [mini("2.3.2"), BIG[0], BIG_OLD[0]])
def test_what_is_no_model(start: Callable[..., Agent], name: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.rknn"
    wrong.write_bytes(bytes(4096))
    agent = start(name, wrong)
    said = agent.error("open", **agent.opening)
    assert "rknn_init" in said["what"]
    assert agent.result("close") == {}  # the agent is there to be asked again


def test_generation_1_asks_for_openvx(start: Callable[..., Agent], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.rknn"
    wrong.write_bytes(bytes(4096))
    agent = start("librknn_api-1.7.5-aarch64", wrong)
    said = agent.error("open", **agent.opening)
    assert "libOpenVX.so.1" in said["what"]
