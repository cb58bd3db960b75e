"""What is asked before a file is opened: whether its Python may run, which weights it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rknntui.app import Workbench

__all__ = ["ask_about_code", "ask_for_partner", "recipe_at"]

_WHY = {
    "new": "It was never allowed on this machine.",
    "changed": "It has changed since it was allowed.",
}


async def recipe_at(workbench: Workbench, path: str) -> dict[str, Any]:
    """The recipe in a file; empty where the file is something else.

    Raises:
        EngineError: it is missing or cannot be read.
    """
    if (await workbench.bridge.call("sniff", {"path": path}))["kind"] != "recipe":
        return {}
    answer = await workbench.bridge.call("recipe.load", {"path": path})
    return dict(answer["recipe"])


async def ask_about_code(workbench: Workbench, recipe: dict[str, Any]) -> None:
    """Ask about each file of ``custom_ops`` that may not run yet; a no leaves it as it is.

    To be awaited inside a worker of Textual, as a dialog waits for its answer there.

    Raises:
        EngineError: the files could not be asked about.
    """
    from engine import printable
    from rknntui.screens.dialogs.dialogs import ConfirmDialog

    if not recipe.get("custom_ops"):
        return
    answer = await workbench.bridge.call("code.files", {"recipe": recipe})
    for file in answer["files"]:
        why = _WHY.get(file["state"])
        if why is None:
            continue
        names = ", ".join(printable(name, 60) for name in file["names"])
        question = (
            f"The recipe runs the Python file {printable(file['path'], 300)} for the custom "
            f"operators {names}. {why} It has all your permissions: allow it only if you trust it. "
            f"SHA-256 {file['sha256']}"
        )
        answers = [("n", "do not run it", False), ("a", "allow it", True)]
        dialog = ConfirmDialog("Run the Python code of a recipe?", question, answers)
        if await workbench.push_screen_wait(dialog):
            told = {"path": file["path"], "sha256": file["sha256"]}
            await workbench.bridge.call("code.confirm", told)


async def ask_for_partner(workbench: Workbench, path: str) -> dict[str, str] | None:
    """Ask which file is the other half of a model; its pair of model and weights, None for no.

    To be awaited inside a worker of Textual, as :func:`ask_about_code`.

    Raises:
        EngineError: the folder of ``path`` could not be looked through.
    """
    from engine import printable
    from rknntui.screens.dialogs.dialogs import ChoiceDialog

    answer = await workbench.bridge.call("pairs", {"path": path})
    pairs: list[dict[str, str]] = answer["pairs"]
    part = "weights" if all(pair["model"] == path for pair in pairs) else "model"
    by_name = {printable(pair[part].rpartition("/")[2], 300): pair for pair in pairs}
    own = printable(path.rpartition("/")[2], 40)
    what = "Weights of" if part == "weights" else "Network of"
    chosen = await workbench.push_screen_wait(ChoiceDialog(f"{what} {own}", list(by_name), ""))
    return None if chosen is None else by_name[chosen]
