"""The key of an encrypted container, asked for when the worker lacks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rknntui.shell import Shell

_KINDS = ("key needed", "wrong key")
"""Of errors after which another key may help."""

_QUESTION = (
    "{} is encrypted. Its key is held until the worker ends, and written nowhere. A key in a file "
    "can be named when the workbench starts: RKNNTUI_KEY_FILE=FILE rknntui."
)


async def with_key(workbench: Shell, action: Callable[[], Awaitable[object]]) -> bool:
    """Do something that may meet an encrypted container: with its key, asked for until it opens.

    To be awaited inside a worker of Textual, as a dialog waits for its answer there.

    Args:
        workbench: asks, and gives the key to the worker.
        action: begun again with each key.

    Returns:
        Whether it was done; False where the user gave no key.

    Raises:
        EngineError: it failed for another reason.
    """
    from engine import EngineError

    while True:
        try:
            await action()
        except EngineError as error:
            if error.kind not in _KINDS:
                raise
            if not await ask_key(workbench, error):
                return False
        else:
            return True


async def ask_key(workbench: Shell, error: Exception) -> bool:
    """Ask for the key that an error says is missing or wrong; False for none.

    Args:
        workbench: asks, and gives the key to the worker.
        error: a wrong key is told above the line.

    Raises:
        EngineError: there is no worker, or no key has so many bytes.
    """
    from engine import EngineError, sanitize
    from engine.wire.encryption import ENCRYPTION_KEY, KeyParams
    from rknntui.screens.dialogs.dialogs import PromptDialog

    def problem(text: str) -> str:
        return "" if text else "The key is empty."

    name = workbench.opening or (workbench.session.path or "").rpartition("/")[2]
    question = _QUESTION.format(sanitize(name, 100) or "The container")
    if isinstance(error, EngineError) and error.kind == "wrong key":
        question = f"✗ {sanitize(error.what, 300)} {sanitize(error.remedy, 300)}"
    dialog = PromptDialog("Key", question, "", problem, hidden=True)
    text = await workbench.push_screen_wait(dialog)
    if text is None:
        return False
    await workbench.bridge.call(ENCRYPTION_KEY, KeyParams(text))
    return True
