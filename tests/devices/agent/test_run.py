"""Opening and running a model, on the stand-ins of both generations."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from rknntui_emulator.runtime.answers import ANY_INPUT, TensorFacts, input_digest
from tests.devices.agent.conftest import (
    FLOATS,
    HALVES,
    IMAGE,
    SCORES,
    Agent,
    answers,
)
from tests.devices.conftest import Libraries
from tests.devices.fake_agent import INPUT
from tests.devices.known_model import SCALE, ZERO
from tests.safety import ends

pytestmark = pytest.mark.cc

Agents = Callable[..., Agent]

HALF_NUMBERS = (0.0, -0.0, 1.5, 65504.0, 6e-8, -6.1e-5, float("inf"), float("-inf"))


def scores(content: bytes) -> list[float]:
    return list(struct.unpack("<5f", content))


def test_open_tells_what_the_model_and_the_library_are(agent: Agent) -> None:
    opened = agent.open()
    assert opened["library"] == str(agent.library)
    assert opened["generation"] == 2
    assert opened["api_version"] == "2.3.2 (emulated by rknntui)"
    assert opened["driver_version"] == "0.9.8 (emulated)"
    assert opened["custom_string"] == "a digit's model"
    assert opened["notes"] == []
    memory = {"weight": 3698688, "internal": 1756160, "dma": 5939200}
    memory |= {"sram": 1 << 20, "sram_free": 1 << 19}
    assert opened["memory"] == memory == agent.result("memory")
    (image,) = opened["inputs"]
    sizes = dict.fromkeys(("elements", "size", "size_with_stride"), 48)
    scale = pytest.approx(1 / 255)
    assert image == {**INPUT, **sizes, "dims": [1, 4, 4, 3], "scale": scale}
    assert [(one["name"], one["dtype"]) for one in opened["outputs"]] == [
        ("scores", "INT8"),
        ("boxes", "FLOAT16"),
    ]


def test_outputs_come_as_they_are_and_as_floats(agent: Agent) -> None:
    agent.open()
    for given in (agent.input(), agent.input(FLOATS, "FLOAT32"), agent.input(pass_through=True)):
        ran = agent.run(given, outputs=str(agent.folder))
        first, second = (Path(one["path"]) for one in ran["outputs"])
        assert (first.read_bytes(), second.read_bytes()) == (SCORES, HALVES)
        assert [one["size"] for one in ran["outputs"]] == [5, 8]
        agent.run(given, outputs=str(agent.folder), want_float=True)
        wanted = [(value - ZERO) * SCALE for value in struct.unpack("<5b", SCORES)]
        assert scores(first.read_bytes()) == wanted
        assert struct.unpack("<4f", second.read_bytes()) == (0.5, -2.0, 0.0, 1024.0)
    assert not list(agent.folder.glob("*.part"))


def test_times_and_progress(agent: Agent) -> None:
    agent.open()
    ran = agent.run(warmup=2, loops=7)
    assert ran["outputs"] == []
    assert ran["perf"] is None
    assert len(ran["wall_us"]) == 7
    assert ran["run_us"] == [1500] * 7
    assert min(ran["wall_us"]) >= 1500
    assert ran["elapsed_us"] >= 7 * 1500
    told = [time for step in agent.steps for time in step["wall_us"]]
    assert told == ran["wall_us"]
    assert (agent.steps[-1]["done"], agent.steps[-1]["total"]) == (7, 7)


def test_threads_have_a_context_each(agents: Agents) -> None:
    agent = agents(RUN_US="20000")
    agent.open()
    ran = agent.run(loops=5, threads=4, outputs=str(agent.folder))
    assert len(ran["wall_us"]) == len(ran["run_us"]) == 20
    assert Path(ran["outputs"][0]["path"]).read_bytes() == SCORES
    assert agent.steps[-1]["total"] == 20
    assert agent.run(loops=1)["run_us"] == [20000]


def test_the_cores_are_chosen_where_there_is_a_choice(agents: Agents) -> None:
    agent = agents()
    for mask, time in ((None, 1500), (1, 1500), (3, 900), (7, 700)):
        assert agent.open(core_mask=mask)["notes"] == []
        assert agent.run(threads=2)["run_us"] == [time] * 2
    one_core = agents(known=answers(run_us=(1500,)))
    (note,) = one_core.open(core_mask=7)["notes"]
    assert "RKNN_ERR_PARAM_INVALID" in note
    assert one_core.run()["run_us"] == [1500]


def test_generation_1(agents: Agents) -> None:
    agent = agents("librknn_runtime.so")
    opened = agent.open(perf=True)
    assert opened["generation"] == 1
    assert opened["api_version"] == "1.7.5 (emulated by rknntui)"
    assert opened["memory"] is None
    assert opened["custom_string"] == ""
    (image,) = opened["inputs"]
    assert (image["dims"], image["layout"], image["size"]) == ([1, 4, 4, 3], "NHWC", 48)
    assert image["zero_point"] == 2**32 - 128  # it is unsigned there
    ran = agent.run(outputs=str(agent.folder), want_float=True, threads=2, loops=2)
    assert scores(Path(ran["outputs"][0]["path"]).read_bytes())[4] == 38.75
    assert all(sign in ran["perf"] for sign in ("Layer ID", "Uid", "FPS: 666.67", "130"))
    refused = agent.error("memory")
    assert refused["kind"] == "runtime library"
    assert "not available on this runtime" in refused["what"]
    (note,) = agent.open(core_mask=3)["notes"]
    assert "cannot choose cores" in note


def test_the_library_of_the_generation_is_taken(agents: Agents) -> None:
    agent = agents()
    first = agents("librknn_runtime.so")
    both = [str(first.library), str(agent.library)]
    assert agent.open(libraries=both, generation=2)["generation"] == 2
    refused = agent.error("open", model=str(agent.model), libraries=both[:1], generation=2)
    assert refused["kind"] == "runtime library"
    assert "is of generation 1" in refused["what"]
    # a model of generation 1 on a board of generation 2
    known = answers(generation=1)
    refused = agents(known=known).error(
        "open", model=str(first.model), libraries=[str(agent.library)]
    )
    assert "RKNN_ERR_MODEL_INVALID" in refused["what"]
    assert "invalid RKNN_MAGIC" in refused["cause"]


def test_a_model_with_many_outputs_and_any_input(agents: Agents) -> None:
    many = tuple(
        TensorFacts(f"layer{n}", (1, 2, 2, n + 1), "INT16", "NCHW", "DFP", fl=8) for n in range(60)
    )
    content = [bytes([n % 250] * one.size) for n, one in enumerate(many)]
    inputs = tuple(TensorFacts(name, (1, 3), "FLOAT32", "UNDEFINED", "NONE") for name in ("a", "b"))
    pair = (struct.pack("<3f", 1, 2, 3), struct.pack("<3f", 4, 5, 6))
    known = answers(
        inputs=inputs,
        outputs=many,
        results={input_digest(pair): content, ANY_INPUT: [bytes(one.size) for one in many]},
    )
    agent = agents(known=known)
    assert len(agent.open()["outputs"]) == 60
    for given, wanted in ((pair, content), (pair[::-1], [bytes(one.size) for one in many])):
        named = []
        for name, data in zip("ab", given, strict=True):
            path = agent.folder / name
            path.write_bytes(data)
            named.append({"path": str(path), "dtype": "FLOAT32", "layout": "UNDEFINED"})
        ran = agent.run(*named, outputs=str(agent.folder))
        found = [Path(one["path"]).read_bytes() for one in ran["outputs"]]
        assert found == wanted


def test_a_second_model_takes_the_place_of_the_first(agent: Agent) -> None:
    for _ in range(100):  # more than a library has contexts
        agent.open()
        agent.run(threads=2)
    assert agent.result("close") == {}
    assert agent.error("run", inputs=[])["what"] == "No model is open."
    assert agent.result("close") == {}


@pytest.mark.parametrize("threads", [1, 3])
def test_read_beside_a_run_that_is_cancelled(agents: Agents, threads: int) -> None:
    agent = agents(RUN_US="50000")
    agent.open()
    sensor = agent.folder / "temp"
    sensor.write_bytes(b"41000\n")
    run = agent.start("run", inputs=[agent.input()], loops=100000, threads=threads)
    agent.hears(lambda: agent.steps)
    with ends():
        assert agent.result("read", paths=[str(sensor)]) == {str(sensor): "41000\n"}
        agent.child.peer.cancel(run)
        assert agent.child.peer.wait(run)["error"]["kind"] == "cancelled"
    assert agent.run()["run_us"] == [50000]


def test_the_smallest_library_runs_without_copies(agents: Agents) -> None:
    agent = agents("librknnmrt.so")
    opened = agent.open(core_mask=1)
    assert opened["generation"] == 2
    assert opened["memory"]["weight"] == 3698688
    assert [note.partition(" ")[0] for note in opened["notes"]] == ["This", "This"]
    # its rows lie at multiples of 16 pixels
    (image,) = opened["inputs"]
    assert (image["w_stride"], image["size"], image["size_with_stride"]) == (16, 48, 192)
    for given in (agent.input(), agent.input(FLOATS, "FLOAT32")):
        ran = agent.run(given, outputs=str(agent.folder), loops=4)
        assert len(ran["wall_us"]) == 4
        assert (ran["run_us"], ran["perf"]) == ([], None)
        found = [Path(one["path"]) for one in ran["outputs"]]
        assert [path.read_bytes() for path in found] == [SCORES, HALVES]
        agent.run(given, outputs=str(agent.folder), want_float=True)
        assert scores(found[0].read_bytes()) == [
            (value - ZERO) * SCALE for value in struct.unpack("<5b", SCORES)
        ]
        assert struct.unpack("<4f", found[1].read_bytes()) == (0.5, -2.0, 0.0, 1024.0)
    unknown = agent.error("run", inputs=[agent.input(bytes(48))])
    assert "RKNN_ERR_INPUT_INVALID" in unknown["what"]
    assert "one thread" in agent.error("run", inputs=[agent.input()], threads=2)["what"]
    assert agent.run(agent.input(), outputs=str(agent.folder))["wall_us"]


def test_the_smallest_library_exports_what_fails_there(libraries: Libraries) -> None:
    """As librknnmrt 1.3.0b0 to 2.3.2 do: presence of a function says nothing."""
    library = ctypes.CDLL(str(libraries("librknnmrt.so")))
    for name in ("rknn_inputs_set", "rknn_outputs_get", "rknn_dup_context"):
        assert getattr(library, name)(0, 0, None, None) == -5


def test_the_smallest_library_has_no_memory_left(agents: Agents) -> None:
    agent = agents("librknnmrt.so", FAIL="create_mem:-4")
    agent.open()
    refused = agent.error("run", inputs=[agent.input()])
    assert refused["kind"] == "runtime library"
    assert "rknn_create_mem could not get 192 bytes" in refused["what"]


@pytest.mark.parametrize(
    ("dtype", "quantization", "content", "floats"),
    [
        (
            "FLOAT16",
            "NONE",
            struct.pack("<8e", *HALF_NUMBERS),
            struct.unpack("<8e", struct.pack("<8e", *HALF_NUMBERS)),
        ),
        ("INT16", "DFP", struct.pack("<2h", 256, -128), (1.0, -0.5)),
        ("UINT16", "AFFINE", struct.pack("<2H", 8, 65535), (0.0, 65527 * SCALE)),
        ("UINT8", "AFFINE", bytes([8, 255]), (0.0, 247 * SCALE)),
        ("BOOL", "NONE", bytes([0, 1]), (0.0, 1.0)),
        ("FLOAT32", "NONE", struct.pack("<2f", 1.5, -3), (1.5, -3.0)),
        ("INT64", "NONE", bytes(8), ()),
    ],
)
def test_values_become_floats_as_the_big_library_makes_them(
    agents: Agents, dtype: str, quantization: str, content: bytes, floats: tuple[float, ...]
) -> None:
    """The smallest library gives what the NPU wrote; the agent makes floats of it."""
    count = len(floats) or 1
    one = TensorFacts("y", (1, count), dtype, "UNDEFINED", quantization, 8, 8, SCALE)
    known = answers(outputs=(one,), results={input_digest([IMAGE]): (content,)})
    agent = agents("librknnmrt.so", known=known)
    agent.open()
    if not floats:
        wanted = {"inputs": [agent.input()], "outputs": str(agent.folder), "want_float": True}
        said = agent.error("run", **wanted)
        assert f"An output of type {dtype} cannot be had as floats" in said["what"]
        return
    ran = agent.run(outputs=str(agent.folder), want_float=True)
    assert struct.unpack(f"<{count}f", Path(ran["outputs"][0]["path"]).read_bytes()) == floats
