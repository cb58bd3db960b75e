"""What an option is, and how its text becomes a value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.base.errors import RecipeError
from engine.base.text import did_you_mean, printable
from engine.options.values import (
    finite,
    is_code,
    is_path,
    is_whole_number,
    mapping_of_text,
    mapping_text,
    number_text,
    per_input,
    rows_text,
    shown,
    sizes,
    whole,
)

__all__ = ["Kind", "Option", "Role", "Section", "Value"]

Kind = Literal[
    "bool",  # yes or no
    "int",
    "float",
    "text",
    "choice",
    "path",  # a file or folder; relative to the recipe's folder
    "names",  # list of tensor names
    "shapes",  # one list of sizes per input: [[1, 3, 224, 224]]
    "shape_sets",  # several such lists: [[[1, 3, 224, 224]], [[1, 3, 160, 160]]]
    "channels",  # one list of numbers per input: [[127, 127, 127]]
    "flags",  # one yes or no, or one per input
    "paths",  # a list of files, null for an input that has none
    "code",  # Python of the user's own: FILE.py:Name
    "mapping",  # tensor name -> one of the choices
    "ranges",  # tensor name -> [minimum, maximum]
]
Section = Literal["source", "preprocess", "quantization", "target", "compiler", "dataset"]
Role = Literal["simulator", "compiler", "refused"]
Value = Any

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}


@dataclass(frozen=True)
class Option:
    """One option, declared once and rendered as API argument, form field, flag, YAML key and help.

    Attributes:
        name: the vendor's name where it has one; also the YAML key and, with dashes, the flag.
        section: the part of the recipe that holds it.
        kind: how its text is read.
        help: one sentence.
        default: the value that an absent option has; None where absent means "as in the model".
        choices: allowed values of a ``choice``, and of the entries of a ``mapping``.
        generations: the vendor's generations whose API has it; empty for our own additions.
        stage: the first stage whose result depends on it (see ``engine.options.STAGES``).
        minimum, maximum: bounds of an ``int`` or ``float``.
        aliases: other lower-case spellings of a choice -> the choice.
        frameworks: whose models it concerns; empty for all.
        role: ``simulator``: it does here what the manuals say; ``compiler``: it concerns the
            vendor's binary alone and is carried to its compiler; ``refused``: only its default is
            taken, ``reason`` says why.
        reason: why a ``refused`` option is.
        refused: choices that the vendor's code names and that are not taken -> why.
        rule: of a value in its normal form: what it must be where it is not, else an empty text.
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
    aliases: Mapping[str, str] = field(default_factory=dict)
    frameworks: tuple[str, ...] = ()
    role: Role = "simulator"
    reason: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    rule: Callable[[Value], str] | None = None

    @property
    def flag(self) -> str:
        """The command line flag, ``--mean-values``."""
        return "--" + self.name.replace("_", "-").lower()

    @property
    def ours(self) -> bool:
        """Whether this is our own addition, which no vendor API has."""
        return not self.generations

    @property
    def repeated(self) -> bool:
        """Whether the command line takes it again and again, an entry ``NAME=VALUE`` each time."""
        return self.kind in ("mapping", "ranges")

    def parse(self, text: str) -> Value:
        """The value that a user's text means; an empty text means the default.

        Lists are read as JSON (``[[127,127,127]]``) or in short: ``127,127,127`` for one input,
        inputs split by ``;`` (numbers also by ``#``), sizes also as ``1x3x224x224``, sets of shapes
        split by ``|``, names by commas; mappings as JSON or ``name=value; name=value``.

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
        if self.repeated:
            return self.check(self._parse_mapping(text))
        return self.check(self._parse_list(text))

    def _parse_list(self, text: str) -> Value:
        if text.startswith(("[", '"')) or text == "null":
            return self._parse_json(text, "a list")
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
                return [sizes(p) for p in parts]
            if self.kind == "shape_sets":
                return [[sizes(p) for p in one.split(";")] for one in text.split("|")]
            parts = text.replace("#", ";").split(";")
            return [[float(n) for n in p.replace(",", " ").split()] for p in parts]
        except ValueError:
            raise self._error(text, "numbers") from None

    def _parse_mapping(self, text: str) -> Value:
        if text.startswith("{"):
            return self._parse_json(text, "a mapping")
        found = mapping_of_text(text)
        if found is None:
            raise self._error(text, self._expected())
        if self.kind == "mapping":
            return found
        try:
            return {
                name: [float(n) for n in pair.strip("[]").replace(",", " ").split()]
                for name, pair in found.items()
            }
        except ValueError:
            raise self._error(text, self._expected()) from None

    def _parse_json(self, text: str, expected: str) -> Value:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise self._error(text, expected) from None

    def _expected(self) -> str:
        return {
            "mapping": f"tensor names with one of {', '.join(self.choices)} each, as "
            f"conv1={self.choices[0] if self.choices else 'x'}",
            "ranges": "tensor names with a minimum and a larger maximum each, as conv1=-1,6",
        }[self.kind]

    def check(self, value: Value) -> Value:
        """The value in its normal form (lists nested per input, numbers as float or int).

        Raises:
            RecipeError: it has the wrong type, is out of range, or is not one of the choices.
        """
        if hasattr(value, "tolist"):  # a numpy array or number
            value = value.tolist()
        if value is None:
            return self.default
        if self.role == "refused":
            return self._check_refused(value)
        checked = getattr(self, f"_check_{self.kind}")(value)
        wrong = self.rule(checked) if self.rule is not None else ""
        if wrong:
            raise self._error(value, wrong)
        return checked

    def _check_refused(self, value: Value) -> Value:
        if value == self.default and isinstance(value, bool) == isinstance(self.default, bool):
            return self.default
        default = self.render(self.default) or "unset"
        raise RecipeError(
            f"{self.name} is {shown(value)}, which is not supported.",
            cause=self.reason,
            remedy=f"Leave it at {default}.",
        )

    def _check_bool(self, value: Value) -> bool:
        if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
        raise self._error(value, "yes or no")

    def _check_int(self, value: Value) -> int:
        if not is_whole_number(value):
            raise self._error(value, "a whole number")
        number = int(value)
        self._check_bounds(number)
        return number

    def _check_float(self, value: Value) -> float:
        if not finite(value):
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
        return self._chosen(value, self.name)

    def _chosen(self, value: Value, what: str) -> str:
        """The choice that a value names; ``what`` is the option, or an entry of it."""
        if isinstance(value, str):
            lowered = value.strip().lower()
            known = {c.lower(): c for c in self.choices} | dict(self.aliases)
            if lowered in known:
                return known[lowered]
            if lowered in self.refused:
                raise RecipeError(
                    f"{what} is {lowered}, which is not supported.",
                    cause=self.refused[lowered],
                    remedy=f"Choose one of {', '.join(self.choices)}.",
                )
        near = did_you_mean(str(value), [*self.choices, *self.aliases])
        known_names = ", ".join(self.choices)
        raise RecipeError(
            f"{what} is {printable(repr(value), 80)}; it must be one of {known_names}.",
            remedy=near or f"Choose one of {known_names}.",
        )

    def _check_mapping(self, value: Value) -> dict[str, str] | None:
        if not isinstance(value, Mapping):
            raise self._error(value, self._expected())
        return {
            self._tensor(name): self._chosen(one, f"{self.name} of {printable(str(name), 80)}")
            for name, one in value.items()
        } or None

    def _check_ranges(self, value: Value) -> dict[str, list[float]] | None:
        if not isinstance(value, Mapping):
            raise self._error(value, self._expected())
        found: dict[str, list[float]] = {}
        for name, pair in value.items():
            fits = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
            if not fits or not all(finite(n) for n in pair) or not pair[0] < pair[1]:
                raise RecipeError(
                    f"{self.name} of {printable(str(name), 80)} is {shown(pair)}; it must be a "
                    "minimum and a larger maximum.",
                    remedy=self.help,
                )
            found[self._tensor(name)] = [float(n) for n in pair]
        return found or None

    def _tensor(self, name: Value) -> str:
        if isinstance(name, str) and name and "\0" not in name:
            return name
        raise RecipeError(
            f"{self.name} names {shown(name)}, which is no tensor's name.",
            cause="YAML reads a name of digits alone as a number: put it in quotes.",
            remedy=self.help,
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
        if isinstance(value, Sequence) and value and all(n is None or is_path(n) for n in value):
            return list(value)
        raise self._error(value, "a list of paths, null for an input that has none")

    def _check_code(self, value: Value) -> list[str]:
        if isinstance(value, str):
            value = [value]
        if isinstance(value, Sequence) and value and all(is_code(n) for n in value):
            return list(value)
        raise self._error(value, "a list of Python files and names in them, as ops.py:cstSoftmax")

    def _check_flags(self, value: Value) -> bool | list[bool]:
        if isinstance(value, bool):
            return value
        if isinstance(value, Sequence) and value and all(isinstance(f, bool) for f in value):
            return list(value)
        raise self._error(value, "yes or no, or a list with one per input")

    def _check_shapes(self, value: Value) -> list[list[int]]:
        rows = per_input(value)
        if rows and all(whole(n) and n > 0 for row in rows for n in row):
            return [[int(n) for n in row] for row in rows]
        raise self._error(value, "one list of sizes above 0 per input, as [[1, 3, 224, 224]]")

    def _check_shape_sets(self, value: Value) -> list[list[list[int]]]:
        if isinstance(value, Sequence) and not isinstance(value, str) and value:
            try:
                return [self._check_shapes(one) for one in value]
            except RecipeError:
                pass  # the message below shows the form of all sets
        raise self._error(
            value, "sets of shapes, one shape per input in each, as [[[1, 3, 224, 224]]]"
        )

    def _check_channels(self, value: Value) -> list[list[float]]:
        if self.generations == (1,):
            value = self._rows_of_text(value)
        rows = per_input(value)
        if rows and all(finite(n) for row in rows for n in row):
            return [[float(n) for n in row] for row in rows]
        raise self._error(value, "one list of numbers per input, as [[127, 127, 127]]")

    def _rows_of_text(self, value: Value) -> Value:
        """Rows of generation 1's API: text with # between inputs, or a list of such texts."""
        texts = [value] if isinstance(value, str) else value
        if isinstance(texts, Sequence) and texts and all(isinstance(row, str) for row in texts):
            return [row for text in texts for row in self._parse_list(text)]
        return value

    def _error(self, value: Value, expected: str) -> RecipeError:
        return RecipeError(
            f"{self.name} is {shown(value)}; it must be {expected}.",
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
            return rows_text(value, "x" if self.kind == "shapes" else ",")
        if self.kind == "shape_sets":
            return "|".join(rows_text(rows, "x") for rows in value)
        if self.repeated:
            entries = value
            if self.kind == "ranges":
                entries = {name: ",".join(map(number_text, pair)) for name, pair in value.items()}
            return mapping_text(entries) or json.dumps(value)
        if isinstance(value, list):
            return json.dumps(value)
        return str(value)


def _flag(text: str, option: Option) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise RecipeError(
        f"{option.name} is {printable(repr(text), 80)}; it must be yes or no.", remedy=option.help
    )
