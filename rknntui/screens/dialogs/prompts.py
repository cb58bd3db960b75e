"""Prompts before a file is opened: trust in its Python, its weights, its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from engine.wire.model import Pair
    from rknntui.shell import Shell

_WHY = {
    "new": "It was never allowed on this machine.",
    "changed": "It has changed since it was allowed.",
}


async def recipe_at(workbench: Shell, path: str) -> Mapping[str, object]:
    """The recipe in a file; empty where the file is something else.

    Raises:
        EngineError: it is missing or cannot be read.
    """
    from engine.wire.model import SNIFF
    from engine.wire.requests import RECIPE_LOAD, AtPath

    if (await workbench.bridge.call(SNIFF, AtPath(path))).kind != "recipe":
        return {}
    return (await workbench.bridge.call(RECIPE_LOAD, AtPath(path))).recipe


async def ask_trust(workbench: Shell, recipe: Mapping[str, object]) -> None:
    """Ask about each file of ``custom_ops`` that may not run yet; a no leaves it as it is.

    To be awaited inside a worker of Textual, as a dialog waits for its answer there.

    Raises:
        EngineError: the files could not be asked about.
    """
    from engine import sanitize
    from rknntui.screens.dialogs.dialogs import ConfirmDialog

    if not recipe.get("custom_ops"):
        return
    from engine.wire.requests import CODE_CONFIRM, CODE_FILES, CodeDigest, ModelTarget

    answer = await workbench.bridge.call(CODE_FILES, ModelTarget(recipe=recipe))
    for file in answer.files:
        why = _WHY.get(file.state)
        if why is None:
            continue
        names = ", ".join(sanitize(name, 60) for name in file.names)
        question = (
            f"The recipe runs the Python file {sanitize(file.path, 300)} for the custom "
            f"operators {names}. {why} It has all your permissions: allow it only if you trust it. "
            f"SHA-256 {file.sha256}"
        )
        answers = [("n", "do not run it", False), ("a", "allow it", True)]
        dialog = ConfirmDialog("Run the Python code of a recipe?", question, answers)
        if await workbench.push_screen_wait(dialog):
            await workbench.bridge.call(CODE_CONFIRM, CodeDigest(file.path, file.sha256))


async def ask_for_partner(workbench: Shell, path: str) -> Pair | None:
    """Ask which file is the other half of a model; its pair of model and weights, None for no.

    To be awaited inside a worker of Textual, as :func:`ask_trust`.

    Raises:
        EngineError: the folder of ``path`` could not be looked through.
    """
    from engine import sanitize
    from engine.wire.model import PAIRS
    from engine.wire.requests import AtPath
    from rknntui.screens.dialogs.lists import ChoiceDialog

    pairs = (await workbench.bridge.call(PAIRS, AtPath(path))).pairs
    weights = all(pair.model == path for pair in pairs)
    other = ((pair.weights if weights else pair.model, pair) for pair in pairs)
    by_name = {sanitize(name.rpartition("/")[2], 300): pair for name, pair in other}
    own = sanitize(path.rpartition("/")[2], 40)
    what = "Weights of" if weights else "Network of"
    chosen = await workbench.push_screen_wait(ChoiceDialog(f"{what} {own}", list(by_name), ""))
    return None if chosen is None else by_name[chosen]


# The key of an encrypted container, asked for when the worker lacks it.

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

    name = workbench.session.opening or (workbench.session.path or "").rpartition("/")[2]
    question = _QUESTION.format(sanitize(name, 100) or "The container")
    if isinstance(error, EngineError) and error.kind == "wrong key":
        question = f"✗ {sanitize(error.what, 300)} {sanitize(error.remedy, 300)}"
    dialog = PromptDialog("Key", question, "", problem, hidden=True)
    text = await workbench.push_screen_wait(dialog)
    if text is None:
        return False
    await workbench.bridge.call(ENCRYPTION_KEY, KeyParams(text))
    return True
