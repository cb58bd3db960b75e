"""Starts the work that every view can start: a build, a compilation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rknntui.keys.actions import with_keys
from rknntui.links import GoToCompile, GoToOption
from rknntui.session.target import mismatches

if TYPE_CHECKING:
    from rknntui.shell import Shell

ANSWER_SECONDS = 15.0
"""Starting again within so long is a yes to what was asked."""


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
        session = self._app.session
        known = mismatches(session)
        if getattr(params, "device", session.board) != session.board:
            known = tuple(one for one in known if one.kind != "board")
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

    def disabled_reason(self, method: str) -> str:
        """Why ``build`` or ``compile`` cannot start now, keys as in texts; empty when it can."""
        session = self._app.session
        if not session.recipe.get("model") and session.container is None:
            return "no model is open ({app.open} opens one)."
        if method == "build" and session.container is not None:
            return "a container is already built; open its model to build."
        if method == "build" and session.building:
            return "a build is running ({job.cancel} stops it)."
        return ""

    async def build(self, *, refresh: bool = False) -> None:
        """Check the recipe, then build it; a problem is shown where it is mended.

        Args:
            refresh: whether every stage is done anew.

        Raises:
            EngineError: there is no worker to ask.
        """
        if self._checking:
            return
        self._checking = True
        try:
            await self._build(refresh)
        finally:
            self._checking = False

    async def _build(self, refresh: bool) -> None:
        from engine import sanitize
        from engine.wire.build import BUILD, BuildParams
        from engine.wire.requests import VALIDATE, OfRecipe

        app, session = self._app, self._app.session
        if typed := set(session.all_problems) - set(session.problems):
            app.post_message(GoToOption(min(typed)))
            return
        recipe = dict(session.recipe)
        answer = await app.bridge.call(VALIDATE, OfRecipe(recipe))
        problems = {problem.option: problem.message for problem in answer.problems}
        session.set_problems(problems, answer.findings, answer.yaml)
        if problems:
            name, message = next(iter(problems.items()))
            what = f"{name}: {sanitize(message)}"
            app.notify(what, title="Cannot be built yet", severity="warning", markup=False)
            app.post_message(GoToOption(name))
            return
        model = sanitize(str(recipe["model"]).rsplit("/", 1)[-1], 80)
        app.start_job(BUILD, BuildParams(recipe=recipe, refresh=refresh), f"build {model}")

    def compile(self) -> None:
        """Lead to where the target's chip is compiled for."""
        self._app.post_message(GoToCompile())
