"""Protocol buffers' text format, without a schema: every field stays, also those of forks.

The grammar is that of protobuf's own document ("Text Format Language Specification"): fields
``name: value``, ``name { ... }`` or ``name < ... >``, lists in brackets, strings that follow each
other are one, separators ``,`` and ``;``, comments from ``#`` to the end of the line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.base.errors import SourceModelError
from engine.base.text import sanitize

MAX_BYTES = 32 << 20
_MAX_DEPTH = 40
_MAX_FIELDS = 200_000


class Scalar(NamedTuple):
    """A number, word or text as the file has it, and the line where it stands."""

    text: str
    quoted: bool
    line: int


@dataclass(slots=True)
class Message:
    """Fields in the file's order: (name, value); ``line`` is where the message begins."""

    line: int
    fields: list[tuple[str, Scalar | Message]] = field(default_factory=list)

    def all(self, name: str) -> list[Scalar | Message]:
        """Every value of the field ``name``, in order."""
        return [value for known, value in self.fields if known == name]


# Blanks and comments belong to the token behind them; their quantifiers never give back, so that
# no text takes more than linear time.
_TOKEN = re.compile(
    r"""
    (?:[\s\ufeff]++|\#[^\n]*+)*+
    (?:
      (?P<word>[-+]?[A-Za-z0-9_.]++(?:(?<=[0-9.][eE])[-+][0-9]++[fF]?)?)
    | (?P<text>"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')
    | (?P<mark>[{}<>\[\]:,;/\-])
    | (?P<end>\Z)
    )
    """,
    re.VERBOSE,
)
_GAP = re.compile(r"(?:[\s\ufeff]++|\#[^\n]*+)*+")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_CLOSING = {"{": "}", "<": ">"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def parse(text: str, source: str) -> Message:
    """Parse a whole file.

    Args:
        text: its content, at most ``MAX_BYTES`` characters.
        source: the file's name, for errors.

    Raises:
        SourceModelError: not this format, nested more than 40 deep or above 200,000 fields; names
            the line.
    """
    return _Parser(text, source).whole()


class _Parser:
    """One token of look-ahead over the text; depth and number of fields are bounded."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._tokens = _tokens(text, source)
        self._next = next(self._tokens)
        self._fields = 0

    def whole(self) -> Message:
        """The message that the file is."""
        message = Message(1)
        while self._next.kind != "end":
            self._field(message, 0)
        return message

    def _fault(self, what: str, line: int) -> SourceModelError:
        return _fault(self._source, what, line)

    def _take(self) -> _Token:
        token = self._next
        if token.kind != "end":
            self._next = next(self._tokens)
        return token

    def _accept(self, mark: str) -> bool:
        if self._next.kind == "mark" and self._next.text == mark:
            self._take()
            return True
        return False

    def _field(self, message: Message, depth: int) -> None:
        name, line = self._name()
        self._count(line)
        colon = self._accept(":")
        if self._accept("["):
            while not self._accept("]"):
                self._count(self._next.line)
                message.fields.append((name, self._value(depth)))
                if not self._accept(",") and self._next.text != "]":
                    raise self._unexpected("',' or ']'")
        elif colon or self._opens():
            message.fields.append((name, self._value(depth)))
        else:
            raise self._unexpected(f"':' or '{{' after {sanitize(name, 60)!r}")
        while self._accept(",") or self._accept(";"):
            pass

    def _count(self, line: int) -> None:
        self._fields += 1
        if self._fields > _MAX_FIELDS:
            raise self._fault(f"there are more than {_MAX_FIELDS} fields", line)

    def _opens(self) -> bool:
        return self._next.kind == "mark" and self._next.text in _CLOSING

    def _name(self) -> tuple[str, int]:
        token = self._take()
        if token.kind == "mark" and token.text == "[":
            # an extension or a type's address in brackets
            parts = []
            while not self._accept("]"):
                part = self._take()
                if part.kind == "end" or part.text in _CLOSING:
                    raise self._fault("a name in brackets has no end", token.line)
                parts.append(part.text)
            return f"[{''.join(parts)}]", token.line
        if token.kind != "word" or not _NAME.match(token.text):
            raise self._fault(
                f"{_shown_token(token)} stands where a field's name belongs", token.line
            )
        return token.text, token.line

    def _value(self, depth: int) -> Scalar | Message:
        token = self._take()
        if token.kind == "mark" and token.text in _CLOSING:
            return self._message(token, depth + 1)
        if token.kind == "text":
            parts = [_unquoted(token.text)]
            while self._next.kind == "text":
                parts.append(_unquoted(self._take().text))
            return Scalar("".join(parts), True, token.line)
        if token.kind == "mark" and token.text == "-" and self._next.kind == "word":
            return Scalar("-" + self._take().text, False, token.line)
        if token.kind != "word":
            raise self._fault(f"{_shown_token(token)} stands where a value belongs", token.line)
        return Scalar(token.text, False, token.line)

    def _message(self, opening: _Token, depth: int) -> Message:
        if depth > _MAX_DEPTH:
            raise self._fault(f"messages are nested more than {_MAX_DEPTH} deep", opening.line)
        message = Message(opening.line)
        closing = _CLOSING[opening.text]
        while not self._accept(closing):
            if self._next.kind == "end":
                raise self._fault(f"'{opening.text}' is never closed", opening.line)
            self._field(message, depth)
        return message

    def _unexpected(self, expected: str) -> SourceModelError:
        return self._fault(
            f"{_shown_token(self._next)} stands where {expected} belongs", self._next.line
        )


def _tokens(text: str, source: str) -> Iterator[_Token]:
    position, line, kind = 0, 1, ""
    while kind != "end":
        match = _TOKEN.match(text, position)
        if match is None:
            gap = _GAP.match(text, position)
            start = gap.end() if gap else position
            line += text.count("\n", position, start)
            what = f"{sanitize(text[start : start + 20], 20)!r} is not a part of this format"
            raise _fault(source, what, line)
        kind = match.lastgroup or ""
        line += text.count("\n", position, match.start(kind))
        yield _Token(kind, match.group(kind), line)
        position = match.end()


def _unquoted(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text[1:-1]) if "\\" in text else text[1:-1]


def _unescaped(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0].isdigit() and code[0] not in "89":
        return chr(int(code, 8) & 0xFF)
    return _ESCAPED.get(code, code)


def _shown_token(token: _Token) -> str:
    return "the end of the file" if token.kind == "end" else repr(sanitize(token.text, 40))


def _fault(source: str, what: str, line: int) -> SourceModelError:
    return SourceModelError(
        f"{sanitize(source)}, line {line}: {what}.",
        cause="The prototxt was cut short, edited by hand, or is not a text of protocol buffers.",
        remedy="Correct that line.",
    )


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
        messages = self.messages(name)
        if len(messages) > 1:
            raise self.fault(f"{name} is given {len(messages)} times", messages[1].line)
        return messages[0] if messages else Fields(None, self._where)

    def messages(self, name: str) -> list[Fields]:
        """All inner messages of that name."""
        self._asked.add(name)
        messages = []
        for value in self._values.get(name, ()):
            if not isinstance(value, Message):
                raise self.fault(f"{name} is {_shown(value)}, not a message in braces", value.line)
            messages.append(Fields(value, self._where))
        self._children.extend((name, child) for child in messages)
        return messages

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
        scalars = self._scalars(name)
        if len(scalars) > 1:
            lines = f"{scalars[0].line} and {scalars[1].line}"
            raise self.fault(
                f"{name} is given {len(scalars)} times (lines {lines})", scalars[1].line
            )
        return scalars[0] if scalars else None

    def _integer(self, name: str, value: Scalar) -> int:
        match = None if value.quoted else _INTEGER.match(value.text)
        if match is None:
            raise self.fault(f"{name} is {_shown(value)}, not a whole number", value.line)
        sign, digits = match.groups()
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
