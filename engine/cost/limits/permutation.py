"""The conditions of a transposition on the NPU: products of the input's dimensions, with limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import permutations

__all__ = ["broken_condition", "constants", "perms_between"]

_TERM = re.compile(r"^(?P<left>[a-z0-9*]+?)(?:%(?P<by>\d+)=0|<(?P<right>[a-z0-9*]+)|=(?P<is>\d+))$")


def perms_between(
    before: tuple[int, ...], after: tuple[int, ...]
) -> tuple[tuple[int, int, int, int], ...]:
    """Permutations of four dimensions that give the one shape from the other."""
    if len(before) != 4 or len(after) != 4:
        return ()
    return tuple(
        (a, b, c, d)
        for a, b, c, d in permutations(range(4))
        if (before[a], before[b], before[c], before[d]) == after
    )


def constants(note: str) -> dict[str, int]:
    """``p`` and ``q`` of a chip, from the row that states them."""
    return {name: int(value) for name, value in re.findall(r"\b([pq])=(\d+)", note)}


def broken_condition(text: str, shape: tuple[int, ...], of_chip: Mapping[str, int]) -> str | None:
    """The first condition that a shape does not fulfil, with its numbers; None where all hold.

    Args:
        text: ``c1*h1*w1<p, w1%16=0``, as in the table.
        shape: of the input: n, c, h, w.
        of_chip: what ``p`` and ``q`` are.
    """
    names = dict(zip(("n1", "c1", "h1", "w1"), shape, strict=True)) | dict(of_chip)
    for term in _terms(text):
        alternatives = [_broken(each, names) for each in term]
        if all(each is not None for each in alternatives):
            return next(each for each in alternatives if each is not None)
    return None


@cache
def _terms(text: str) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Conditions that must all hold: each a choice of groups, whose terms must hold together."""
    plain = re.sub(r"\([a-z][^()=<>%]*\blacks\b[^()]*\)", "", text)  # a remark about the source
    either = re.search(r"\(([^()]*)\) or \(([^()]*)\)", plain)
    made: list[tuple[tuple[str, ...], ...]] = []
    if either:
        made.append(tuple(tuple(_split(each)) for each in either.groups()))
        plain = plain.replace(either.group(0), "")
    made += [((each,),) for each in _split(plain)]
    return tuple(made)


def _split(text: str) -> list[str]:
    return [each for part in text.split(",") if (each := part.strip().replace(" ", ""))]


def _broken(group: tuple[str, ...], names: Mapping[str, int]) -> str | None:
    for term in group:
        if term == "h1=w1=1" or term == "n1=h1=1":
            first, second = term.split("=")[:2]
            if names[first] != 1 or names[second] != 1:
                return f"{first} and {second} must be 1, and are {names[first]} and {names[second]}"
            continue
        found = _TERM.match("n1" + term[1:] if re.match(r"^n<", term) else term)
        if found is None:
            continue
        left = _product(found["left"], names)
        if found["by"] and left % int(found["by"]):
            return f"{_words(found['left'])} = {left} is no multiple of {found['by']}"
        if found["right"] and left >= (most := _product(found["right"], names)):
            return f"{_words(found['left'])} = {left} is not below {most}"
    return None


def _product(text: str, names: Mapping[str, int]) -> int:
    value = 1
    for each in text.split("*"):
        value *= names[each] if each in names else int(each)
    return value


def _words(text: str) -> str:
    spelled = {"n1": "N", "c1": "C", "h1": "H", "w1": "W"}
    return " x ".join(spelled.get(each, each) for each in text.split("*"))
