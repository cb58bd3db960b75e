"""Encrypted containers in the workbench: the key is asked for, a wrong one told, none shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from engine.base.errors import KeyNeededError
from engine.container import write_container
from engine.container.encryption import encrypt_file
from engine.container.keys import key_of_text
from engine.wire.encryption import ENCRYPTION_KEY, KeyParams
from rknntui.app import Workbench
from rknntui.screens.dialogs.dialogs import PromptDialog
from tests.container.build import content
from tests.tui.conftest import Driver, screen_text, until, workbench

SIZE = (80, 24)
pytestmark = pytest.mark.usefixtures("warm")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    plain, path = tmp_path / "plain.rknn", tmp_path / "net.crypt.rknn"
    plain.write_bytes(write_container(content()))
    encrypt_file(plain, path, key_of_text("word"))
    return path


@pytest_asyncio.fixture(loop_scope="session")
async def asked(secret: Path) -> AsyncIterator[tuple[Workbench, Driver]]:
    """The workbench on the container, asking."""
    async with workbench(secret) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, PromptDialog), "the question")
        yield app, pilot
        await app.bridge.call(ENCRYPTION_KEY, KeyParams())  # tests share the worker


async def test_an_encrypted_container_opens_with_the_key_that_is_asked_for(
    asked: tuple[Workbench, Driver], secret: Path
) -> None:
    app, pilot = asked
    assert f"{secret.name} is encrypted" in screen_text(app)
    await pilot.press("enter", sees="The key is empty")
    await pilot.press(*"other")
    assert "other" not in screen_text(app)
    await pilot.press("enter", sees="does not open")
    assert app.session.container is None
    await pilot.press(*"word", "enter", until=lambda: app.session.container == str(secret))
    assert not isinstance(app.screen, PromptDialog)

    await app.bridge.call(ENCRYPTION_KEY, KeyParams())  # as a worker that was started anew
    app.show_error(KeyNeededError(f"{secret.name} is encrypted, and no key is given."))
    await until(pilot, lambda: isinstance(app.screen, PromptDialog), "the question again")
    await pilot.press(*"word", "enter", sees="start the job again")


async def test_without_the_key_nothing_is_opened(
    asked: tuple[Workbench, Driver],
) -> None:
    app, pilot = asked
    await pilot.press("escape", until=lambda: not app.session.opening)
    assert app.session.model is None
    assert not isinstance(app.screen, PromptDialog)
