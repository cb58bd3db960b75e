"""The stand-ins: how they are compiled, and what their files of answers may be."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import DeviceError, UsageError
from rknntui_emulator.boards import BOARDS
from rknntui_emulator.runtime import build as module
from rknntui_emulator.runtime.answers import ANY_INPUT, TensorFacts, input_digest
from rknntui_emulator.runtime.build import LIBRARIES, Kind, build, stand_in_of
from tests.devices.agent.conftest import HALVES, IMAGE, ROWS, SCORES, Agent, answers
from tests.devices.conftest import FAULTS, Libraries

cc = pytest.mark.cc


@cc
@pytest.mark.parametrize(
    ("kind", "version", "words"),
    [
        ("librknnrt.so", "1.5.2", b"librknnrt version: 1.5.2 (emulated by rknntui@"),
        ("librknn_runtime.so", "", b"librknn_runtime version: 1.7.5 (emulated by rknntui@"),
        ("librknnmrt.so", "", b"librknnmrt version: 2.3.2 (emulated by rknntui@"),
    ],
)
def test_the_version_is_in_the_file(
    libraries: Libraries, kind: Kind, version: str, words: bytes
) -> None:
    assert words in libraries(kind, version).read_bytes()


def test_every_emulated_board_has_a_stand_in_of_its_library() -> None:
    found = {chip: stand_in_of(board.library) for chip, board in BOARDS.items()}
    assert found["rv1106"] == "librknnmrt.so"
    assert found["rk3588"] == "librknnrt.so"
    assert found["rk1808"] == "librknn_runtime.so"
    assert set(found.values()) <= set(LIBRARIES)
    for chip, kind in found.items():
        assert (BOARDS[chip].generation == 1) == (kind == "librknn_runtime.so")


@cc
def test_a_library_is_compiled_once(libraries: Libraries, tmp_path: Path) -> None:
    built = libraries()
    for name in (built.name, f"{built.name}.made-of"):
        shutil.copy(built.with_name(name), tmp_path)
    before = (tmp_path / built.name).stat()
    assert build("librknnrt.so", tmp_path, also=[FAULTS]) == tmp_path / built.name
    assert (tmp_path / built.name).stat().st_mtime_ns == before.st_mtime_ns


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "compiler", lambda: None)
    with pytest.raises(DeviceError, match="no C compiler"):
        build("librknnrt.so", tmp_path)
    monkeypatch.setattr(module, "compiler", lambda: "/bin/false")
    with pytest.raises(DeviceError, match="could not be compiled"):
        build("librknnrt.so", tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(DeviceError, match="is no version"):
        build("librknnrt.so", tmp_path, version='2";x')


def test_the_form_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.answers"
    answers(platform="rk3588").write(path)
    text, mark, data = path.read_bytes().partition(b"data\n")
    assert mark
    assert data == (SCORES + HALVES) * 2
    lines = text.decode().splitlines()
    assert lines[0] == "rknntui answers 1"
    assert "memory\t3698688\t1756160\t5939200\t1048576\t524288" in lines
    assert "output\tscores\t1,5\tUNDEFINED\tINT8\tAFFINE\t0\t-28\t0.25" in lines
    assert f"answer\t{input_digest([IMAGE])}\t0\t13" in lines
    assert "platform\trk3588" in lines


def test_answers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.answers"
    with pytest.raises(UsageError, match="sizes"):
        answers(results={ANY_INPUT: (SCORES, HALVES[1:])}).write(path)
    with pytest.raises(UsageError, match="CHWN"):
        answers(inputs=(TensorFacts("a", (1,), layout="CHWN"),)).write(path)
    assert not path.exists()


@given(st.lists(st.binary(max_size=9), max_size=4), st.lists(st.binary(max_size=9), max_size=4))
def test_other_inputs_have_another_digest(one: list[bytes], other: list[bytes]) -> None:
    assert (input_digest(one) == input_digest(other)) == (one == other)


@cc
def test_names_of_any_kind_stay_in_their_column(agents: Callable[..., Agent]) -> None:
    nasty = "a\tb\nc%s%n ü " + "x" * 300
    tensor = TensorFacts(nasty, (1, 5), "INT8", "UNDEFINED")
    rows = (*ROWS, replace(ROWS[1], name=nasty, id=3))
    known = answers(outputs=(tensor,), results={ANY_INPUT: (SCORES,)}, layers=rows)
    agent = agents(known=known)
    opened = agent.open(perf=True)
    assert opened["outputs"][0]["name"].startswith("a b c%s%n ü xxx")
    assert "a b c%s%n ü xxx" in agent.run()["perf"]


@cc
@pytest.mark.parametrize(
    "change",
    [
        (b"rknntui answers 1", b"rknntui answers 2"),
        (b"data\n", b"dat\n"),
        (b"\t1,5\t", b"\t1,0\t"),
        (b"\t1,5\t", b"\t4000000000,4000000000\t"),
        (b"\t1,5\t", b"\t1,6\t"),
        (b"INT8", b"INT9"),
        (b"\t0\t13\n", b"\t99999\t13\n"),
        (b"\t0\t13\n", b"\t18446744073709551615\t13\n"),
        (b"run_us\t1500", b"run_us\t-1"),
        (b"memory\t", b"memory\tx"),
        (b"generation\t2", b"generation\t3"),
        (b"layer\t", b"layer\t" + b"\t" * 40),
    ],
    ids=lambda change: change[1].decode("ascii")[:20].strip(),
)
def test_a_broken_file_is_refused(agent: Agent, change: tuple[bytes, bytes]) -> None:
    (path,) = (agent.folder / "answers").iterdir()
    content = path.read_bytes()
    assert change[0] in content
    path.write_bytes(content.replace(*change))
    refused = agent.error("open", **agent.opening)
    assert "no answers for this model: it is no file of answers" in refused["cause"]


@cc
def test_a_file_that_is_cut_anywhere_is_refused(agent: Agent) -> None:
    (path,) = (agent.folder / "answers").iterdir()
    content = path.read_bytes()
    for size in range(0, len(content), 37):
        path.write_bytes(content[:size])
        refused = agent.error("open", **agent.opening)
        assert "no answers for this model" in refused["cause"]
    path.write_bytes(content)
    agent.open()
