"""The one registry of actions: it feeds bindings, footer, help, palette and the user's keymap.

An action is a row of ``actions.csv``; its method is ``action_<method>`` of the workbench or of the
workspace that its id names. No key is dispatched by hand anywhere.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rknntui.workspaces import WORKSPACES, keys_of

if TYPE_CHECKING:
    from textual.binding import Binding, BindingType

EVERYWHERE = ("app", "view", "job", "go")
"""Nouns of the workbench itself, whose actions work in every workspace."""


@dataclass(frozen=True)
class Action:
    """One thing that a user can do.

    Attributes:
        id: ``noun.verb``, unique; the name in the user's keymap (``model.search``).
        label: verb for footer and palette; ends in an ellipsis where a dialog follows.
        help: one sentence for help and palette.
        keys: default keys in Textual's names; may be empty (palette only).
        footer: whether the footer shows it, in the order of declaration.
        palette: whether the palette lists it; movements inside a list do not belong there.
        priority: whether the key works even while a text field has the focus.
        views: names of the views of the workspace in which its key works; all where empty.
        call: Textual's action string where it is not the verb alone: ``show('model')``, and
            ``step_sample(-1)`` of a pair that goes forth and back.
    """

    id: str
    label: str
    help: str
    keys: tuple[str, ...] = ()
    footer: bool = False
    palette: bool = True
    priority: bool = False
    views: tuple[str, ...] = ()
    call: str = ""

    @property
    def noun(self) -> str:
        """What it acts on: the part of the id before the dot; of a workspace's action its id."""
        return self.id.partition(".")[0]

    def works_in(self, view: str) -> bool:
        """Whether its key works in a view of its workspace; empty for one that has no views."""
        return not self.views or view in ("", *self.views)

    @property
    def method(self) -> str:
        """The method is ``action_`` and this."""
        if self.call:
            return self.call.partition("(")[0]
        return self.id.partition(".")[2].replace("-", "_").replace(".", "_")

    @property
    def title(self) -> str:
        """Its name in the palette: ``model: Search…``."""
        return f"{self.noun}: {self.label}"

    def binding(self) -> Binding:
        """The Textual binding of its default keys."""
        from textual.binding import Binding

        return Binding(
            ",".join(self.keys),
            self.call or self.method,
            self.label,
            show=self.footer,
            priority=self.priority,
            tooltip=self.help,
            id=self.id,
        )


def bindings(actions: Iterable[Action]) -> list[BindingType]:
    """The bindings of those actions that have a key."""
    return [action.binding() for action in actions if action.keys]


class Registry:
    """All actions, by id, and the keys that the user gave some of them.

    Attributes:
        user_keys: id -> keys, split by commas, as the user's keymap has them.
    """

    def __init__(self) -> None:
        self._actions: dict[str, Action] = {}
        self._methods: dict[tuple[str, str], Action] = {}
        self.user_keys: dict[str, str] = {}

    def add(self, actions: Iterable[Action]) -> None:
        """Register actions.

        Raises:
            ValueError: two different actions have the same id (a mistake of the program).
        """
        for action in actions:
            known = self._actions.setdefault(action.id, action)
            if known != action:
                raise ValueError(f"two actions are named {action.id}")
            self._methods.setdefault((action.noun, action.method), action)

    def __iter__(self) -> Iterator[Action]:
        return iter(self._actions.values())

    def __contains__(self, key: object) -> bool:
        return key in self._actions

    def __getitem__(self, key: str) -> Action:
        return self._actions[key]

    def keys_of(self, key: str) -> tuple[str, ...]:
        """The keys of an action, by id: the user's, else its own."""
        own = self.user_keys.get(key)
        return self[key].keys if own is None else tuple(own.split(","))

    def called(self, noun: str, method: str) -> Action | None:
        """The action of a noun by its method; None where there is none."""
        return self._methods.get((noun, method))

    def of(self, noun: str) -> list[Action]:
        """The actions of one noun in the order of declaration."""
        return [action for action in self if action.noun == noun]


def declared() -> Iterator[Action]:
    """The rows of the file; of those that several workspaces have, one for each of these."""
    rows: dict[str, list[dict[str, str]]] = {}
    with (Path(__file__).parent / "actions.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            rows.setdefault(row["id"].partition(".")[0], []).append(row)
    for noun in EVERYWHERE:
        yield from (_action(row, noun) for row in rows.get(noun, ()))
    for name, place in WORKSPACES.items():
        title, text = place.title, f"Open the workspace {place.title}."
        yield Action(f"go.{name}", title, text, keys_of(name), call=f"show('{name}')")
    for name, place in WORKSPACES.items():
        for noun in (name, *place.shares):
            yield from (_action(row, name) for row in rows.get(noun, ()))


@cache
def found_by() -> dict[str, tuple[str, str]]:
    """Workspace -> what it is for in one line, and what else it is looked for by."""
    with (Path(__file__).parent / "workspaces.csv").open(encoding="utf-8", newline="") as lines:
        return {row["name"]: (row["about"], row["words"]) for row in csv.DictReader(lines)}


def _action(row: dict[str, str], noun: str) -> Action:
    shown = row["shown"].split()
    return Action(
        f"{noun}.{row['id'].partition('.')[2]}",
        row["label"],
        row["help"],
        tuple(row["keys"].split()),
        "footer" in shown,
        "unlisted" not in shown,
        "priority" in shown,
        tuple(row["views"].split()),
        row["call"] or "",
    )


REGISTRY = Registry()
REGISTRY.add(declared())

_NAMES = {"escape": "Esc", "enter": "Enter", "space": "Space"}


def key_text(action: str) -> str:
    """The first key of an action, by id, as a text names it: ``b``, ``ctrl+x``, ``Esc``.

    Raises:
        KeyError: there is no such action, or it has no key (a mistake of the program).
    """
    keys = REGISTRY.keys_of(action)
    if not keys:
        raise KeyError(f"{action} has no key")
    return _shown(keys[0])


def _shown(key: str) -> str:
    from textual.keys import format_key

    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    if last[1:].isdecimal():
        last = last.upper()
    return "+".join([*modifiers, _NAMES.get(last) or format_key(last)])


def with_keys(text: str) -> str:
    """A text with the keys of the actions that it names: ``{app.open} opens one``."""
    return re.sub(r"\{([a-z]+\.[a-z-]+)\}", lambda match: key_text(match[1]), text)
