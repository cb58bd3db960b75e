"""What an option is, and how its text becomes a value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Literal

from engine.base.errors import RecipeError
from engine.base.text import did_you_mean, printable

__all__ = ["Kind", "Option", "Section", "Value"]

Kind = Literal[
    "bool",  # yes or no
    "int",
    "float",
    "text",
    "choice",
    "path",  # a file or folder; relative to the recipe's folder
    "names",  # list of tensor names
    "shapes",  # one list of sizes per input: [[1, 3, 224, 224]]
    "channels",  # one list of numbers per input: [[127, 127, 127]]
    "flags",  # one yes or no, or one per input
    "paths",  # a list of files, null for an input that has none
    "code",  # Python of the user's own: FILE.py:Name
]
Section = Literal["source", "preprocess", "quantization", "target", "dataset"]
Value = Any

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}
_LARGEST = 3.4e38  # what float32 holds
_SMALLEST_DIVISOR = 1e-30  # below it float32 pixels become infinite
_LARGEST_SIZE = 2**31 - 1


@dataclass(frozen=True)
class Option:
    """One option, declared once and rendered as API argument, form field, flag, YAML key and help.

    Attributes:
        name: the vendor's name where it has one; also the YAML key and, with dashes, the flag.
        section: the part of the recipe that holds it.
        kind: how its text is read.
        help: one sentence.
        default: the value that an absent option has; None where absent means "as in the model".
        choices: allowed values of a ``choice``.
        generations: the vendor's generations whose API has it; empty for our own additions.
        stage: the first stage whose result depends on it (see ``engine.options.STAGES``).
        minimum, maximum: bounds of an ``int`` or ``float``.
        aliases: other lower-case spellings of a choice -> the choice.
        frameworks: whose models it concerns; empty for all.
    """

    name: str
    section: Section
    kind: Kind
    help: str
    default: Value = None
    choices: tuple[str, ...] = ()
    generations: tuple[int, ...] = (2,)
    stage: str = "load"
    minimum: float | None = None
    maximum: float | None = None
    aliases: dict[str, str] = field(default_factory=dict)
    frameworks: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The command line flag, ``--mean-values``."""
        return "--" + self.name.replace("_", "-").lower()

    @property
    def ours(self) -> bool:
        """Whether this is our own addition, which no vendor API has."""
        return not self.generations

    def parse(self, text: str) -> Value:
        """The value that a user's text means; an empty text means the default.

        Lists are read as JSON (``[[127,127,127]]``) or in short: ``127,127,127`` for one input,
        inputs split by ``;``, sizes also as ``1x3x224x224``, names by commas.

        Raises:
            RecipeError: the text does not fit.
        """
        text = text.strip()
        if not text:
            return self.default
        if self.kind in ("text", "path", "choice"):
            return self.check(text)
        if self.kind == "bool":
            return self.check(_flag(text, self))
        if self.kind == "int":
            try:
                return self.check(int(text))
            except ValueError:
                raise self._error(text, "a whole number") from None
        if self.kind == "float":
            try:
                return self.check(float(text))
            except ValueError:
                raise self._error(text, "a number") from None
        return self.check(self._parse_list(text))

    def _parse_list(self, text: str) -> Value:
        if text.startswith(("[", '"')) or text == "null":
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                raise self._error(text, "a list") from None
        parts = [p.strip() for p in text.split(";")]
        if self.kind in ("names", "code"):
            return [n.strip() for n in text.replace(";", ",").split(",") if n.strip()]
        if self.kind == "paths":
            return [None if p in ("", "-", "null") else p for p in parts]
        if self.kind == "flags":
            flags = [_flag(p, self) for p in text.replace(";", ",").split(",")]
            return flags[0] if len(flags) == 1 else flags
        try:
            if self.kind == "shapes":
                return [[int(n) for n in p.replace("x", ",").split(",")] for p in parts]
            return [[float(n) for n in p.replace(" ", ",").split(",") if n] for p in parts]
        except ValueError:
            raise self._error(text, "numbers") from None

    def check(self, value: Value) -> Value:
        """The value in its normal form (lists nested per input, numbers as float or int).

        Raises:
            RecipeError: it has the wrong type, is out of range, or is not one of the choices.
        """
        if hasattr(value, "tolist"):  # a numpy array or number
            value = value.tolist()
        if value is None:
            return self.default
        checker = getattr(self, f"_check_{self.kind}")
        return checker(value)

    def _check_bool(self, value: Value) -> bool:
        if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
        raise self._error(value, "yes or no")

    def _check_int(self, value: Value) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise self._error(value, "a whole number")
        number = int(value)
        self._check_bounds(number)
        return number

    def _check_float(self, value: Value) -> float:
        if not _finite(value):
            raise self._error(value, "a number")
        number = float(value)
        self._check_bounds(number)
        return number

    def _check_bounds(self, number: float) -> None:
        if self.minimum is not None and number < self.minimum:
            raise self._error(number, f"at least {self.minimum}")
        if self.maximum is not None and number > self.maximum:
            raise self._error(number, f"at most {self.maximum}")

    def _check_text(self, value: Value) -> str:
        if not isinstance(value, str) or "\0" in value:
            raise self._error(value, "text")
        return value

    _check_path = _check_text

    def _check_choice(self, value: Value) -> str:
        if isinstance(value, str):
            lowered = value.strip().lower()
            known = {c.lower(): c for c in self.choices} | self.aliases
            if lowered in known:
                return known[lowered]
        near = did_you_mean(str(value), self.choices)
        known_names = ", ".join(self.choices)
        raise RecipeError(
            f"{self.name} is {printable(repr(value), 80)}; it must be one of {known_names}.",
            remedy=near or f"Choose one of {known_names}.",
        )

    def _check_names(self, value: Value) -> list[str]:
        if isinstance(value, str):
            value = [value]
        if isinstance(value, Sequence) and value and all(isinstance(n, str) and n for n in value):
            return list(value)
        raise self._error(value, "a list of tensor names")

    def _check_paths(self, value: Value) -> list[str | None]:
        if isinstance(value, str):
            value = [value]
        if isinstance(value, Sequence) and value and all(n is None or _path(n) for n in value):
            return list(value)
        raise self._error(value, "a list of paths, null for an input that has none")

    def _check_code(self, value: Value) -> list[str]:
        if isinstance(value, str):
            value = [value]
        if isinstance(value, Sequence) and value and all(_code(n) for n in value):
            return list(value)
        raise self._error(value, "a list of Python files and names in them, as ops.py:cstSoftmax")

    def _check_flags(self, value: Value) -> bool | list[bool]:
        if isinstance(value, bool):
            return value
        if isinstance(value, Sequence) and value and all(isinstance(f, bool) for f in value):
            return list(value)
        raise self._error(value, "yes or no, or a list with one per input")

    def _check_shapes(self, value: Value) -> list[list[int]]:
        rows = _per_input(value)
        if rows and all(_whole(n) and n > 0 for row in rows for n in row):
            return [[int(n) for n in row] for row in rows]
        raise self._error(value, "one list of sizes above 0 per input, as [[1, 3, 224, 224]]")

    def _check_channels(self, value: Value) -> list[list[float]]:
        rows = _per_input(value)
        if rows and all(_finite(n) for row in rows for n in row):
            if self.name == "std_values" and any(
                abs(n) < _SMALLEST_DIVISOR for row in rows for n in row
            ):
                raise self._error(value, "without 0: pixels are divided by it")
            return [[float(n) for n in row] for row in rows]
        raise self._error(value, "one list of numbers per input, as [[127, 127, 127]]")

    def _error(self, value: Value, expected: str) -> RecipeError:
        return RecipeError(
            f"{self.name} is {_shown(value)}; it must be {expected}.",
            remedy=f"{self.help} Default: {self.default!r}.",
        )

    def render(self, value: Value) -> str:
        """The text that :meth:`parse` reads back as ``value``; empty for None."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if self.kind in ("names", "code"):
            text = ", ".join(value)
            plain = not text.startswith(("[", '"')) and self._parse_list(text) == list(value)
            return text if plain else json.dumps(value)
        if self.kind in ("channels", "shapes") and all(isinstance(row, list) for row in value):
            between = "x" if self.kind == "shapes" else ","
            return ";".join(between.join(map(_number, row)) for row in value)
        if isinstance(value, list):
            return json.dumps(value)
        return str(value)


def _number(value: float) -> str:
    """The shortest text that reads back as the number; whole numbers without a point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)


