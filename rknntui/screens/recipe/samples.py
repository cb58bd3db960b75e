"""How a dataset is chosen or made, and what Recipe says of it in a line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from engine import sanitize
from engine.wire.dataset import DATASET_MAKE, Made, MakeParams
from rknntui.keys.actions import key_text
from rknntui.screens.dialogs.dialogs import ask_user
from rknntui.screens.dialogs.picker import PathPicker, ask_overwrite, start_folder
from rknntui.screens.dialogs.request import Form
from rknntui.widgets.one_line import Fact

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.wire.dataset import DatasetFacts
    from rknntui.screens.base.workspace import Workspace


MAKE_FORM = Form(
    "Write a dataset.txt", (MakeParams,), {"force": "asked for where the file is there"}
)


def checked_folder(params: MakeParams) -> MakeParams:
    """The same; ValueError where there is no folder."""
    if not Path(params.folder).is_dir():
        raise ValueError("This is not a folder.")
    return params


def pick_dataset(workspace: Workspace) -> None:
    """Choose a list or a folder; of a folder a list can be written."""
    recipe = workspace.session.recipe
    start = start_folder(recipe.get("dataset") or recipe.get("model"))

    def picked(path: str) -> None:
        workspace.session.set_value("dataset", path)
        if Path(path).is_dir():
            makes = f"{key_text('recipe.make')} writes a list of them, to edit and share."
            text = f"Every build selects the same images of that folder. {makes}"
            workspace.notify(text, markup=False)

    title = "Choose a dataset.txt or a folder"
    ask_user(workspace.app, PathPicker(title, start, folders=True, suffixes=(".txt",)), picked)


def make_dataset(workspace: Workspace, written: Callable[[], None]) -> None:
    """Ask for the folder, the list and how many are chosen; then write it.

    Args:
        workspace: shows the dialogs, asks the worker, has the session.
        written: called when it was written, which may be the list that is shown.
    """
    recipe = workspace.session.recipe

    def made(dataset: Made) -> None:
        skipped = dataset.skipped
        left = f"; skipped {len(skipped)}, the first: {skipped[0].why}" if skipped else ""
        text = f"{dataset.path}: {dataset.samples} of {dataset.found} images{left}."
        workspace.notify(text, title="Dataset written", markup=False)
        workspace.session.set_value("dataset", dataset.path)
        written()

    def write(params: MakeParams) -> None:
        def start(force: bool) -> None:
            workspace.ask(DATASET_MAKE, replace(params, force=force), made)

        ask_overwrite(workspace.app, [params.out], start)

    now = MakeParams(
        start_folder(recipe.get("dataset")).removesuffix("/"),
        str(Path.cwd() / "dataset.txt"),
        cast("int", recipe.get("dataset_count", MakeParams.count)),
        cast("int", recipe.get("dataset_seed", MakeParams.seed)),
    )
    MAKE_FORM.ask(workspace.app, now, then=write, check=checked_folder)


def facts_text(path: str, facts: DatasetFacts | None) -> tuple[Fact, ...]:
    """One line: how much, which sizes, whether a build would stop, where."""
    if not path:
        return (Fact("no dataset"),)
    where = Fact(sanitize(path, 300), (sanitize(path.rpartition("/")[2], 80),), 2)
    if facts is None:
        return (where,)
    files = [f"{facts.files} files"] if facts.files != facts.samples else []
    sizes = [f"{size} ×{count}" for size, count in facts.sizes[:3]]
    more = [f"{len(facts.sizes) - 3} more sizes"] if len(facts.sizes) > 3 else []
    bad = len(facts.problems)
    return (
        Fact(f"{facts.samples} samples"),
        *(Fact(text, rank=1) for text in (*files, *sizes, *more)),
        Fact(f"✗ {bad} problems" if bad else "✓ no problems"),
        where,
    )
