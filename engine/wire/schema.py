"""JSON schemas of requests and answers out of their types, for who asks the worker or reads
``--json``.

Draft 2020-12. What the codec (:mod:`engine.wire.codec`) checks of a request is in its schema.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from engine.base.errors import UsageError
from engine.base.plain import JsonObject
from engine.base.text import did_you_mean
from engine.wire.codec import FILLED, OMIT, Above, Beside, Between, Key, Whole
from engine.wire.flags import Flag
from engine.wire.method import methods

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", types.NoneType: "null"}


def verb_schema(verb: str) -> dict[str, JsonObject]:
    """The schemas of a verb of the command line.

    Args:
        verb: its words, such as ``build`` or ``hybrid search``.

    Returns:
        ``parameters`` of its request to the worker, and ``result``, which ``--json`` prints. Some
        verbs print more beside it (``gates``, ``saved``).

    Raises:
        UsageError: no method of the worker has that verb.
    """
    known = {one.verb: one for one in methods().values() if one.verb}
    if verb not in known:
        near = did_you_mean(verb, known)
        raise UsageError(
            f"There is no schema of {verb!r}. {near}".strip(),
            cause="It is no verb, or asks several things of the worker.",
            remedy=f"Verbs with a schema: {', '.join(sorted(known))}.",
        )
    method = known[verb]
    return {
        "parameters": schema_of(method.params),
        "result": schema_of(method.result, answer=True),
    }


def schema_of(kind: type[Any], *, answer: bool = False) -> JsonObject:
    """The schema of a dataclass of the wire.

    Args:
        kind: the dataclass.
        answer: whether it is written by the program: every field is there then, but those that are
            left out where there is nothing, and further versions may add some. Of a request, what
            has a default may be left out, and nothing may be added.
    """
    types_: dict[str, dict[str, Any]] = {}
    whole = _schema(kind, types_, answer)
    return {"$schema": DRAFT, **whole, "$defs": types_}


def _schema(kind: Any, types_: dict[str, dict[str, Any]], answer: bool) -> dict[str, Any]:
    """The schema of a type; dataclasses are put down among ``types_``."""
    origin, parts = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        name = kind.__name__  # type: ignore[union-attr]  # of a class
        if name not in types_:
            types_[name] = {}  # one that holds itself ends here
            types_[name] |= _of_class(kind, types_, answer)
        return {"$ref": f"#/$defs/{name}"}
    if origin is Annotated:
        schema = _schema(parts[0], types_, answer)
        for mark in parts[1:]:
            schema |= _rule(mark, schema)
        return schema
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(part, types_, answer) for part in parts]}
    if origin is tuple and parts[1:] == (...,):
        return {"type": "array", "items": _schema(parts[0], types_, answer)}
    if origin is tuple:
        items = [_schema(part, types_, answer) for part in parts]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema(parts[1], types_, answer)}
    return {"type": _TYPES[kind]} if kind in _TYPES else {}


def _rule(mark: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """What a mark of ``Annotated`` adds to a schema."""
    if isinstance(mark, Flag):
        return {"description": mark.help}
    if isinstance(mark, Whole | Between | Above):
        low = "exclusiveMinimum" if isinstance(mark, Above) else "minimum"
        bounds = {low: mark.low, "maximum": mark.high}
        return {name: bound for name, bound in bounds.items() if math.isfinite(bound)}
    if mark == FILLED and isinstance(mark, str):
        return {"minLength": 1}
    return {}


def _of_class(kind: Any, types_: dict[str, dict[str, Any]], answer: bool) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    schema: dict[str, Any] = {"type": "object"}
    about = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
    if about:
        schema["description"] = about
    for field in dataclasses.fields(kind):
        marks = getattr(hints[field.name], "__metadata__", ())
        beside = next((mark for mark in marks if isinstance(mark, Beside)), None)
        if beside is not None:
            properties |= {name: {} for name in beside.names()}
            continue
        key = next((mark.name for mark in marks if isinstance(mark, Key)), field.name)
        properties[key] = _schema(hints[field.name], types_, answer)
        default = field.default is not MISSING or field.default_factory is not MISSING
        if (OMIT not in marks) if answer else not default:
            required.append(key)
        if not answer and isinstance(field.default, str | bool | int | float | None):
            properties[key]["default"] = field.default
    schema |= {"properties": properties, "required": required}
    return schema if answer else {**schema, "additionalProperties": False}
