"""The plan of clocks against files that behave as the kernel's do."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.base.peers.child import Child
from rknntui_emulator.runtime.build import compiler
from tests.devices.agent.conftest import Agent

pytestmark = pytest.mark.cc

BEFORE = {"cpu/governor": "ondemand", "npu/governor": "rknpu_ondemand"}


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """Governors, and the frequency of a CPU."""
    for name, text in BEFORE.items():
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(f"{text}\n")
    (tmp_path / "cpu" / "setspeed").write_text("<unsupported>\n")
    return tmp_path


@pytest.fixture(scope="module")
def behaves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``kernel.c``, compiled."""
    cc = compiler()
    if cc is None:
        pytest.skip("there is no C compiler")
    made = tmp_path_factory.mktemp("kernel") / "kernel.so"
    source = Path(__file__).with_name("kernel.c")
    subprocess.run([cc, "-shared", "-fPIC", "-o", str(made), str(source), "-ldl"], check=True)
    return made


@pytest.fixture
def start(native: Path, behaves: Path, kernel: Path) -> Iterator[Callable[[], Agent]]:
    """Starts agents; each ends with the test."""
    running: list[Agent] = []

    def make() -> Agent:
        variables = {**os.environ, "LD_PRELOAD": str(behaves)}
        running.append(Agent(Child([str(native)], variables, "The agent"), kernel, kernel))
        return running[-1]

    yield make
    for agent in running:
        agent.child.end(kill=True)


def test_a_frequency_that_appears_with_its_governor_is_written_and_restored(
    start: Callable[[], Agent], kernel: Path
) -> None:
    values = [
        ["cpu/governor", "userspace"],
        ["cpu/setspeed", "1800000"],
        ["npu/governor", "userspace"],
        ["npu/userspace/set_freq", "1000000000"],
    ]
    pairs = [[str(kernel / name), text] for name, text in values]
    agent = start()
    early = agent.result("write_clocks", values=pairs[1:2], keep=str(kernel / "early.json"))
    assert early["refused"] == [[pairs[1][0], "Invalid argument"]]  # it behaves so
    keep = str(kernel / "clocks.json")
    done = agent.result("write_clocks", values=pairs, keep=keep)
    assert done == {"changed": [path for path, _ in pairs], "refused": []}
    assert (kernel / "cpu/setspeed").read_text() == "1800000\n"
    assert (kernel / "npu/userspace/set_freq").read_text() == "1000000000\n"
    assert agent.result("restore_clocks", keep=keep)["refused"] == []
    assert {name: (kernel / name).read_text().strip() for name in BEFORE} == BEFORE
    assert not (kernel / "clocks.json").exists()


def test_what_an_earlier_change_left_stays_on_record(
    start: Callable[[], Agent], kernel: Path
) -> None:
    keep = kernel / "clocks.json"
    left = [[str(kernel / "dmc" / "governor"), "dmc_ondemand"]]
    keep.write_text(json.dumps(left))
    pair = [left[0][0], "userspace"]
    done = start().result("write_clocks", values=[pair], keep=str(keep))
    assert done["refused"] == [[pair[0], "it cannot be read"]]
    assert json.loads(keep.read_text()) == left
