"""Encrypted containers in the workbench: the key is asked for, a wrong one told, none shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from textual.pilot import Pilot

from engine.base.errors import KeyNeededError
from engine.container import write_container
from engine.container.encrypted_files import encrypt_file
from engine.container.keys import key_of_text
from engine.wire.encryption import ENCRYPTION_KEY, KeyParams
from rknntui.app import Workbench
from rknntui.screens.dialogs.dialogs import PromptDialog
from tests.container.build import content
from tests.tui.conftest import screen_text, until
from tests.tui.flow import press_text

SIZE = (80, 24)
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("warm")]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    plain, path = tmp_path / "plain.rknn", tmp_path / "net.crypt.rknn"
    plain.write_bytes(write_container(content()))
    encrypt_file(plain, path, key_of_text("word"))
    return path


@pytest_asyncio.fixture(loop_scope="session")
async def asked(secret: Path) -> AsyncIterator[tuple[Workbench, Pilot[None]]]:
    """The workbench on the container, asking."""
    app = Workbench(str(secret), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(app.screen, PromptDialog), "the question")
        yield app, pilot
        await app.bridge.call(ENCRYPTION_KEY, KeyParams())  # tests share the worker


async def test_an_encrypted_container_opens_with_the_key_that_is_asked_for(
    asked: tuple[Workbench, Pilot[None]], secret: Path
) -> None:
    app, pilot = asked
    assert f"{secret.name} is encrypted" in screen_text(app)
    await pilot.press("enter")
    await until(pilot, lambda: "The key is empty" in screen_text(app), "what is wrong")
    await press_text(pilot, "other")
    assert "other" not in screen_text(app)
    await pilot.press("enter")
    await until(pilot, lambda: "does not open" in screen_text(app), "that it is another one")
    assert app.session.container is None
    await press_text(pilot, "word")
    await pilot.press("enter")
    await until(pilot, lambda: app.session.container == str(secret), "the container")
    assert not isinstance(app.screen, PromptDialog)

    await app.bridge.call(ENCRYPTION_KEY, KeyParams())  # as a worker that was started anew
    app.show_error(KeyNeededError(f"{secret.name} is encrypted, and no key is given."))
    await until(pilot, lambda: isinstance(app.screen, PromptDialog), "the question again")
    await press_text(pilot, "word")
    await pilot.press("enter")
    await until(pilot, lambda: "start the job again" in screen_text(app), "how to go on")


async def test_without_the_key_nothing_is_opened(
    asked: tuple[Workbench, Pilot[None]],
) -> None:
    app, pilot = asked
    await pilot.press("escape")
    await until(pilot, lambda: not app.session.opening, "the end")
    assert app.session.model is None
    assert not isinstance(app.screen, PromptDialog)
