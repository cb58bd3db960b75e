"""Emulated boards watched over a real adb server and a real sshd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.devices.board.runtime import BoardRuntime
from engine.devices.transports.adb.transport import AdbTransport
from engine.devices.watch.watch import replay_recording
from engine.wire.board import BoardState
from engine.wire.monitor import ReplayParams, WatchParams
from tests.devices.conftest import Boards, SshBoards
from tests.devices.faulty_board import FaultyBoard
from tests.devices.waiting import until
from tests.devices.watch.watching import Heard, hears, watching

pytestmark = pytest.mark.long


def shows(heard: Heard, device: str, true: Callable[[BoardState], bool]) -> Callable[[], bool]:
    """Whether the newest sample of a board is like that."""

    def look() -> bool:
        answered = heard.answered(device)
        state = answered[-1].state if answered else None
        return state is not None and true(state)

    return look


def left_behind(made: FaultyBoard) -> list[Path]:
    """What sessions left on a board."""
    return [path for path in made.root.rglob("run-*") if path.is_dir()]


@pytest.mark.adb
@pytest.mark.parametrize("chip", ["rk3588", "rk3566", "rv1106", "rk1808"])
def test_what_the_emulator_was_given_appears(board: Boards, chip: str, tmp_path: Path) -> None:
    made = board(chip)
    cores = made.board.cores if chip != "rk1808" else 0
    path = tmp_path / "recording.jsonl"
    params = WatchParams((made.address,), hertz=10, record=str(path))
    with watching(params) as heard:
        hears(heard, heard.answered, "it tells")
        (facts,) = heard.boards()
        assert (facts.device, facts.label, facts.chip) == (f"adb:{made.address}", "emulated", chip)
        assert facts.cores == made.board.cores
        for clock, celsius in ((made.board.hertz // 2, 63.5), (made.board.hertz, 71.0)):
            load = tuple(float(celsius // (core + 1)) for core in range(cores))
            if load:
                made.set_load([int(percent) for percent in load])
            made.image.set_temperature(celsius)
            made.set_frequency(clock)

            def like(
                state: BoardState,
                load: tuple[float, ...] = load,
                celsius: float = celsius,
                clock: int = clock,
            ) -> bool:
                return (
                    (state.npu_load or ()) == load
                    and state.npu_celsius == celsius
                    and (state.npu_clock == clock or not made.board.node)
                )

            hears(heard, shows(heard, "", like), f"{load} {celsius} {clock}")
    for sample in heard.answered():
        assert sample.state is not None
        assert sample.state.memory is not None
        reason = sample.state.reason("npu_load")
        assert bool(reason) == (chip == "rk1808")
    assert bool(heard.notes()) == made.board.old_adbd
    assert heard.result is not None
    (summary,) = heard.result.boards
    assert summary.celsius is not None
    assert (summary.celsius.maximum, summary.missed) == (71.0, 0)
    until(lambda: not left_behind(made), "the board is tidy")

    again = Heard()
    shown = replay_recording(ReplayParams(str(path), speed=0), again.reporter)
    assert again.samples() == heard.samples()
    assert shown.boards == heard.result.boards


@pytest.mark.adb
def test_beside_a_program_that_runs_models(board: Boards) -> None:
    made = board("rk3588")
    with watching(WatchParams((made.address,), hertz=10)) as heard:
        hears(heard, heard.answered, "it tells")
        with BoardRuntime(AdbTransport.open(made.address)) as runtime:
            seen = len(heard.answered())
            hears(heard, lambda: len(heard.answered()) > seen + 1, "it goes on")
            assert "MemTotal" in str(runtime.read(["/proc/meminfo"]))
        with watching(WatchParams((made.address,), hertz=10)) as other:
            hears(other, lambda: len(other.answered()) > 2, "a second one tells too")
    assert not heard.problems()
    until(lambda: not left_behind(made), "the board is tidy")


@pytest.mark.sshd
def test_over_ssh(ssh_board: SshBoards) -> None:
    made, address = ssh_board("rk3588")
    made.set_load((11, 22, 33))
    with watching(WatchParams((str(address),), hertz=10)) as heard:
        hears(heard, lambda: len(heard.answered()) > 3, "it tells")
        made.set_load((44, 55, 66))
        like = shows(heard, "", lambda state: state.npu_load == (44.0, 55.0, 66.0))
        hears(heard, like, "the new load")
    first = heard.answered()[0].state
    assert first is not None
    assert first.npu_load == (11.0, 22.0, 33.0)
    assert heard.notes() == []
    until(lambda: not left_behind(made), "the board is tidy")
