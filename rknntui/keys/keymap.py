"""The user's own keys: ``keymap.toml`` beside their settings, by id of the action.

[keys]
"model.search" = "f3"
"app.quit" = "ctrl+q, q"
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from rknntui.keys.actions import EVERYWHERE, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import App

    from rknntui.keys.actions import Action, Registry

LIMIT = 64 << 10

# What a terminal without the kitty protocol sends for these is the same byte.
INDISTINCT = {
    "ctrl+m": "enter",
    "ctrl+j": "enter",
    "ctrl+i": "tab",
    "ctrl+h": "backspace",
    "ctrl+left_square_bracket": "escape",
    "ctrl+[": "escape",
    "ctrl+shift+m": "enter",
    "ctrl+shift+i": "tab",
}


def indistinct(key: str) -> str:
    """The key that a plain terminal cannot tell from ``key``; empty when it can."""
    key = key.strip().lower()
    if key in INDISTINCT:
        return INDISTINCT[key]
    modifiers = key.split("+")
    if len(modifiers) == 3 and {"ctrl", "shift"} == set(modifiers[:2]) and len(modifiers[2]) == 1:
        return f"ctrl+{modifiers[2]}"
    return ""


def use_own_keys(app: App[None]) -> bool:
    """Let the user's keys count, and tell what is wrong with them; whether they have a file.

    A wrong entry is left out, the others count.
    """
    from engine import config_folder, open_regular, sanitize

    path, own, problems = config_folder() / "keymap.toml", dict[str, str](), list[str]()
    data: dict[str, Any] = {"keys": {}}
    try:
        with open_regular(path) as stream:
            data = tomllib.loads(stream.read(LIMIT).decode())
    except FileNotFoundError:
        return False
    except (OSError, ValueError, RecursionError) as error:
        problems.append(sanitize(f"{path}: {error}"))
    entries = data.get("keys")
    if not isinstance(entries, dict) or set(data) - {"keys"}:
        problems.append(f"{path}: it must have one table [keys].")
        entries = entries if isinstance(entries, dict) else {}
    for name, keys in entries.items():
        if problem := _check(name, keys, REGISTRY):
            problems.append(problem)
        else:
            own[name] = ",".join(key.strip() for key in keys.split(","))
    REGISTRY.user_keys = own
    app.set_keymap(own)
    for problem in [*problems, *conflicts(REGISTRY, own)][:4]:
        app.notify(problem, title="Your keys", severity="warning", timeout=10, markup=False)
    return True


def _check(name: str, keys: object, registry: Registry) -> str:
    from engine import did_you_mean, sanitize

    if name not in registry:
        shown = sanitize(name, 80)
        return f"There is no action {shown}. {did_you_mean(name, [a.id for a in registry])}".strip()
    if not isinstance(keys, str) or not all(key.strip() for key in keys.split(",")):
        return f'{name}: keys are a text, as in "f3, ctrl+s".'
    if sanitize(keys) != keys:
        return f"{name}: keys have letters that no keyboard sends, or are too many."
    for key in keys.split(","):
        same = indistinct(key)
        if same:
            return f"{name}: terminals send {same} for {key.strip()}; choose another key."
    return ""


def conflicts(registry: Iterable[Action], keys: dict[str, str]) -> list[str]:
    """Actions that would answer to the same key at the same place."""
    from textual.keys import _character_to_key

    places: dict[tuple[str, str], list[Action]] = {}
    conflicts_found: list[str] = []
    for action in registry:
        own = keys[action.id].split(",") if action.id in keys else action.keys
        place = "" if action.noun in EVERYWHERE else action.noun
        for typed in own:
            key = _character_to_key(typed) if len(typed) == 1 else typed
            others = places.setdefault((place, key), [])
            conflicts_found += [
                f"{key} means both {other.id} and {action.id}."
                for other in others  # those of different views do not meet
                if not (action.views and other.views) or set(action.views) & set(other.views)
            ]
            others.append(action)
    return conflicts_found
