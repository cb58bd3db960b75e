"""Boards that are programs of this machine, asked in a conversation or one request at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.devices.board.layout import find_folder
from tests.container.vendor import build
from tests.devices.fake_board import FakeBoard
from tests.safety import patience

__all__ = ["patience"]


@pytest.fixture(params=["conversation", "one shot"])
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeBoard]:
    board = FakeBoard(tmp_path, converses=request.param == "conversation")
    yield board
    board.gone = False
    board.close()
    left = find_folder(board).runs()
    assert left == (), "a session left its folder on the board"
    assert not list(tmp_path.glob("rknntui-board-*")), "a session left its folder here"


@pytest.fixture
def talking(tmp_path: Path) -> Iterator[FakeBoard]:
    board = FakeBoard(tmp_path)
    yield board
    board.close()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "it's a $(touch x) model.rknn"
    path.write_bytes(build.npu())
    return path