def _flag(text: str, option: Option) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise RecipeError(
        f"{option.name} is {printable(repr(text), 80)}; it must be yes or no.", remedy=option.help
    )


def _per_input(value: Value) -> list[list[Any]] | None:
    """A list of lists; one flat list means one input, as both manuals' examples write it."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not len(value):
        return None
    if all(isinstance(row, Sequence) and not isinstance(row, str) and len(row) for row in value):
        return [list(row) for row in value]
    if all(_finite(n) for n in value):
        return [list(value)]
    return None


def _shown(value: Value) -> str:
    try:
        return printable(repr(value), 80)
    except ValueError:  # Python refuses to print a whole number of more than 4300 digits
        return "a very large number"


def _path(value: Value) -> bool:
    return isinstance(value, str) and "\0" not in value


def _code(value: Value) -> bool:
    """Whether it is ``FILE.py:Name``, the name a Python identifier."""
    if not _path(value):
        return False
    file, _, name = value.rpartition(":")
    return bool(file) and str(name).isidentifier()


def _finite(value: Value) -> bool:
    """Whether it is a number within float32's range; NaN is not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    number: Any = value  # typing knows no order of Real
    return bool(-_LARGEST <= number <= _LARGEST)


def _whole(value: Value) -> bool:
    return _finite(value) and abs(value) <= _LARGEST_SIZE and int(value) == value
