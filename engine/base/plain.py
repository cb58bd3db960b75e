"""Plain data as types: what JSON holds, and the values of options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    JsonValue = None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
else:
    # the wire's codec takes types apart as it runs, and one that names itself has no end
    JsonValue = Any

JsonObject = Mapping[str, JsonValue]
"""A JSON object; who reads it checks every key."""

Value = Any
"""What a recipe holds of an option: its declaration says what that is, and checks it."""
Values = Mapping[str, Value]
"""Option name -> value."""
