"""Boards watched, each its own way, without a board."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.base.errors import DeviceError, DeviceLostError, JobCancelledError, UsageError
from engine.base.events import NullReporter
from engine.devices.address import Address
from engine.devices.agent.built import TARGETS
from engine.devices.board import layout
from engine.devices.transport import Transport
from engine.devices.watch import board_watch
from engine.devices.watch.watch import Mailbox, WatchSums, watch_boards
from engine.wire.board import BoardFacts, BoardState, Power, SystemMemory, Temperature
from engine.wire.board_tables import state_figures, watched_rows
from engine.wire.codec import read_request
from engine.wire.monitor import (
    BoardNote,
    BoardSample,
    Monitored,
    ReplayParams,
    Span,
    WatchParams,
)
from tests.devices.fake_board import FakeBoard
from tests.devices.probe.boards import Board, rk1808, rk3588
from tests.devices.watch.watching import Heard, hears, watch_threads, watching
from tests.safety import ends


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_watch, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(board_watch, "LAST_SECONDS", 0.05)


def old_rk3588(**files: bytes) -> Board:
    """One that is asked file by file."""
    board = rk3588(files)
    board.converses = False
    return board


def reaching(boards: dict[str, Board]) -> Callable[[Address], Transport]:
    return lambda address: boards[address.name]


def test_two_boards_at_once_and_one_that_is_lost() -> None:
    boards = {"one": old_rk3588(), "two": rk1808()}
    params = WatchParams(("adb:one", "two", "adb:two"), hertz=10)
    with watching(params, reaching(boards)) as heard:
        hears(heard, lambda: heard.answered("one") and heard.answered("two"), "both told")
        assert [facts.chip for facts in heard.boards("one")] == ["rk3588"]
        (facts,) = heard.boards("two")
        assert (facts.device, facts.label, facts.chip) == ("adb:two", "measured", "rk1808")

        boards["one"].lost = DeviceLostError("It has gone.", remedy="Put it back.")
        hears(heard, lambda: len(heard.problems("one")) > 2, "it was lost")
        before = len(heard.answered("two"))
        hears(heard, lambda: len(heard.answered("two")) > before + 2, "the other goes on")
        boards["one"].lost = None
        seen = len(heard.answered("one"))
        hears(heard, lambda: len(heard.answered("one")) > seen, "it was reached again")
        assert len(heard.boards("one")) == 2

    problem = heard.problems("one")[0]
    assert problem.state is None
    assert problem.problem.startswith("It has gone. Put it back. Tried again in ")
    state = heard.answered("one")[0].state
    assert state is not None
    assert state.npu_load == (63.0, 65.0, 64.0)
    times = [sample.at for sample in heard.samples("two")]
    assert times == sorted(times)

    assert heard.result is not None
    one, two = heard.result.boards
    assert (one.facts.device, two.facts.device) == ("adb:one", "adb:two")
    assert one.samples == len(heard.answered("one"))
    assert one.missed == len(heard.problems("one"))
    assert (two.missed, two.npu_load) == (0, ())
    assert one.npu_load == (Span(63.0, 63.0, 63.0), Span(65.0, 65.0, 65.0), Span(64.0, 64.0, 64.0))
    assert two.npu_clock == Span(792e6, 792e6, 792e6)
    assert heard.result.seconds > 0


def test_a_board_that_is_asked_file_by_file_says_so_once() -> None:
    board = rk1808()
    with watching(WatchParams(("adb:old",), hertz=10), lambda _: board) as heard:
        hears(heard, lambda: len(heard.answered()) > 1, "it told")
        board.lost = DeviceLostError("It has gone.")
        hears(heard, heard.problems, "it was lost")
        board.lost = None
        seen = len(heard.answered())
        hears(heard, lambda: len(heard.answered()) > seen, "it was reached again")
    first = heard.notes()[0]
    assert "old" in first.text
    assert [note.text for note in heard.notes()].count(first.text) == 1
    assert heard.result is not None
    assert first.text in heard.result.boards[0].notes


def test_a_board_that_is_slow_says_how_slow() -> None:
    board = rk1808()
    pause = threading.Event()
    read = board.read

    def slowly(path: str, *, limit: int = 1 << 20) -> bytes | None:
        if path == "/proc/meminfo":
            pause.wait(0.15)
        return read(path, limit=limit)

    board.read = slowly  # type: ignore[method-assign]
    with watching(WatchParams(("adb:old",), hertz=10), lambda _: board) as heard:
        hears(heard, lambda: len(heard.notes()) == 2, "it is said")
    assert "A look at this board takes 0." in heard.notes()[1].text


@pytest.mark.parametrize("agent", [True, False])
def test_the_agent_tells_where_there_is_one(
    agent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setattr(layout, "_LINUX", (str(place),))
    board = FakeBoard(tmp_path)
    if not agent:
        request.getfixturevalue("no_agent")
    elif platform.machine() not in TARGETS:
        pytest.skip(f"no agent is built for {platform.machine()}")
    with watching(WatchParams(("local",), hertz=10), lambda _: board) as heard:
        hears(heard, lambda: len(heard.answered()) > 2, "it told")
        if agent:  # an agent that ends without a word is started again
            (talk,) = board.talks
            talk.cut()
            seen = len(heard.answered())
            hears(heard, lambda: len(heard.answered()) > seen + 1, "it was reached again")
    for sample in heard.answered():
        assert sample.state is not None
        assert sample.state.memory is not None
    assert len(board.talks) == (2 if agent else 0)
    assert [("no agent" in note.text) for note in heard.notes()] == [True] * (not agent)
    assert not [path for path in place.rglob("*") if path.name.startswith("run")], "left there"


def test_one_that_cannot_be_reached_is_tried_again() -> None:
    tries = []

    def refuse(address: Address) -> Transport:
        tries.append(address)
        raise DeviceError("There is no such board.", cause="No cable.", remedy="Plug it in.")

    with watching(WatchParams(("adb:x",)), refuse) as heard:
        hears(heard, lambda: len(tries) > 3, "tried again")
    assert heard.result is not None
    (board,) = heard.result.boards
    assert board.facts == BoardFacts("adb:x", "measured")
    assert (board.samples, board.missed) == (0, len(heard.problems()))
    assert "There is no such board. No cable. Plug it in." in heard.problems()[0].problem


def test_cancelling_ends_it_without_a_result() -> None:
    with watching(WatchParams(("adb:x",), hertz=10), lambda _: rk1808()) as heard:
        hears(heard, heard.answered, "it told")
        heard.cancelled = True
    assert isinstance(heard.error, JobCancelledError)
    assert heard.result is None


def test_a_board_that_hangs_holds_up_no_end() -> None:
    hanging, go_on = threading.Event(), threading.Event()

    def hang(address: Address) -> Transport:
        if address.name == "hangs":
            hanging.set()
            go_on.wait()
        return rk1808()

    def cancel() -> None:
        hanging.wait()
        heard.cancelled = True

    heard = Heard()
    with ends():
        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(JobCancelledError):
            watch_boards(WatchParams(("adb:hangs", "adb:x")), heard.reporter, reach=hang)
        assert watch_threads() == ["watch adb:hangs"]
        go_on.set()
        while watch_threads():
            pass
        thread.join()


def test_a_board_that_falls_silent_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_watch, "SILENT_SECONDS", 0.4)
    board, go_on = rk1808(), threading.Event()
    go_on.set()
    read = board.read

    def waits(path: str, *, limit: int = 1 << 20) -> bytes | None:
        go_on.wait()
        return read(path, limit=limit)

    board.read = waits  # type: ignore[method-assign]
    with watching(WatchParams(("adb:x",), hertz=10), lambda _: board) as heard:
        hears(heard, lambda: len(heard.answered()) > 1, "it told")
        go_on.clear()
        hears(heard, heard.problems, "it is silent")
        seen = len(heard.answered())
        go_on.set()
        hears(heard, lambda: len(heard.answered()) > seen + 1, "it tells again")
    assert "Nothing was heard of the board for" in heard.problems()[0].problem
    assert len(heard.boards()) == 1, "it was never lost"


def test_it_ends_by_itself() -> None:
    found = watch_boards(
        WatchParams(("adb:x",), seconds=0.2), NullReporter(), reach=lambda _: rk1808()
    )
    assert found.seconds >= 0.2


def test_its_time_runs_from_the_first_look() -> None:
    def late(_: Address) -> Transport:
        time.sleep(0.5)
        return rk1808()

    (board,) = watch_boards(WatchParams(("adb:x",), seconds=0.1), NullReporter(), reach=late).boards
    assert board.samples > 0


def test_a_mistake_of_ours_is_not_hidden() -> None:
    def broken(_: Address) -> Transport:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), ends():
        watch_boards(WatchParams(("adb:x",)), NullReporter(), reach=broken)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        (WatchParams(("adb:; reboot",)), "is not the address of a board"),
        (WatchParams(tuple(f"adb:x{n}" for n in range(65))), "At most 64 boards"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(params: WatchParams, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        watch_boards(params, NullReporter(), reach=lambda _: rk1808())


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        (WatchParams, "hertz", (0.05, 11, float("nan"))),
        (WatchParams, "seconds", (0.0,)),
        (ReplayParams, "speed", (-1.0, 1001.0, float("nan"), float("inf"))),
    ],
)
def test_numbers_out_of_bounds_are_no_request(
    kind: type, name: str, values: tuple[float, ...]
) -> None:
    path = {"path": "x.jsonl"} if kind is ReplayParams else {}
    for value in values:
        with pytest.raises(UsageError, match=name):
            read_request(kind, {**path, name: value})


def test_nobody_takes_and_memory_does_not_grow() -> None:
    mailbox = Mailbox()
    facts, note = BoardFacts("adb:x", "measured"), BoardNote("adb:x", "a note")
    mailbox.put(facts)
    mailbox.put(note)
    for number in range(10_000):
        mailbox.put(BoardSample("adb:x", float(number)))
    taken = []
    while (told := mailbox.take(0)) is not None:
        taken.append(told)
    assert taken[:2] == [facts, note]
    assert len(taken) == 512
    assert taken[-1] == BoardSample("adb:x", 9999.0)
    for _ in range(10_000):
        mailbox.put(note)
    assert sum(1 for _ in iter(lambda: mailbox.take(0), None)) == 512


def test_sums() -> None:
    sums = WatchSums(["adb:x"])
    empty = Monitored(sums.summaries(), 1.0).boards[0]
    assert (empty.samples, empty.npu_load, empty.celsius) == (0, (), None)
    memory = SystemMemory(total=1000, available=400)
    for load, clock in ((10.0, 100), (30.0, 300)):
        zones = (Temperature("npu-thermal", load),)
        powers = (Power("ina226", load / 10),)
        state = BoardState((load, 5.0), clock, temperatures=zones, memory=memory, powers=powers)
        sums.add(BoardSample("adb:x", 1.0, state))
    sums.add(BoardSample("adb:x", 2.0, BoardState(memory=SystemMemory(total=1000))))
    sums.add(BoardSample("adb:x", 2.0, None, "gone"))
    (found,) = sums.summaries()
    assert (found.samples, found.missed) == (3, 1)
    assert found.npu_load == (Span(10.0, 20.0, 30.0), Span(5.0, 5.0, 5.0))
    assert found.npu_clock == Span(100, 200, 300)
    assert found.celsius == Span(10.0, 20.0, 30.0)
    assert found.memory_used == Span(600, 600, 600)
    assert found.power == {"ina226": Span(1.0, 2.0, 3.0)}
    assert {"part": "power, ina226, W", "minimum": 1.0, "mean": 2.0, "maximum": 3.0} in [
        *watched_rows(found)
    ]
    for number in range(63):
        sums.add(BoardFacts(f"adb:{number}", "measured"))
    with pytest.raises(UsageError, match="64 boards"):
        sums.add(BoardFacts("adb:one too many", "measured"))


def test_the_figures_of_a_look() -> None:
    state = BoardState(
        (10.0, 5.0), 10**9, ddr_clock=None, cpu_clocks=(("policy0", 1), ("policy4", 2 * 10**9)),
        temperatures=(Temperature("soc-thermal", 41.5),), powers=(Power("ina226", 5.12),),
        memory=SystemMemory(total=1000, available=400),
    )  # fmt: skip
    found = [(one.name, one.format.text(one.value), one.whole) for one in state_figures(state)]
    assert found == [
        ("NPU 0", "10 %", 100.0),
        ("NPU 1", "5 %", 100.0),
        ("NPU clock", "1000 MHz", 0.0),
        ("CPU clock", "2000 MHz", 0.0),
        ("temperature", "41.5 °C", 100.0),
        ("memory", "600 B", 1000.0),
        ("power ina226", "5.12 W", 0.0),
    ]
    assert [*state_figures(BoardState())] == []


def test_a_watch_loads_nothing_of_models(repository: Path) -> None:
    """It has a worker of its own, and a small board little memory."""
    code = (
        "import sys, engine.services.board, engine.devices.watch.watch, "
        "engine.devices.watch.recording; print({'numpy', 'onnx', 'onnx_ir'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
