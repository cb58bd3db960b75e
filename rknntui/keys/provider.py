"""The palette: every action of the registry, by noun, with its help."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from rich.markup import escape
from textual.command import DiscoveryHit, Hit, Hits, Provider

from rknntui.keys.actions import REGISTRY, Action
from rknntui.workspaces import load_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rknntui.app import Workbench

__all__ = ["ActionProvider"]


class ActionProvider(Provider):
    """Feeds the palette.

    What cannot run now is listed with the reason; picking it says so again.
    """

    @property
    def workbench(self) -> Workbench:
        """The application, typed."""
        return cast("Workbench", self.app)

    async def startup(self) -> None:
        """Import the workspaces that were not visited yet, so that their actions are registered."""
        load_all()

    def _actions(self) -> Iterator[tuple[Action, str]]:
        current = self.workbench.current
        listed = [action for action in REGISTRY if action.palette]
        for action in sorted(listed, key=lambda a: a.noun != current):
            reason = self.workbench.why_not(action)
            keys = ", ".join(self.workbench.keys_of(action))
            text = f"{action.help} Key: {keys}" if keys else action.help
            yield action, escape(f"Not now: {reason}" if reason else text)

    async def discover(self) -> Hits:
        for action, text in self._actions():
            yield DiscoveryHit(action.title, partial(self._run, action), action.title, text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action, text in self._actions():
            score = matcher.match(action.title)
            if score > 0:
                title = matcher.highlight(action.title)
                yield Hit(score, title, partial(self._run, action), action.title, text)

    async def _run(self, action: Action) -> None:
        await self.workbench.run_registered(action)
