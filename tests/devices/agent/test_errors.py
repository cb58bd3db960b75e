"""What goes wrong on a board: each has its words, and nothing keeps the agent alive for ever."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.devices.agent.conftest import IMAGE, SCORES, Agent, answers, compiled
from tests.safety import PATIENCE, ends

pytestmark = pytest.mark.cc

Agents = Callable[..., Agent]

TOO_OLD = "E RKNN: Invalid RKNN model version 6"
"""What a library says of a model of a newer toolkit."""


def refused(agent: Agent, method: str = "open", **params: Any) -> dict[str, str]:
    known = agent.opening if method == "open" else {}
    error: dict[str, str] = agent.error(method, **(known | params))
    assert error["what"]
    return error


def test_a_library_that_is_too_old(agents: Agents) -> None:
    agent = agents(VERSION="1.4.0", FAIL="init:-1", SAY=TOO_OLD)
    error = refused(agent)
    assert error["kind"] == "runtime library"
    assert "rknn_init" in error["what"]
    assert "RKNN_ERR_FAIL (-1)" in error["what"]
    assert "newer toolkit" in error["cause"]
    assert "Invalid RKNN model version 6" in error["cause"]
    assert "Update the runtime library" in error["remedy"]


def test_another_chip(agents: Agents) -> None:
    error = refused(agents(known=answers(platform="rk3566"), PLATFORM="rk3588"))
    assert "RKNN_ERR_TARGET_PLATFORM_UNMATCH" in error["what"]
    assert "another chip" in error["cause"]
    assert agents(known=answers(platform="rk3588"), PLATFORM="rk3588").open()["notes"] == []


def test_a_file_that_is_no_model(agent: Agent) -> None:
    agent.model.write_bytes(b"ONNX")
    error = refused(agent)
    assert "RKNN_ERR_MODEL_INVALID" in error["what"]
    assert "invalid RKNN_MAGIC" in error["cause"]
    agent.model.write_bytes(b"RKNN that nobody knows")
    assert "no answers for this model" in refused(agent)["cause"]
    agent.model.unlink()
    assert refused(agent)["kind"] == "device storage"


def test_no_library(agent: Agent, tmp_path: Path) -> None:
    error = refused(agent, libraries=["/nowhere/librknnrt.so"])
    assert "There is no runtime library" in error["what"]
    assert "/nowhere/librknnrt.so" in error["cause"]
    assert "takes a list of libraries" in refused(agent, libraries=[])["what"]
    broken = tmp_path / "librknnrt.so"
    broken.write_bytes(b"\x7fELF but not really")
    error = refused(agent, libraries=[str(broken)])
    assert str(broken) in error["what"]
    assert agent.open(libraries=[str(broken), str(agent.library)])["library"] == str(agent.library)


def test_a_library_that_is_cut_off(agent: Agent, tmp_path: Path) -> None:
    """A copy that broke off: to load it would end the agent by SIGBUS."""
    whole = agent.library.read_bytes()
    cut = tmp_path / "librknnrt.so"
    for size in (len(whole) // 4, len(whole) // 2, 5000, 100):
        cut.write_bytes(whole[:size])
        error = refused(agent, libraries=[str(cut)])
        assert error["kind"] == "runtime library"
        assert "cut off" in error["what"]
        assert "Copy the library" in error["remedy"]
    cut.write_bytes(whole[:30])
    assert "could be loaded" in refused(agent, libraries=[str(cut)])["what"]
    for place in (2**64 - 10, 2**63, 2**64 - 56, 2**40):  # of its table of segments
        cut.write_bytes(whole[:32] + place.to_bytes(8, "little") + whole[40:])
        assert refused(agent, libraries=[str(cut)])["kind"] == "runtime library"
    cut.write_bytes(whole)
    assert agent.open()


@pytest.mark.parametrize(
    ("call", "code", "word"),
    [
        ("init", -3, "DEVICE_UNAVAILABLE"),
        ("inputs_set", -8, "INPUT_INVALID"),
        ("run", -2, "TIMEOUT"),
        ("outputs_get", -9, "OUTPUT_INVALID"),
        ("dup_context", -4, "MALLOC_FAIL"),
        ("query", -10, "DEVICE_UNMATCH"),
        ("run", -77, "an unknown error"),
    ],
)
def test_every_call_may_fail(agents: Agents, call: str, code: int, word: str) -> None:
    agent = agents(FAIL=f"{call}:{code}")
    if call in ("init", "query"):
        error = refused(agent)
    else:
        agent.open()
        error = refused(agent, "run", inputs=[agent.input()], threads=2, loops=3)
    assert error["what"].startswith(f"rknn_{call} of ")
    assert word in error["what"]
    assert f"({code})" in error["what"]
    assert f"rknn_{call} fails" in error["cause"]
    assert agent.result("close") == {}


def test_a_run_that_fails_later(agents: Agents) -> None:
    agent = agents(FAIL="run:-1:4")
    agent.open()
    assert len(agent.run(loops=3)["wall_us"]) == 3
    assert "RKNN_ERR_FAIL" in refused(agent, "run", inputs=[agent.input()])["what"]


def test_inputs_that_do_not_fit(agents: Agents) -> None:
    agent = agents()
    agent.open()
    for given, word in (
        ([], "takes 1 inputs"),
        ([agent.input(IMAGE[1:])], "has 47 bytes"),
        ([agent.input(IMAGE, "FLOAT8")], "FLOAT8"),
        ([agent.input(IMAGE, "INT8", layout="CHWN")], "CHWN"),
    ):
        assert word in refused(agent, "run", inputs=given)["what"]
    missing = {"path": "/nowhere/x", "dtype": "INT8", "layout": "NHWC"}
    assert refused(agent, "run", inputs=[missing])["kind"] == "device storage"
    unknown = refused(agent, "run", inputs=[agent.input(bytes(48))])
    assert "RKNN_ERR_INPUT_INVALID (-8)" in unknown["what"]
    assert "no answer was made for this input" in unknown["cause"]
    wide = agent.input(IMAGE + b"\0", pass_through=True)
    assert "rknn_inputs_set" in refused(agent, "run", inputs=[wide])["what"]
    for name, value in (("loops", 0), ("threads", 1000), ("warmup", -1), ("loops", "many")):
        error = refused(agent, "run", inputs=[agent.input()], **{name: value})
        assert repr(name) in error["what"]
    assert refused(agent, "dance")["what"].startswith("There is no method 'dance'")


def test_outputs_that_cannot_be_written(agent: Agent) -> None:
    agent.open()
    error = refused(agent, "run", inputs=[agent.input()], outputs="/proc/none")
    assert error["kind"] == "device storage"
    (agent.folder / "output0.bin").mkdir()
    error = refused(agent, "run", inputs=[agent.input()], outputs=str(agent.folder))
    assert error["kind"] == "device storage"
    assert not list(agent.folder.glob("*.part"))


def test_a_hang_is_ended(agents: Agents) -> None:
    agent = agents(HANG="run")
    agent.open()
    call = agent.start("run", inputs=[agent.input()])
    agent.says("hangs")
    agent.result("read", paths=["/proc/uptime"])  # it hears others meanwhile
    with ends():
        assert agent.child.stop(call) is False
        assert agent.child.returncode() in (128 + signal.SIGTERM, -signal.SIGTERM)


@pytest.mark.parametrize("call", ["init", "run"])
def test_the_end_of_the_input_ends_it_even_in_a_hang(agents: Agents, call: str) -> None:
    agent = agents(HANG=call)
    if call == "run":
        agent.open()
        agent.start("run", inputs=[agent.input()])
    else:
        agent.start("open", **agent.opening)
    agent.says("hangs")
    agent.child.peer.hang_up()
    assert agent.child.process.wait(PATIENCE) == 0


def test_a_crash_ends_it_without_an_answer(agents: Agents) -> None:
    agent = agents(CRASH="run")
    agent.open()
    call = agent.start("run", inputs=[agent.input()])
    agent.hears(lambda: not agent.child.peer.open)
    assert call.answer is None
    assert agent.child.returncode() == -signal.SIGABRT


@pytest.mark.parametrize("call", ["init", "query", "run", "outputs_get", "dup_context"])
def test_the_call_of_a_crash_is_named(agents: Agents, call: str) -> None:
    agent = agents(CRASH=call)
    if call in ("init", "query"):
        agent.start("open", **agent.opening)
    else:
        agent.open()
        # of two threads that crash at once the second may be heard last
        threads = 2 if call == "dup_context" else 1
        agent.start("run", inputs=[agent.input()], threads=threads)
    agent.hears(lambda: not agent.child.peer.open)
    agent.says("crashed")
    assert agent.child.peer.last_words == f"The program crashed in rknn_{call}."
    assert agent.child.returncode() == -signal.SIGABRT


_BUSY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <unistd.h>
int poll(struct pollfd *files, nfds_t count, int timeout) {
  int (*real)(struct pollfd *, nfds_t, int) =
      (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
  int found = real(files, count, timeout);
  if (timeout == -1) usleep(300000);
  return found;
}
"""
"""A machine that is busy: the thread that reads what libraries write comes to it late."""


