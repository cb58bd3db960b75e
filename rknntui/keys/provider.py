"""The palette: actions, files, boards, chips, options and layers, by title or by description."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape
from textual.command import DiscoveryHit, Hit, Hits, Provider

from rknntui.keys.actions import REGISTRY, Action, found_by
from rknntui.links import GoToLayer, GoToOption
from rknntui.shell import InShell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_NAMED, _DESCRIBED = 10.0, 1e-3
"""Scores of what has the words in its title and in its description; their letters, scattered over
the title, score below 1: named things come first, of actions and places alike.
"""


class ActionProvider(InShell, Provider):
    """Feeds the palette.

    What cannot run now is listed with the reason; picking it says so again.
    """

    PLACES = 0.5
    """How much places count beside actions."""

    def _actions(self) -> Iterator[tuple[Action, str]]:
        current = self.workbench.current
        listed = [action for action in REGISTRY if action.palette]
        for action in sorted(listed, key=lambda a: a.noun != current):
            reason = self.workbench.disabled_reason(action)
            keys = ", ".join(self.workbench.keys_of(action))
            text = f"{action.help} Key: {keys}" if keys else action.help
            yield action, escape(f"Not now: {reason}" if reason else text)

    def _words(self, action: Action) -> str:
        """What an action is found by beside its title."""
        about = found_by().get(action.id.removeprefix("go."), ())
        return " ".join((action.help, *about))

    async def discover(self) -> Hits:
        for action, text in self._actions():
            yield DiscoveryHit(action.title, partial(self._run, action), action.title, text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        words = query.lower().split()
        for action, text in self._actions():
            title = action.title
            scattered = matcher.match(title)
            score = scattered / (1 + scattered)
            if _has(words, title):
                score += _NAMED
            elif score <= 0 and _has(words, f"{title} {self._words(action)}"):
                score = _DESCRIBED
            if score > 0:
                yield Hit(score, matcher.highlight(title), partial(self._run, action), title, text)
        for title, about, go in self._places():
            named = _has(words, title)
            if named or _has(words, f"{title} {about}"):
                score = (_NAMED if named else _DESCRIBED) * self.PLACES
                yield Hit(score, escape(title), go, title, escape(about))

    def _places(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        """(title, description, what goes there) of all that is no action."""
        from engine import OPTIONS, option, sanitize

        app, session = self.workbench, self.workbench.session
        for path in session.recent:
            name = sanitize(path.rsplit("/", 1)[-1], 100)
            yield f"file: {name}", sanitize(path, 300), partial(app.open_path, path)
        for device in session.boards.devices:
            name = sanitize(device.id, 100)
            yield (
                f"board: {name}",
                sanitize(device.what, 200),
                partial(app.take_target, "board", device.id),
            )
        if not session.recipe:
            return
        for chip, about in option("target_platform").about.items():
            yield (
                f"chip: {chip}",
                f"Take it as the target. {about}",
                partial(app.take_target, "chip", chip),
            )
        for one in OPTIONS:
            values = f" Values: {', '.join(one.choices)}." if one.choices else ""
            link = partial(app.post_message, GoToOption(one.name))
            yield f"option: {one.name}", f"{one.help}{values}", link
        for layer in session.summary.layers if session.summary is not None else ():
            link = partial(app.post_message, GoToLayer(layer.layer))
            yield f"layer: {sanitize(layer.layer, 200)}", layer.op, link

    async def _run(self, action: Action) -> None:
        await self.workbench.run_registered(action)


class PlaceProvider(ActionProvider):
    """The same with places before actions: what is jumped to."""

    PLACES = 2.0

    async def discover(self) -> Hits:
        for title, about, go in self._places():
            if title.startswith(("file:", "board:", "layer:")):
                yield DiscoveryHit(title, go, title, escape(about))


def _has(words: list[str], text: str) -> bool:
    """Whether a text has all of the words, in any order."""
    text = text.lower()
    return bool(words) and all(word in text for word in words)
