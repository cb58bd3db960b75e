"""A recipe file as JSON Schema, for editors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from engine.base.plain import JsonObject, JsonValue
from engine.options import OPTIONS, SECTIONS, Kind, Option
from engine.recipe.model import VERSION

_BOOL, _INT, _NUMBER = {"type": "boolean"}, {"type": "integer"}, {"type": "number"}
_TEXT = {"type": "string"}


def _list(item: JsonObject) -> JsonObject:
    return {"type": "array", "items": item}


_FORMS: Mapping[Kind, JsonObject] = MappingProxyType(
    {
        "bool": _BOOL,
        "int": _INT,
        "float": _NUMBER,
        "text": _TEXT,
        "choice": _TEXT,
        "path": _TEXT,
        "names": _list(_TEXT),
        "shapes": _list(_list(_INT)),
        "shape_sets": _list(_list(_list(_INT))),
        "channels": _list(_list(_NUMBER)),
        "flags": {"anyOf": [_BOOL, _list(_BOOL)]},
        "paths": _list({"type": ["string", "null"]}),
        "code": _list(_TEXT),
        "mapping": {"type": "object", "additionalProperties": _TEXT},
        "ranges": {"type": "object", "additionalProperties": _list(_NUMBER)},
    }
)


def recipe_schema() -> JsonObject:
    """JSON Schema of a recipe file: its sections and options, with their help."""
    sections: dict[str, JsonValue] = {
        name: {
            "type": "object",
            "title": title,
            "properties": {o.name: _form(o) for o in OPTIONS if o.section == name},
            "additionalProperties": False,
        }
        for name, title in SECTIONS.items()
    }
    return {
        "title": "RKNN TUI recipe",
        "type": "object",
        "properties": {"version": {"const": VERSION}, **sections},
        "additionalProperties": False,
        "required": ["version"],
    }


def _form(option: Option) -> JsonObject:
    form = _FORMS[option.kind]
    if option.choices:
        choices: JsonObject = {"enum": list(option.choices)}
        form = {**form, **({"additionalProperties": choices} if option.repeated else choices)}
    if option.default is None:
        form = {"anyOf": [form, {"type": "null"}]}
    return {**form, "description": option.help, "default": option.default}
