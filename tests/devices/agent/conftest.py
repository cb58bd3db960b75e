"""The agent as a local child process, against the stand-ins of the runtime libraries."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.base.peers.child import Child
from engine.base.peers.far import Message
from engine.base.peers.near import Call
from engine.devices.agent.built import SOURCES as NATIVE
from engine.devices.measure.perf_report import PerfRow
from rknntui_emulator.runtime.answers import (
    Answers,
    Memory,
    TensorFacts,
    input_digest,
)
from rknntui_emulator.runtime.build import Kind, compiler
from tests.devices.conftest import Libraries
from tests.safety import ends

IMAGE = bytes(range(48))
"""An input of 1x4x4x3, as the integers that the NPU takes."""

FLOATS = struct.pack("<48f", *(value / 255 for value in IMAGE))
"""The same picture as floats."""

SCORES = struct.pack("<5b", -128, -28, 0, 100, 127)
HALVES = struct.pack("<4e", 0.5, -2.0, 0.0, 1024.0)
SCALE, ZERO = 0.25, -28

ROWS = (
    PerfRow(
        id=0,
        op="InputOperator",
        name="InputOperator:image",
        dtype="INT8",
        target="CPU",
        outputs=((1, 3, 4, 4),),
        microseconds=4,
    ),
    PerfRow(
        id=1,
        op="ConvRelu",
        name="Conv:conv1",
        dtype="INT8",
        target="NPU",
        inputs=((1, 3, 4, 4), (5, 3, 3, 3), (5,)),
        outputs=((1, 5, 1, 1),),
        ddr_cycles=1091,
        npu_cycles=829,
        total_cycles=1091,
        microseconds=120,
        mac_usage=(2.41, 0.0, 0.0),
        workload=(100.0, 0.0, 0.0),
        traffic=10 << 10,
    ),
    PerfRow(
        id=2,
        op="OutputOperator",
        name="OutputOperator:scores",
        dtype="INT8",
        target="CPU",
        inputs=((1, 5),),
        outputs=((1, 5),),
        microseconds=6,
    ),
)


def answers(**changes: Any) -> Answers:
    """What the stand-ins know of a small model with one input and two outputs."""
    known: dict[str, Any] = {
        "inputs": (TensorFacts("image", (1, 4, 4, 3), "INT8", "NHWC", "AFFINE", 0, -128, 1 / 255),),
        "outputs": (
            TensorFacts("scores", (1, 5), "INT8", "UNDEFINED", "AFFINE", 0, ZERO, SCALE),
            TensorFacts("boxes", (1, 4), "FLOAT16", "UNDEFINED", "NONE"),
        ),
        "results": {
            input_digest([IMAGE]): (SCORES, HALVES),
            input_digest([FLOATS]): (SCORES, HALVES),
        },
        "layers": ROWS,
        "run_us": (1500, 900, 700),
        "memory": Memory(3698688, 1756160, 5939200, 1 << 20, 1 << 19),
        "custom": "a digit's model",
    }
    return Answers(**(known | changes))


@dataclass
class Agent:
    """An agent under test and the folder that it works in."""

    child: Child
    folder: Path
    library: Path
    steps: list[Message] = field(default_factory=list)

    def start(self, method: str, **params: Any) -> Call:
        return self.child.peer.request(method, params, self.steps.append)

    def ask(self, method: str, **params: Any) -> Any:
        """The answer to a request, with its error where it has one."""
        with ends():
            return self.child.peer.wait(self.start(method, **params))

    def result(self, method: str, **params: Any) -> Any:
        answer = self.ask(method, **params)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method: str, **params: Any) -> Any:
        answer = self.ask(method, **params)
        assert "error" in answer, answer
        return answer["error"]

    def open(self, **params: Any) -> Any:
        known = {"model": str(self.model), "libraries": [str(self.library)]}
        return self.result("open", **(known | params))

    @property
    def model(self) -> Path:
        return self.folder / "model.rknn"

    def input(self, content: bytes = IMAGE, dtype: str = "INT8", **params: Any) -> Message:
        path = self.folder / f"input-{len(list(self.folder.iterdir()))}.bin"
        path.write_bytes(content)
        return {"path": str(path), "dtype": dtype, "layout": "NHWC", **params}

    def run(self, *inputs: Message, **params: Any) -> Any:
        return self.result("run", inputs=list(inputs or [self.input()]), **params)


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent, with all warnings as errors."""
    cc = compiler()
    if cc is None:
        pytest.skip("there is no C compiler")
    path = tmp_path_factory.mktemp("native") / "agent"
    sources = [str(source) for source in sorted(NATIVE.glob("*.c"))]
    warnings = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]
    subprocess.run(
        [cc, "-O1", *warnings, "-o", str(path), *sources, "-ldl", "-lpthread", "-lm"], check=True
    )
    return path


@pytest.fixture
def agents(tmp_path: Path, libraries: Libraries, native: Path) -> Iterator[Callable[..., Agent]]:
    """Starts agents; each ends with the test."""
    running: list[Agent] = []

    def start(
        kind: Kind = "librknnrt.so",
        version: str = "",
        known: Answers | None = None,
        **settings: str,
    ) -> Agent:
        library = libraries(kind, version)
        folder = tmp_path / f"run-{len(running)}"
        folder.mkdir()
        environment = dict(os.environ)
        environment |= {f"RKNNTUI_EMULATED_{name}": text for name, text in settings.items()}
        environment["RKNNTUI_EMULATED_ANSWERS"] = str(folder / "answers")
        agent = Agent(Child([str(native)], environment, "The agent"), folder, library)
        running.append(agent)
        agent.model.write_bytes(b"RKNN and the rest")
        if known is None:
            known = answers(generation=1 if kind == "librknn_runtime.so" else 2)
        known.into(folder / "answers", agent.model)
        return agent

    yield start
    for agent in running:
        agent.child.end(kill=True)


@pytest.fixture
def agent(agents: Callable[..., Agent]) -> Agent:
    return agents()
