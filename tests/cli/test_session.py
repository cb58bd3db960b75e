"""The one worker of a command, where this process itself runs out of memory."""

from __future__ import annotations

import asyncio

import pytest

from rknntui.cli.session import WorkerSession, with_worker
from tests.safety import ends


def test_an_answer_that_cannot_be_read_is_not_waited_for() -> None:
    async def action(session: WorkerSession) -> None:
        def no_room() -> None:
            raise MemoryError

        asyncio.get_running_loop().call_soon(no_room)
        await asyncio.Event().wait()

    with ends(), pytest.raises(MemoryError):
        with_worker(action, lambda _: None)
