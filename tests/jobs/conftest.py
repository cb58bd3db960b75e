from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from engine.jobs.client import Worker

TOY = "tests.jobs.toy_worker"


@pytest.fixture
async def toy() -> AsyncIterator[Worker]:
    worker = await Worker.start(module=TOY)
    yield worker
    await worker.close()
