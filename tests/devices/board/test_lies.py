"""An agent that lies: nothing of what it answers is believed."""

from __future__ import annotations

import hashlib
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import (
    DeviceError,
    EngineError,
    UsageError,
)
from engine.devices.board.layout import find_folder
from engine.devices.board.model_file import ModelFile
from engine.devices.board.results import RunProgress, read_open_model
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput
from tests.devices.board.running import IMAGE, changed, opened
from tests.devices.fake_agent import INPUT, OPEN, OUTPUT, fake_agent
from tests.devices.fake_board import FakeBoard

# -- an agent that lies


LIES: list[tuple[str, dict[str, Any]]] = [
    ("no dims", changed("inputs", INPUT, dims=None)),
    ("dims of text", changed("inputs", INPUT, dims=["1"])),
    ("a dimension of 0", changed("inputs", INPUT, dims=[1, 0])),
    ("negative", changed("inputs", INPUT, dims=[-1, 2, 3, 4])),
    ("many dimensions", changed("inputs", INPUT, dims=[1] * 17)),
    ("large", changed("outputs", OUTPUT, elements=1 << 40)),
    ("a size of true", changed("outputs", OUTPUT, size=True)),
    ("an unknown dtype", changed("outputs", OUTPUT, dtype="O")),
    ("a dtype that is a list", changed("outputs", OUTPUT, dtype=["INT8"])),
    ("an unknown layout", changed("inputs", INPUT, layout="__reduce__")),
    ("no scale", changed("inputs", INPUT, scale=None)),
    ("a scale of 400 digits", changed("inputs", INPUT, scale=10**400)),
    ("another index", changed("inputs", INPUT, index=3)),
    ("too many tensors", {**OPEN, "inputs": [INPUT] * 257}),
    ("tensors that are none", {**OPEN, "inputs": [1]}),
    ("no tensors", {**OPEN, "outputs": None}),
    ("generation 3", {**OPEN, "generation": 3}),
    ("negative memory", {**OPEN, "memory": {**OPEN["memory"], "dma": -1}}),
    ("memory of text", {**OPEN, "memory": "much"}),
    ("a version that is no text", {**OPEN, "api_version": 2}),
    ("notes of numbers", {**OPEN, "notes": [1]}),
]


@pytest.mark.parametrize("answer", [lie for _, lie in LIES], ids=[name for name, _ in LIES])
def test_lies_about_a_model_are_not_believed(answer: dict[str, Any], tmp_path: Path) -> None:
    file = ModelFile(path=tmp_path, size=1, sha256="")
    assert read_open_model(file, {**OPEN, "library": "/lib.so"}, "").library == "/lib.so"
    with pytest.raises(DeviceError, match="cannot be used"):
        read_open_model(file, {**answer, "library": "/lib.so"}, "")


def test_a_lie_leaves_no_model_open(talking: FakeBoard, model: Path) -> None:
    answer = changed("inputs", INPUT, dims=None)
    with BoardRuntime(talking, fake_agent(in_turn={"open": [answer]})) as runtime:
        with pytest.raises(DeviceError, match="cannot be used"):
            runtime.open(model)
        with pytest.raises(UsageError, match="No model is open"):
            runtime.run([BoardInput(IMAGE)])
        runtime.open(model)


def ran(**changes: Any) -> dict[str, Any]:
    """What ``run`` answers, with changes."""
    true = {"wall_us": [1], "run_us": [1], "elapsed_us": 1, "perf": None, "outputs": []}
    return {**true, **changes}


def test_lies_about_outputs_are_not_followed(talking: FakeBoard, model: Path) -> None:
    out = f"{find_folder(talking).path}/run-0000000000000000/out"
    lies: list[Any] = [
        [],
        "all",
        [{"path": f"{out}/output0.bin", "size": 16}] * 2,
        [{"path": f"{out}/output0.bin", "size": 1 << 40}],
        [{"path": f"{out}/output0.bin", "size": 16}],
        [{"path": "/etc/shadow", "size": 16}],
        [{"path": f"{out}/../../x.bin", "size": 16}],
        [{"size": 16}],
        [{"path": 7, "size": 16}],
        [7],
    ]
    pulled: list[str] = []
    talking.pull = lambda source, *_more, **_: pulled.append(source)  # type: ignore[method-assign]
    answers = [ran(outputs=lie) for lie in lies]
    with opened(talking, model, in_turn={"run": answers}) as runtime:
        for _ in lies:
            with pytest.raises(DeviceError, match="cannot be used"):
                runtime.run([BoardInput(IMAGE)])
    assert pulled == []


def test_lies_about_times_are_not_believed(talking: FakeBoard, model: Path) -> None:
    lies: list[dict[str, Any]] = [
        {"wall_us": [1] * 1000},
        {"wall_us": ["1"]},
        {"wall_us": [None]},
        {"wall_us": [-1]},
        {"wall_us": 3},
        {"run_us": [True]},
        {"elapsed_us": None},
        {"perf": 7},
    ]
    answers = [ran(**lie) for lie in lies]
    with opened(talking, model, in_turn={"run": answers}) as runtime:
        for _ in lies:
            with pytest.raises(DeviceError, match="cannot be used"):
                runtime.run([BoardInput(IMAGE)], outputs=False)