def test_nothing_is_lost_of_what_a_library_wrote_before_it_crashed(
    agents: Agents, native: Path, tmp_path: Path
) -> None:
    agent = agents()
    source = tmp_path / "busy.c"
    source.write_text(_BUSY)
    busy = compiled(tmp_path / "busy.so", "-shared", "-fPIC", source)
    requests = [["open", agent.opening], ["run", {"inputs": [agent.input()]}]]
    done = one_shot(agent, native, requests, LD_PRELOAD=str(busy), RKNNTUI_EMULATED_CRASH="run")
    assert done.returncode == -signal.SIGABRT
    said = [line for line in done.stderr.decode().splitlines() if line]
    assert said[-2:] == ["E RKNN: emulated: rknn_run crashes", "The program crashed in rknn_run."]


def test_a_driver_that_is_not_loaded_is_told(agents: Agents) -> None:
    error = refused(agents(FAIL="init:-3"))
    assert error["cause"].startswith("The NPU's driver is not loaded")
    assert "group render" in error["remedy"]
    error = refused(agents(FAIL="init:-10"))
    assert "`rknntui doctor --device DEVICE` compares the versions." in error["remedy"]


def test_what_a_library_prints_reaches_stderr_and_not_the_protocol(agents: Agents) -> None:
    agent = agents(FAIL="run:-2")
    agent.open()
    refused(agent, "run", inputs=[agent.input()])
    agent.says("rknn_run fails")
    assert agent.child.peer.fault == ""


