"""The vendor's equations of shapes: ``a,bc[b=2]->c,ab``: split axes, reorder them, join them.

Rules: README of ``examples/functions/onnx_edit`` in the public repository of RKNN-Toolkit2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from engine.base.errors import UsageError
from engine.base.text import sanitize, shape_text

_EQUATION = re.compile(
    r"(?P<source>[a-z1,]+)(\[(?P<sizes>[a-z0-9=,]*)\])?->(?P<target>[a-z1,]+)", re.ASCII
)
_SIZE = re.compile(r"([a-z])=([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True)
class Step:
    """One operator: a reshape to ``shape``, or a transpose by ``order`` that gives it."""

    shape: tuple[int, ...]
    order: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Transform:
    """What an equation does with a tensor of a known shape.

    Attributes:
        equation: as it was written.
        shape: of the tensor as it is.
        changed: its shape after the equation.
        forward: the steps from ``shape`` to ``changed``; those that change nothing are left out.
        backward: the steps from ``changed`` to ``shape``.
    """

    equation: str
    shape: tuple[int, ...]
    changed: tuple[int, ...]
    forward: tuple[Step, ...]
    backward: tuple[Step, ...]


def transform_of(name: str, equation: object, shape: Sequence[int]) -> Transform:
    """Read an equation for the tensor of a name and a shape.

    Raises:
        UsageError: the equation is none, or does not fit the shape.
    """
    text = "".join(str(equation).split()) if isinstance(equation, str) else ""
    match = _EQUATION.fullmatch(text)
    if match is None:
        raise _refused(
            name, equation, "It must read like 'a,b,c,d->1,ad,b,c': letters a to z, 1 and commas."
        )
    source, target = match["source"].split(","), match["target"].split(",")
    _check_axes(name, equation, source, target)
    if len(source) != len(shape):
        raise _refused(
            name,
            equation,
            f"Its left side has {len(source)} axes, and {sanitize(name, 80)} has {len(shape)}: "
            f"{shape_text(tuple(shape))}.",
        )
    own_sizes = _given_sizes(name, equation, match["sizes"] or "")
    sizes = _sizes(name, equation, source, shape, own_sizes)
    if unknown := sorted(set(own_sizes) - set(sizes)):
        raise _refused(name, equation, f"{', '.join(unknown)} is not on its left side.")
    before = [letter for axis in source for letter in axis if letter != "1"]
    after = [letter for axis in target for letter in axis if letter != "1"]
    changed = tuple(_size(axis, sizes) for axis in target)
    whole = tuple(shape)
    split = tuple(sizes[letter] for letter in before)
    turned = tuple(sizes[letter] for letter in after)
    forward = _steps(whole, split, [before.index(letter) for letter in after], turned, changed)
    back = _steps(changed, turned, [after.index(letter) for letter in before], split, whole)
    return Transform(text, whole, changed, forward, back)


def _check_axes(name: str, equation: object, source: list[str], target: list[str]) -> None:
    for axis in (*source, *target):
        if not axis or (len(axis) > 1 and "1" in axis):
            raise _refused(name, equation, "An axis is 1, or letters alone.")
    before = [letter for axis in source for letter in axis if letter != "1"]
    after = [letter for axis in target for letter in axis if letter != "1"]
    for side, letters in (("left", before), ("right", after)):
        if twice := sorted({one for one in letters if letters.count(one) > 1}):
            raise _refused(name, equation, f"{', '.join(twice)} is on its {side} side twice.")
    if lost := [letter for letter in before if letter not in after]:
        raise _refused(name, equation, f"{', '.join(lost)} is missing on its right side.")
    if new := [letter for letter in after if letter not in before]:
        raise _refused(name, equation, f"{', '.join(new)} is missing on its left side.")


def _given_sizes(name: str, equation: object, text: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        match = _SIZE.fullmatch(part)
        if match is None or int(match[2]) == 0:
            raise _refused(name, equation, f"[{part}] must read like [a=2].")
        sizes[match[1]] = int(match[2])
    return sizes


def _sizes(
    name: str, equation: object, source: list[str], shape: Sequence[int], own_sizes: dict[str, int]
) -> dict[str, int]:
    """Letter -> size; the one letter of an axis whose size is not said is what is left."""
    sizes: dict[str, int] = {}
    for axis, size in zip(source, shape, strict=True):
        letters = [] if axis == "1" else list(axis)
        open_ = [letter for letter in letters if letter not in own_sizes]
        said = prod(own_sizes[letter] for letter in letters if letter in own_sizes)
        if len(open_) > 1:
            raise _refused(
                name, equation, f"The sizes of {', '.join(open_[1:])} are open: say [{open_[1]}=2]."
            )
        if size % said or (not open_ and said != size):
            raise _refused(name, equation, f"{axis} is {size}, which is not made of {said}.")
        sizes.update({letter: own_sizes.get(letter, size // said) for letter in letters})
    return sizes


def _size(axis: str, sizes: Mapping[str, int]) -> int:
    return 1 if axis == "1" else prod(sizes[letter] for letter in axis)


def _steps(
    start: tuple[int, ...],
    split: tuple[int, ...],
    order: list[int],
    turned: tuple[int, ...],
    end: tuple[int, ...],
) -> tuple[Step, ...]:
    steps: list[Step] = []
    at = start
    if order != sorted(order):
        if at != split:
            steps.append(Step(split))
        steps.append(Step(turned, tuple(order)))
        at = turned
    if at != end:
        steps.append(Step(end))
    return tuple(steps)


def _refused(name: str, equation: object, why: str) -> UsageError:
    return UsageError(
        f"The equation {sanitize(repr(equation), 120)} of {sanitize(name, 80)} does not fit.",
        cause=why,
        remedy="Write the tensor's own axes on the left, the wanted ones on the right of '->'.",
    )