def test_an_output_of_another_size_than_told_is_not_read(talking: FakeBoard, model: Path) -> None:
    original = talking.pull

    def pull(source: str, target: Path, **more: Any) -> None:
        original(source, target, **more)
        target.write_bytes(target.read_bytes()[:-1])

    talking.pull = pull  # type: ignore[method-assign]
    with opened(talking, model) as runtime, pytest.raises(DeviceError, match="has not 16 bytes"):
        runtime.run([BoardInput(IMAGE)])


@pytest.mark.parametrize(
    "message",
    [{"done": 5, "total": 1, "wall_us": []}, {"done": "1"}, {"done": 0, "total": 1}],
)
def test_lies_about_progress_end_the_run(
    talking: FakeBoard, model: Path, message: dict[str, Any]
) -> None:
    with (
        opened(talking, model, progress={"run": [message]}) as runtime,
        pytest.raises(DeviceError, match="cannot be used"),
    ):
        runtime.run([BoardInput(IMAGE)], progress=lambda _: None)


def test_a_line_without_an_end_takes_no_memory(talking: FakeBoard, model: Path) -> None:
    tracemalloc.start()
    try:
        with (
            opened(talking, model, shout={"run": 64 << 20}) as runtime,
            pytest.raises(DeviceError, match="a line is too long"),
        ):
            runtime.run([BoardInput(IMAGE)])
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()


def test_messages_without_an_end_are_refused(talking: FakeBoard, model: Path) -> None:
    progress = {"done": 0, "total": 1, "wall_us": []}
    heard = 0

    def hear(_told: RunProgress) -> None:
        nonlocal heard
        heard += 1

    tracemalloc.start()
    try:
        with (
            opened(talking, model, progress={"run": [progress] * 50_000}) as runtime,
            pytest.raises(DeviceError, match="are too many"),
        ):
            runtime.run([BoardInput(IMAGE)], progress=hear)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert 5_000 <= heard < 40_000


def test_large_messages_are_refused(
    talking: FakeBoard, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.devices.board.agents._BYTES", 1 << 20)
    monkeypatch.setattr("engine.devices.board.agents._BYTES_A_SECOND", 0)
    progress = {"done": 0, "total": 1, "wall_us": [], "beside": "x" * (1 << 16)}
    with (
        opened(talking, model, progress={"run": [progress] * 40}) as runtime,
        pytest.raises(DeviceError, match="are too many"),
    ):
        runtime.run([BoardInput(IMAGE)], progress=lambda _: None)


def test_a_long_run_goes_in_parts(
    talking: FakeBoard, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.devices.board.runtime._RUNS_OF_A_PART", 40)
    told: list[RunProgress] = []
    with opened(talking, model) as runtime:
        found = runtime.run([BoardInput(IMAGE)], loops=100, progress=told.append)
    assert len(found.wall_us) == len(found.run_us) == 100
    assert found.wall_us[38:42] == (138, 139, 100, 101)  # what it answers begins anew
    assert found.elapsed_us == sum(found.wall_us)
    assert len(found.outputs) == 1
    assert [each.done for each in told] == list(range(1, 101))
    assert {each.total for each in told} == {100}


@pytest.mark.parametrize(
    ("greeting", "words"),
    [
        ('{"ready": true, "protocol": 99}\n', "another protocol"),
        ("Welcome to Buildroot\n", "not JSON"),
        ("[1, 2]\n", "not an object"),
    ],
)
def test_another_greeting_is_refused(talking: FakeBoard, greeting: str, words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        BoardRuntime(talking, fake_agent(greeting=greeting))


@pytest.mark.parametrize(
    "reply",
    ["x", "[]", "{}", '{"answers": []}', '{"answers": [1]}', '{"answers": [{"result": {}}]}', "{"],
)
def test_a_reply_that_is_none_is_refused(tmp_path: Path, model: Path, reply: str) -> None:
    board = FakeBoard(tmp_path, converses=False)
    with (
        BoardRuntime(board, fake_agent(reply=reply)) as runtime,
        pytest.raises(DeviceError, match="cannot be used"),
    ):
        runtime.open(model)


def test_values_of_files_are_text(talking: FakeBoard) -> None:
    with (
        BoardRuntime(talking, fake_agent(replace={"read": {"/a": 1}})) as runtime,
        pytest.raises(DeviceError, match="cannot be used"),
    ):
        runtime.read(["/a"])


def test_every_error_leaves_the_engine_as_one_of_its_own(talking: FakeBoard, model: Path) -> None:
    answer = {**OPEN, "inputs": {"__class__": "x"}}
    with BoardRuntime(talking, fake_agent(open=answer)) as runtime:
        with pytest.raises(EngineError):
            runtime.open(model)
        name = hashlib.sha256(model.read_bytes()).hexdigest()[:16]
        assert f"model-{name}.rknn" in talking.pushed