def one_shot(
    agent: Agent, native: Path, requests: list[Any], seconds: float = 60, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """What the agent does with requests in a file; its answers are beside it."""
    asked, reply = agent.folder / "request.json", agent.folder / "reply.json"
    asked.write_text(json.dumps({"requests": requests, "seconds": seconds}))
    done = subprocess.run(
        [str(native), "--request", str(asked), "--reply", str(reply)],
        env={
            **os.environ,
            "RKNNTUI_EMULATED_ANSWERS": str(agent.folder / "answers"),
            **variables,
        },
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=PATIENCE,
        check=False,
    )
    assert not list(agent.folder.glob("*.part"))
    return done


def answered(agent: Agent) -> list[Any]:
    """The answers to those requests."""
    answers: list[Any] = json.loads((agent.folder / "reply.json").read_text())["answers"]
    return answers


def test_one_shot(agents: Agents, native: Path) -> None:
    agent = agents("librknn_runtime.so")
    requests = [
        ["open", agent.opening | {"generation": 1}],
        ["run", {"inputs": [agent.input()], "outputs": str(agent.folder), "loops": 3}],
        ["memory", {}],
        ["watch", {"paths": []}],
        ["close", {}],
    ]
    assert one_shot(agent, native, requests).returncode == 0
    found = answered(agent)
    assert found[0]["result"]["generation"] == 1
    assert len(found[1]["result"]["wall_us"]) == 3
    assert (agent.folder / "output0.bin").read_bytes() == SCORES
    assert found[2]["error"]["kind"] == "runtime library"
    assert "no method 'watch' in one-shot mode" in found[3]["error"]["what"]
    assert found[4] == {"result": {}}


@pytest.mark.long
def test_one_shot_ends_a_hang(agents: Agents, native: Path) -> None:
    agent = agents()
    requests = [["open", agent.opening], ["run", {"inputs": [agent.input()]}], ["close", {}]]
    one_shot(agent, native, requests, seconds=5, RKNNTUI_EMULATED_HANG="run")
    found = answered(agent)
    assert found[0]["result"]["generation"] == 2
    assert [answer["error"]["kind"] for answer in found[1:]] == ["device", "device"]
    assert "not finished after 5 s" in found[1]["error"]["what"]


def test_settings_beside_the_library_change_while_it_runs(agents: Agents, tmp_path: Path) -> None:
    agent = agents()
    own = shutil.copy(agent.library, tmp_path)
    agent.open(libraries=[own])
    agent.run()
    settings = tmp_path / "emulated.conf"
    settings.write_text("RUN_US=1\nFAIL=run:-2\n")
    assert "TIMEOUT" in refused(agent, "run", inputs=[agent.input()])["what"]
    settings.write_text("RUN_US=2000\n")
    assert agent.run()["run_us"] == [2000]
    settings.unlink()
    assert agent.run()["run_us"] == [1500]
