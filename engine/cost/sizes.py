"""Sizes of a model's inputs as a user writes them, and smaller ones (for estimates)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.base.errors import UsageError
from engine.base.text import did_you_mean, sanitize, shape_text

_LONGEST = 64
"""Characters of one size: more is no shape."""
_GRID = 32
"""Smaller sizes are its multiples: the strides of detectors end there."""


def read_sizes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Input -> the numbers that are given for it; the name is empty where none is.

    Raises:
        UsageError: a text is no size, or two are for one input.
    """
    sizes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        parts = size.lower().replace("x", ",").split(",")
        if len(size) > _LONGEST or not all(part.strip().isdecimal() for part in parts):
            raise UsageError(
                f"{sanitize(text, 80)!r} is no size of an input.",
                remedy="Write it as NAME=1,3,640,640, with the batch, or 640x640 for an image.",
            )
        if name in sizes or "" in sizes or (sizes and not name):
            raise UsageError(
                "Two sizes are given for one input.",
                cause=f"They are {sanitize(' and '.join(texts), 300)}.",
                remedy="Give each input one size, as NAME=1,3,640,640.",
            )
        sizes[name] = tuple(int(part) for part in parts)
    return sizes


def input_sizes(
    texts: Sequence[str], shapes: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """The shapes of all inputs where some are to have another size.

    Args:
        texts: ``NAME=1,3,640,640`` or, of an image, ``NAME=640x640``, one for each such input; the
            name may be left out where there is one input, or where it is the first one's image.
        shapes: input -> its shape as it is; empty where that is not known.

    Raises:
        UsageError: a text is no size, names no input, or has another rank.
    """
    sized = {name: tuple(shape) for name, shape in shapes.items()}
    for name, size in read_sizes(texts).items():
        first = next(iter(shapes), "")
        image = len(size) == 2 and len(shapes.get(first, ())) == 4
        one = first if not name and (image or len(shapes) == 1) else name
        if one not in shapes:
            raise UsageError(
                f"The model has no input {sanitize(name, 80)!r}."
                if name
                else "The model has several inputs: which one has this size?",
                cause=f"Its inputs are {sanitize(', '.join(shapes), 300)}.",
                remedy=did_you_mean(name, shapes) or "Write it as NAME=1,3,640,640.",
            )
        before = shapes[one]
        sized[one] = _with_sides(before, size) if len(size) == 2 and len(before) == 4 else size
        if before and len(sized[one]) != len(before):
            raise UsageError(
                f"{sanitize(one, 80)} is {shape_text(before)}: give as many numbers.",
                remedy="Write it as NAME=1,3,640,640, with the batch.",
            )
    return sized


def smaller_size(name: str, shape: Sequence[int], share: float) -> tuple[str, ...]:
    """The size of an image with which about that share of the time is left, as :func:`input_sizes`
    takes it; empty: it is no image, or none is that small.
    """
    if len(shape) != 4:
        return ()
    sides = [int(shape[at] * share**0.5) // _GRID * _GRID for at in _sides(shape)]
    if min(sides) < _GRID:
        return ()
    return (f"{name}={','.join(map(str, _with_sides(shape, sides)))}",)


def _with_sides(shape: Sequence[int], sides: Sequence[int]) -> tuple[int, ...]:
    """An image of another height and width; a batch that is not fixed is 1."""
    new = dict(zip(_sides(shape), sides, strict=True))
    return tuple(new.get(at, max(1, size)) for at, size in enumerate(shape))


def _sides(shape: Sequence[int]) -> tuple[int, int]:
    """The axes of an image's height and width."""
    last = shape[1] not in (1, 3, 4) and shape[3] in (1, 3, 4)
    return (1, 2) if last else (2, 3)
