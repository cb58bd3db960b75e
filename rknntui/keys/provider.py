"""The palette: actions of the registry, options and layers, found by title or by description."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from rich.markup import escape
from textual.command import DiscoveryHit, Hit, Hits, Provider

from rknntui.keys.actions import REGISTRY, Action
from rknntui.links import GoToNode, GoToOption, Link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rknntui.shell import Shell

_WHOLE = 10.0
"""Added to the score where a title has the words as they were typed: before scattered letters."""
_DESCRIBED = 1e-3
"""The score of what has the words in its description alone: after every title."""


class ActionProvider(Provider):
    """Feeds the palette.

    What cannot run now is listed with the reason; picking it says so again.
    """

    @property
    def workbench(self) -> Shell:
        """The application, typed."""
        return cast("Shell", self.app)

    def _actions(self) -> Iterator[tuple[Action, str]]:
        current = self.workbench.current
        listed = [action for action in REGISTRY if action.palette]
        for action in sorted(listed, key=lambda a: a.noun != current):
            reason = self.workbench.disabled_reason(action)
            keys = ", ".join(self.workbench.keys_of(action))
            text = f"{action.help} Key: {keys}" if keys else action.help
            yield action, escape(f"Not now: {reason}" if reason else text)

    async def discover(self) -> Hits:
        for action, text in self._actions():
            yield DiscoveryHit(action.title, partial(self._run, action), action.title, text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        words = query.lower().split()
        for action, text in self._actions():
            title = action.title
            score = matcher.match(title)
            if words and all(word in title.lower() for word in words):
                score += _WHOLE
            elif score <= 0 and _has(words, f"{title} {action.help}"):
                score = _DESCRIBED
            if score > 0:
                yield Hit(score, matcher.highlight(title), partial(self._run, action), title, text)
        for title, about, link in self._places():
            named = _has(words, title)
            if named or _has(words, f"{title} {about}"):
                score = _WHOLE / 2 if named else _DESCRIBED / 2
                yield Hit(score, escape(title), partial(self._go, link), title, escape(about))

    def _places(self) -> Iterator[tuple[str, str, Link]]:
        """(title, description, link) of what the open model has: options, layers of its build."""
        from engine import OPTIONS, sanitize

        session = self.workbench.session
        if not session.recipe:
            return
        for option in OPTIONS:
            values = f" Values: {', '.join(option.choices)}." if option.choices else ""
            yield f"option: {option.name}", f"{option.help}{values}", GoToOption(option.name)
        for layer in session.summary.layers if session.summary is not None else ():
            yield f"layer: {sanitize(layer.layer, 200)}", layer.op, GoToNode(layer.layer)

    async def _go(self, link: Link) -> None:
        self.app.post_message(link)

    async def _run(self, action: Action) -> None:
        await self.workbench.run_registered(action)


def _has(words: list[str], text: str) -> bool:
    """Whether a text has all of the words, in any order."""
    text = text.lower()
    return bool(words) and all(word in text for word in words)
