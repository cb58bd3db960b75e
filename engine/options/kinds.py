"""The kinds of options, each with the type of its values: the one place where types are declared.

Every function here declares an option of its kind in a :class:`~engine.options.declare.Section`.
Values of a recipe never change: rows are tuples, mappings are frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypedDict, TypeVar, Unpack

from engine.base.plain import Value
from engine.options.declare import Role
from engine.options.section import Field

D = TypeVar("D")
Rows = tuple[tuple[float, ...], ...]
Shapes = tuple[tuple[int, ...], ...]


class More(TypedDict, total=False):
    """What an option may declare beside its kind and help: attributes of :class:`Option`."""

    generations: tuple[int, ...]
    stage: str
    minimum: float
    maximum: float
    aliases: Mapping[str, str]
    frameworks: tuple[str, ...]
    role: Role
    reason: str
    unsupported: Mapping[str, str]
    about: Mapping[str, str]
    rule: Callable[[Value], str]


def boolean(help_: str, default: bool, **more: Unpack[More]) -> Field[bool]:
    """Yes or no."""
    return Field("bool", help_, default, **more)


def integer(help_: str, default: D, **more: Unpack[More]) -> Field[int | D]:
    """A whole number."""
    return Field("int", help_, default, **more)


def number(help_: str, default: D, **more: Unpack[More]) -> Field[float | D]:
    """A number."""
    return Field("float", help_, default, **more)


def text(help_: str, **more: Unpack[More]) -> Field[str | None]:
    """Text."""
    return Field("text", help_, **more)


def choice(
    help_: str, choices: tuple[str, ...], default: D, **more: Unpack[More]
) -> Field[str | D]:
    """One of the choices."""
    return Field("choice", help_, default, choices, **more)


def path(help_: str, **more: Unpack[More]) -> Field[str | None]:
    """A file or folder."""
    return Field("path", help_, **more)


def names(help_: str, **more: Unpack[More]) -> Field[tuple[str, ...] | None]:
    """Tensor names."""
    return Field("names", help_, **more)


def shapes(help_: str, **more: Unpack[More]) -> Field[Shapes | None]:
    """The sizes of every input."""
    return Field("shapes", help_, **more)


def shape_sets(help_: str, **more: Unpack[More]) -> Field[tuple[Shapes, ...] | None]:
    """Several sets of them."""
    return Field("shape_sets", help_, **more)


def channels(help_: str, **more: Unpack[More]) -> Field[Rows | None]:
    """Numbers of every input."""
    return Field("channels", help_, **more)


def flags(help_: str, default: bool, **more: Unpack[More]) -> Field[bool | tuple[bool, ...]]:
    """One yes or no, or one per input."""
    return Field("flags", help_, default, **more)


def paths(help_: str, **more: Unpack[More]) -> Field[tuple[str | None, ...] | None]:
    """Files, None for an input that has none."""
    return Field("paths", help_, **more)


def code(help_: str, **more: Unpack[More]) -> Field[tuple[str, ...] | None]:
    """Python of the user's own, FILE.py:Name."""
    return Field("code", help_, **more)


def mapping(
    help_: str, choices: tuple[str, ...], **more: Unpack[More]
) -> Field[Mapping[str, str] | None]:
    """Tensor name -> one of the choices."""
    return Field("mapping", help_, None, choices, **more)


def ranges(help_: str, **more: Unpack[More]) -> Field[Mapping[str, tuple[float, float]] | None]:
    """Tensor name -> minimum and maximum."""
    return Field("ranges", help_, **more)
