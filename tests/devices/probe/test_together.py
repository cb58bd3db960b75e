"""Many files of a board by one program of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.base.errors import DeviceLostError
from engine.devices.probe.reading import read_together
from engine.devices.probe.state import StateReader, read_state
from engine.devices.transport import Completed
from engine.devices.transports.local import LocalTransport
from tests.devices.probe.boards import Board, rk1808, rk3588


def with_head(board: Board, mixed: bool = False) -> Board:
    """One whose ``head`` is busybox's; old boards mix what it complains of into the output."""

    def head(words: Sequence[str]) -> Completed:
        out: list[str] = []
        err: list[str] = []
        for path in words[3:]:
            if path in board.denied:
                err.append(f"head: {path}: Permission denied\r\n")
            elif path not in board.files:
                err.append(f"head: {path}: No such file or directory\r\n")
            else:
                heading = "\r\n" * bool(out) + f"==> {path} <==\r\n"
                out.append(heading + board.files[path].decode().replace("\n", "\r\n"))
        text = "".join(err + out) if mixed else "".join(out)
        return Completed(bool(err), text.encode(), b"" if mixed else "".join(err).encode())

    programs = dict(board.programs)
    programs["head"] = head
    board.programs = programs
    return board


@pytest.mark.parametrize("mixed", [True, False])
def test_a_look_is_the_same_as_file_by_file(mixed: bool) -> None:
    for make, chip in ((rk3588, "rk3588"), (rk1808, "rk1808")):
        board = with_head(make(), mixed)
        reader = StateReader(board, chip, together=True)
        board.asked.clear()
        assert reader.look() == read_state(make(), chip)
        assert [words[0] for words in board.asked] == ["head"]


def test_a_file_that_is_closed_is_for_root_only() -> None:
    load = "/sys/kernel/debug/rknpu/load"
    board = with_head(rk3588(denied=frozenset({load})))
    assert StateReader(board, "rk3588", together=True).look().reason("npu_load") == "root only"


def test_a_board_without_it_is_read_file_by_file() -> None:
    board = rk1808()
    reader = StateReader(board, "rk1808", together=True)
    assert reader.look() == read_state(rk1808(), "rk1808")
    board.asked.clear()
    assert reader.look().npu_clock == 792_000_000
    assert "head" not in [words[0] for words in board.asked], "it is not tried again"


def test_files_that_claim_to_be_another() -> None:
    def lie(_: Sequence[str]) -> Completed:
        return Completed(0, b"==> /a <==\n1\n==> /etc/shadow <==\n==> /a <==\n2\n==> /b <==\n3")

    values = read_together(Board(programs={"head": lie}), ["/a", "/b"])
    assert values == ({"/a": "1\n", "/b": "3"}, {})
    for nonsense in (b"", b"\xff\xfe" * 1000, b"==> /a <==", b"==> <==\n" * 1000):
        board = Board(programs={"head": nonsense})
        assert read_together(board, ["/a", "/b"]) is None


def test_a_board_that_has_gone_is_lost() -> None:
    with pytest.raises(DeviceLostError):
        read_together(Board(lost=DeviceLostError("gone")), ["/a", "/b"])


def test_the_head_of_this_machine(tmp_path: Path) -> None:
    paths = []
    for number in range(60):
        path = tmp_path / f"a-long-name-of-a-file-of-the-kernel-{number}"
        paths.append(str(path))
        if number != 7:
            path.write_text(f"{number}" + "\n" * (number % 2))
    found = read_together(LocalTransport(), paths)
    assert found is not None
    values, reasons = found
    read = {path: text and text.strip() for path, text in values.items()}
    assert read == {path: None if number == 7 else str(number) for number, path in enumerate(paths)}
    assert reasons == {}
