"""The agent as a local child process, against the stand-ins of the runtime libraries."""

from __future__ import annotations

import itertools
import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.base.peers.child import Child
from engine.base.peers.far import Message
from engine.base.peers.near import Call
from engine.devices.agent.built import SOURCES as NATIVE
from rknntui_emulator.runtime.answers import (
    Answers,
    Memory,
    TensorFacts,
    input_digest,
)
from rknntui_emulator.runtime.build import Kind, compiler
from tests.devices import known_model
from tests.devices.conftest import Libraries
from tests.devices.known_model import NPU, perf_row
from tests.safety import ends

IMAGE = bytes(range(48))
"""An input of 1x4x4x3, as the integers that the NPU takes."""

FLOATS = struct.pack("<48f", *(value / 255 for value in IMAGE))
"""The same picture as floats."""

SCORES = known_model.SCORES.tobytes()
HALVES = struct.pack("<4e", 0.5, -2.0, 0.0, 1024.0)

CPU = {"dtype": "INT8", "target": "CPU"}
CONV: dict[str, Any] = {
    **NPU,
    "inputs": ((1, 3, 4, 4), (5, 3, 3, 3), (5,)),
    "outputs": ((1, 5, 1, 1),),
    "mac_usage": (2.41, 0.0, 0.0),
    "workload": (100.0, 0.0, 0.0),
    "traffic": 10 << 10,
}
ENDS: dict[str, Any] = {"inputs": ((1, 5),), "outputs": ((1, 5),)}
ROWS = (
    perf_row(0, "InputOperator:image", outputs=((1, 3, 4, 4),), microseconds=4, **CPU),
    perf_row(1, "Conv:conv1", "ConvRelu", (1091, 829, 1091), microseconds=120, **CONV),
    perf_row(2, "OutputOperator:scores", microseconds=6, **CPU, **ENDS),
)


def answers(**changes: Any) -> Answers:
    """What the stand-ins know of a small model with one input and two outputs."""
    known: dict[str, Any] = {
        "inputs": (TensorFacts("image", (1, 4, 4, 3), "INT8", "NHWC", "AFFINE", 0, -128, 1 / 255),),
        "outputs": (
            *known_model.answers().outputs,
            TensorFacts("boxes", (1, 4), "FLOAT16", "UNDEFINED", "NONE"),
        ),
        "results": {input_digest([given]): (SCORES, HALVES) for given in (IMAGE, FLOATS)},
        "layers": ROWS,
        "run_us": (1500, 900, 700),
        "memory": Memory(3698688, 1756160, 5939200, 1 << 20, 1 << 19),
        "custom": "a digit's model",
        "platform": "",
    }
    return known_model.answers(**(known | changes))


@dataclass
class Agent:
    """An agent under test and the folder that it works in."""

    child: Child
    folder: Path
    library: Path
    steps: list[Message] = field(default_factory=list)

    def start(self, method: str, **params: Any) -> Call:
        return self.child.peer.request(method, params, self.steps.append)

    def hears(self, true: Callable[[], object]) -> None:
        """Take what comes until something holds."""
        with ends():
            while not true():
                self.child.peer.pump(0.1)

    def says(self, words: str) -> None:
        """Wait until its last words, on stderr, have these."""
        self.hears(lambda: words in self.child.peer.last_words)

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
        return self.result("open", **(self.opening | params))

    @property
    def opening(self) -> dict[str, Any]:
        """What ``open`` is asked with."""
        return {"model": str(self.model), "libraries": [str(self.library)]}

    @property
    def model(self) -> Path:
        return self.folder / "model.rknn"

    def input(self, content: bytes = IMAGE, dtype: str = "INT8", **params: Any) -> Message:
        path = self.folder / f"input-{len(list(self.folder.iterdir()))}.bin"
        path.write_bytes(content)
        return {"path": str(path), "dtype": dtype, "layout": "NHWC", **params}

    def run(self, *inputs: Message, **params: Any) -> Any:
        return self.result("run", inputs=list(inputs or [self.input()]), **params)


def compiled(made: Path, *words: str | Path) -> Path:
    """A program or library of C."""
    cc = compiler()
    if cc is None:
        pytest.skip("there is no C compiler")
    subprocess.run([cc, "-o", made, *words, "-ldl", "-lpthread", "-lm"], check=True)
    return made


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent, with all warnings as errors."""
    warnings = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]
    place = tmp_path_factory.mktemp("native") / "agent"
    return compiled(place, "-O1", *warnings, *sorted(NATIVE.glob("*.c")))


@pytest.fixture
def starting() -> Iterator[Callable[..., Agent]]:
    """Starts a program as an agent; each ends with the test."""
    with ExitStack() as running:

        def start(words: list[str], folder: Path, library: Path, **variables: str) -> Agent:
            child = Child(words, {**os.environ, **variables}, "The agent")
            running.callback(child.end, kill=True)
            return Agent(child, folder, library)

        yield start


@pytest.fixture
def agents(
    tmp_path: Path, libraries: Libraries, native: Path, starting: Callable[..., Agent]
) -> Callable[..., Agent]:
    """Starts agents with stand-ins of the runtime libraries."""
    numbers = itertools.count()

    def start(
        kind: Kind = "librknnrt.so",
        version: str = "",
        known: Answers | None = None,
        **settings: str,
    ) -> Agent:
        folder = tmp_path / f"run-{next(numbers)}"
        folder.mkdir()
        settings["ANSWERS"] = str(folder / "answers")
        variables = {f"RKNNTUI_EMULATED_{name}": text for name, text in settings.items()}
        agent = starting([str(native)], folder, libraries(kind, version), **variables)
        agent.model.write_bytes(b"RKNN and the rest")
        known = known or answers(generation=1 if kind == "librknn_runtime.so" else 2)
        known.into(folder / "answers", agent.model)
        return agent

    return start


@pytest.fixture
def agent(agents: Callable[..., Agent]) -> Agent:
    return agents()
