"""The actions of the workbench itself; :class:`rknntui.app.Workbench` has their methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rknntui.keys.actions import REGISTRY, Action
from rknntui.workspaces import WORKSPACES, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ACTIONS", "go_actions"]


def go_actions(names: Iterable[str]) -> tuple[Action, ...]:
    """The actions that show these workspaces."""
    return tuple(
        Action(
            f"go.{name}",
            WORKSPACES[name].title,
            f"Show the workspace {WORKSPACES[name].title}.",
            keys_of(name),
            call=f"show('{name}')",
        )
        for name in names
    )


ACTIONS: tuple[Action, ...] = (
    Action(
        "app.help", "Help", "Keys and hints for what has the focus.", ("question_mark", "f1"), True
    ),
    Action(
        "app.command-palette",
        "Palette",
        "Find any action by typing a part of its name.",
        ("ctrl+p",),
        footer=True,
        palette=False,
        priority=True,
    ),
    Action("app.open", "Open…", "Open a model, a recipe or a .rknn file.", ("o",)),
    Action(
        "app.jump",
        "Jump",
        "Show a letter on every pane; press it to go there.",
        ("ctrl+o",),
        priority=True,
    ),
    Action("app.reload", "Reload", "Read what changed on disk again, and rebuild.", ("f5",)),
    Action(
        "app.undo",
        "Undo",
        "Take back the last change of the recipe.",
        ("u",),
    ),
    Action("app.redo", "Redo", "Make the change again that was taken back.", ("ctrl+r",)),
    Action("app.theme", "Theme…", "Choose the colours."),
    Action("app.quit", "Quit", "Leave; a running job is asked about.", ("ctrl+q", "q")),
    Action(
        "app.suspend",
        "Suspend",
        "Give the shell back; its fg returns here.",
        ("ctrl+z",),
        priority=True,
    ),
    Action("view.zoom", "Zoom", "Let the focused pane fill the screen, or give it back.", ("z",)),
    Action("job.cancel", "Stop job…", "Stop the running job; it asks first.", ("ctrl+x",)),
    *go_actions(WORKSPACES),
)
REGISTRY.add(ACTIONS)
