"""Starts the work that every view can start, and says why an action cannot run."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from rknntui.keys.actions import REGISTRY, Action, key_text, with_keys
from rknntui.links import GoToOption
from rknntui.session.target import mismatches

if TYPE_CHECKING:
    from textual.binding import ActiveBinding

    from rknntui.shell import Shell

ANSWER_SECONDS = 15.0
"""Starting again within so long is a yes to what was asked."""

_SILENT_SECONDS = 0.5
"""A check that takes longer is told: it may wait for one of many samples."""


class Starting:
    """Starts work on the open model; the user stays where they are.

    Args:
        app: asks the worker, tells, and leads to what has to be mended first.
    """

    def __init__(self, app: Shell) -> None:
        self._app = app
        self._checking = False
        self._asked: tuple[str, float] = "", 0.0

    def asks(self, method: str, params: object) -> bool:
        """Ask, in one line, whether a job starts that the target does not fit; whether it waits
        for the answer, which is to start it again.
        """
        known = mismatches(self._app.session, getattr(params, "device", None))
        told = next((one for one in known if method in one.stops), None)
        if told is None:
            return False
        question, before, now = f"{method} {told.what}", self._asked, time.monotonic()
        self._asked = question, now
        if question == before[0] and now - before[1] < ANSWER_SECONDS:
            self._asked = "", 0.0
            return False
        text = with_keys(f"{told.short} ({{{told.action}}} mends it, again starts it)")
        self._app.notify(text, severity="warning", timeout=ANSWER_SECONDS, markup=False)
        return True

    def disabled_reason(self, action: str) -> str:
        """Why an action of the workbench itself, by id, cannot run now; empty when it can."""
        session, history = self._app.session, self._app.session.history
        if action == "app.undo" and not (history.undo or history.left is not None):
            return "there is nothing to undo."
        if action == "app.redo" and not history.redo:
            return "there is nothing to redo."
        if action == "job.cancel" and session.running is None:
            return "no job is running."
        if action not in ("app.build", "app.compile"):
            return ""
        if not session.recipe.get("model") and session.container is None:
            return with_keys("no model is open ({app.open} opens one).")
        if action == "app.build" and session.container is not None:
            return "a container is already built; open its model to build."
        if action == "app.build" and session.jobs.building:
            return with_keys("a build is running ({job.cancel} stops it).")
        return ""

    def not_now(self, action: Action) -> bool:
        """Whether an action of any workspace cannot run now; why is told."""
        if reason := self._app.disabled_reason(action):
            self._app.notify(f"Not now: {reason}", severity="warning", markup=False)
        return bool(reason)

    async def build(self, *, refresh: bool = False) -> None:
        """Check the recipe, then build it; a problem is shown where it is mended.

        Args:
            refresh: whether every stage is done anew.

        Raises:
            EngineError: there is no worker to ask.
        """
        from engine import sanitize
        from engine.wire.build import BUILD, BuildParams
        from engine.wire.requests import VALIDATE, OfRecipe

        app, session = self._app, self._app.session
        if self._checking:
            return
        if typed := set(session.all_problems) - set(session.problems):
            app.post_message(GoToOption(min(typed)))
            return
        recipe = dict(session.recipe)
        self._checking = True
        try:
            asked = asyncio.ensure_future(app.bridge.call(VALIDATE, OfRecipe(recipe)))
            if not (await asyncio.wait({asked}, timeout=_SILENT_SECONDS))[0]:
                app.notify("The recipe is being checked; then the build starts.")
            session.set_problems(await asked)
        finally:
            self._checking = False
        if session.problems:
            name, message = next(iter(session.problems.items()))
            what = f"{name}: {sanitize(message)}"
            app.notify(what, title="Cannot be built yet", severity="warning", markup=False)
            app.post_message(GoToOption(name))
            return
        model = sanitize(str(recipe["model"]).rsplit("/", 1)[-1], 80)
        app.start_job(BUILD, BuildParams(recipe=recipe, refresh=refresh), f"build {model}")


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
