"""What every answer about a model on a board begins with, and how much of a file is taken."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from engine.base.errors import DeviceStorageError
from engine.devices.address import Address
from engine.devices.board.model_file import ModelFile
from engine.devices.board.results import OpenModel
from engine.devices.connected import Connected
from engine.devices.probe.identify import BoardIdentity
from engine.devices.transports.local import LocalTransport
from engine.devices.transports.shared import write_pieces
from engine.wire.devices import BoardAnswer


@pytest.mark.parametrize("emulated", [False, True])
def test_the_head_of_an_answer(emulated: bool) -> None:
    identity = BoardIdentity(chip="rk3588", emulated=emulated)
    board = Connected(Address("local", ""), LocalTransport(), identity)
    file = ModelFile(path=Path("m.rknn"), size=1, sha256="")
    opened = OpenModel(file, "/l.so", 2, "2.3.2", "0.9.8", (), (), None, ("the board's",))
    assert board.head(opened, "one", "two") == BoardAnswer(
        label="emulated" if emulated else "measured",
        device="local",
        chip="rk3588",
        runtime="2.3.2",
        driver="0.9.8",
        notes=("the board's", "one", "two"),
    )


@pytest.mark.parametrize(
    ("limit", "size", "says"),
    [(10, 7, ""), (9, 7, "larger than"), (20, 12, "could not be read or written")],
)
def test_no_more_of_a_file_is_written_than_was_asked_for(limit: int, size: int, says: str) -> None:
    """And no less than the board has told."""
    stream, told = BytesIO(), list[tuple[int, int]]()

    def write() -> None:
        moved = lambda done, size: told.append((done, size))  # noqa: E731
        pieces = [b"12345", b"67890"]
        write_pieces(pieces, stream, "/tmp/out", limit=limit, size=size, moved=moved)

    if says:
        with pytest.raises(DeviceStorageError, match=says):
            write()
    else:
        write()
        assert told == [(5, 7), (10, 10)]
    assert stream.getvalue() == (b"12345" if limit == 9 else b"1234567890")
