"""Frozen dataclasses whose classes are made in no time.

The library's own compiles six methods for every class, which takes a millisecond; the wire has
eighty of them, and the interface is about to be used. Here one set of methods serves all classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from typing import Any, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")

_OWN = "__record_fields__"
"""The attribute of a class with its fields by name."""


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: Any = None, /, *, kw_only: bool = False) -> Any:
    """As ``dataclass(frozen=True, kw_only=...)``: what works with those works with this."""

    def made(plain: type[T]) -> type[T]:
        class_ = dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(plain)
        setattr(class_, _OWN, {declared.name: declared for declared in fields(cast(Any, class_))})
        for name, method in vars(_Methods).items():
            if callable(method):
                setattr(class_, name, method)
        return class_

    return made if cls is None else made(cls)


class _Methods:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        own: dict[str, Field[Any]] = getattr(self, _OWN)
        values = self.__dict__
        if not args and kwargs.keys() == own.keys():  # as the codec makes them, by the thousand
            values.update(kwargs)
            return
        places = [name for name, declared in own.items() if not declared.kw_only]
        positional = dict(zip(places, args, strict=False))
        if len(args) > len(places) or positional.keys() & kwargs.keys():
            raise TypeError(f"{type(self).__name__} was given too many values")
        for name, declared in own.items():
            if name in positional:
                values[name] = positional[name]
            elif name in kwargs:
                values[name] = kwargs.pop(name)
            elif declared.default is not MISSING:
                values[name] = declared.default
            elif declared.default_factory is not MISSING:
                values[name] = declared.default_factory()
            else:
                raise TypeError(f"{type(self).__name__} needs {name}")
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no {', '.join(kwargs)}")

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({values})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __setattr__(self, name: str, _value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")
