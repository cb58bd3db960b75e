"""Why an action cannot run now, and what a key that does nothing answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rknntui.keys.actions import REGISTRY, Action, key_text, with_keys

if TYPE_CHECKING:
    from textual.binding import ActiveBinding

    from rknntui.session.state import Session
    from rknntui.shell import Shell
    from rknntui.starting import Starting

OWN = {action.method: action.id for action in REGISTRY if action.noun in ("app", "job")}
"""Method -> id of the workbench's own actions."""


def why_not(action: str, session: Session, starting: Starting) -> str:
    """Why an action of the workbench itself cannot run now; empty when it can."""
    if action == "app.undo" and not (session.can_undo or session.left is not None):
        return "there is nothing to undo."
    if action == "app.redo" and not session.can_redo:
        return "there is nothing to redo."
    if action == "job.cancel" and session.running is None:
        return "no job is running."
    if action in ("app.build", "app.compile"):
        return with_keys(starting.disabled_reason(action.partition(".")[2]))
    return ""


def unused_key(app: Shell, key: str, active: ActiveBinding | None) -> str:
    """What a key that nothing takes answers: why its action cannot run, or where it does.

    Args:
        app: knows why an action cannot run.
        key: that was pressed.
        active: what it is bound to where the focus is; None for nothing.
    """
    if active is not None and (active.enabled or active.binding.id not in REGISTRY):
        return ""
    ids = [str(active.binding.id)] if active is not None else []
    ids += [own.id for own in REGISTRY.of(app.current) if key in REGISTRY.keys_of(own.id)]
    for action in (REGISTRY[name] for name in ids):
        if why := app.disabled_reason(action) or ("" if active is not None else _view(action)):
            return f"{action.label.removesuffix('…')}: {why}"
    return ""


def _view(action: Action) -> str:
    """Where a key works that is not of the view that is shown."""
    switch = f"{action.noun}.next-view"
    turn = f" ({key_text(switch)} switches)" if switch in REGISTRY else ""
    return f"it is of the view {' or '.join(action.views[:2])}{turn}." if action.views else ""
