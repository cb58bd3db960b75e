"""Keys in texts: each is that of an action of the registry, as the user has it."""

from __future__ import annotations

import re

from rknntui.keys.actions import REGISTRY

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
