"""Typed access to the fields of a parsed message, which remembers what was asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from engine.base.errors import SourceModelError
from engine.base.text import sanitize
from engine.frontends.caffe.prototxt import Message, Scalar

__all__ = ["Fields"]

_INT32 = 1 << 31
_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]{1,16}|0[0-7]{0,22}|[1-9][0-9]{0,19})\Z")
_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,6})?[fF]?\Z")
_WORDS_OF_BOOL = {
    **dict.fromkeys(("true", "True", "t", "1"), True),
    **dict.fromkeys(("false", "False", "f", "0"), False),
}
_NUMBERS = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}


class Fields:
    """The fields of one message.

    As in Caffe, a field that is no list may stand only once.

    Args:
        message: what the file has; None for a message that it leaves out.
        where: file and layer, for errors.

    Attributes:
        source: the message; None where the file leaves it out.
        line: where it begins; 0 where the file leaves it out.
    """

    def __init__(self, message: Message | None, where: str) -> None:
        self._values: dict[str, list[Scalar | Message]] = {}
        self._asked: set[str] = set()
        self._children: list[tuple[str, Fields]] = []
        self._where = where
        self.source = message
        self.line = message.line if message else 0
        for name, value in message.fields if message else ():
            self._values.setdefault(name, []).append(value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def ignore(self, *names: str) -> None:
        """Take fields as known that make no difference to what is computed."""
        self._asked.update(names)

    def unread(self) -> list[str]:
        """Names of fields that nobody asked for, those of inner messages as ``outer.inner``."""
        own = [name for name in self._values if name not in self._asked]
        return own + [
            f"{name}.{field}" for name, child in self._children for field in child.unread()
        ]

    def integer(self, name: str, default: int) -> int:
        """A whole number of 32 bits.

        Raises:
            SourceModelError: no such number, or given more than once.
        """
        value = self._single(name)
        return default if value is None else self._integer(name, value)

    def integers(self, name: str) -> list[int]:
        """Whole numbers of 32 bits; 64 bits are read, and refused where they do not fit."""
        return [self._integer(name, value) for value in self._scalars(name)]

    def number(self, name: str, default: float) -> float:
        """A finite number."""
        value = self._single(name)
        return default if value is None else self._number(name, value)

    def numbers(self, name: str) -> list[float]:
        """Finite numbers."""
        return [self._number(name, value) for value in self._scalars(name)]

    def flag(self, name: str, default: bool) -> bool:
        """``true`` or ``false``."""
        value = self._single(name)
        if value is None:
            return default
        if value.quoted or value.text not in _WORDS_OF_BOOL:
            raise self.fault(f"{name} is {_shown(value)}, not true or false", value.line)
        return _WORDS_OF_BOOL[value.text]

    def text(self, name: str, default: str = "") -> str:
        """A text, or a word where the file has no quotation marks."""
        value = self._single(name)
        return default if value is None else value.text

    def texts(self, name: str) -> list[str]:
        """Texts."""
        return [value.text for value in self._scalars(name)]

    def choice(self, name: str, choices: Mapping[int, str], default: str) -> str:
        """One word of an enumeration, given by its name or its number."""
        value = self._single(name)
        if value is None:
            return default
        word = choices.get(int(value.text), "") if value.text.isdecimal() else value.text
        if word not in choices.values():
            known = ", ".join(choices.values())
            raise self.fault(f"{name} is {_shown(value)}, none of {known}", value.line)
        return word

    def message(self, name: str) -> Fields:
        """An inner message; without fields where the file leaves it out."""
        found = self.messages(name)
        if len(found) > 1:
            raise self.fault(f"{name} is given {len(found)} times", found[1].line)
        return found[0] if found else Fields(None, self._where)

    def messages(self, name: str) -> list[Fields]:
        """All inner messages of that name."""
        self._asked.add(name)
        found = []
        for value in self._values.get(name, ()):
            if not isinstance(value, Message):
                raise self.fault(f"{name} is {_shown(value)}, not a message in braces", value.line)
            found.append(Fields(value, self._where))
        self._children.extend((name, child) for child in found)
        return found

    def fault(self, what: str, line: int = 0) -> SourceModelError:
        """The error for what is wrong in this message."""
        return SourceModelError(
            f"{self._where}, line {line or self.line}: {what}.",
            cause="The prototxt was edited by hand, or is of a fork that means something else.",
            remedy="Correct it, or look the layer up in the fork that trained the model.",
        )

    def _scalars(self, name: str) -> list[Scalar]:
        self._asked.add(name)
        scalars = []
        for value in self._values.get(name, ()):
            if not isinstance(value, Scalar):
                raise self.fault(f"{name} is a message, not a value", value.line)
            scalars.append(value)
        return scalars

    def _single(self, name: str) -> Scalar | None:
        found = self._scalars(name)
        if len(found) > 1:
            lines = f"{found[0].line} and {found[1].line}"
            raise self.fault(f"{name} is given {len(found)} times (lines {lines})", found[1].line)
        return found[0] if found else None

    def _integer(self, name: str, value: Scalar) -> int:
        found = None if value.quoted else _INTEGER.match(value.text)
        if found is None:
            raise self.fault(f"{name} is {_shown(value)}, not a whole number", value.line)
        sign, digits = found.groups()
        octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
        number = int(digits, 8 if octal else 0) * (-1 if sign == "-" else 1)
        if not -_INT32 <= number < _INT32:
            raise self.fault(f"{name} is {_shown(value)}, which 32 bits do not hold", value.line)
        return number

    def _number(self, name: str, value: Scalar) -> float:
        number = math.nan
        if not value.quoted and _FLOAT.match(value.text):
            number = float(value.text.rstrip("fF"))
        elif not value.quoted:
            sign = -1.0 if value.text.startswith("-") else 1.0
            number = sign * _NUMBERS.get(value.text.lstrip("+-").lower(), math.nan)
        if not abs(number) <= 3.4e38:
            raise self.fault(f"{name} is {_shown(value)}, not a finite number", value.line)
        return number


def _shown(value: Scalar | Message) -> str:
    return repr(sanitize(value.text, 60)) if isinstance(value, Scalar) else "a message"
