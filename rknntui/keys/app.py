"""The actions of the workbench itself; :class:`rknntui.app.Workbench` has their methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rknntui.keys.actions import REGISTRY, Action
from rknntui.workspaces import WORKSPACES, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable


def go_actions(names: Iterable[str]) -> tuple[Action, ...]:
    """The actions that show these workspaces."""
    return tuple(
        Action(
            f"go.{name}",
            WORKSPACES[name].title,
            f"Open the workspace {WORKSPACES[name].title}.",
            keys_of(name),
            call=f"show('{name}')",
        )
        for name in names
    )


ACTIONS: tuple[Action, ...] = (
    Action(
        "app.help",
        "Help",
        "Show the keys and hints for the focused pane.",
        ("question_mark", "f1"),
        True,
    ),
    Action(
        "app.command-palette",
        "Palette",
        "Find an action, an option or a layer by name or description.",
        ("ctrl+p",),
        footer=True,
        palette=False,
        priority=True,
    ),
    Action("app.open", "Open…", "Open a model, a recipe or a .rknn file.", ("o",)),
    Action(
        "app.jump",
        "Jump",
        "Show a letter on every pane; press it to move there.",
        ("ctrl+o",),
        priority=True,
    ),
    Action("app.reload", "Reload", "Reload what changed on disk, and rebuild.", ("f5",)),
    Action(
        "app.undo",
        "Undo",
        "Undo the last recipe change.",
        ("u",),
    ),
    Action("app.redo", "Redo", "Redo the last undone recipe change.", ("ctrl+r",)),
    Action("app.theme", "Theme…", "Choose the colour theme."),
    Action(
        "app.quit", "Quit", "Quit; if a job is running, ask what to do with it.", ("ctrl+q", "q")
    ),
    Action(
        "app.suspend",
        "Suspend",
        "Suspend to the shell; `fg` returns here.",
        ("ctrl+z",),
        priority=True,
    ),
    Action("view.zoom", "Zoom", "Maximise the focused pane, or restore it.", ("z",)),
    Action("job.cancel", "Stop job…", "Stop the running job, after a confirmation.", ("ctrl+x",)),
    *go_actions(WORKSPACES),
)
REGISTRY.add(ACTIONS)
