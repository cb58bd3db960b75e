"""What an option is, and how its text becomes a value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from engine.base.errors import RecipeError
from engine.base.plain import Value
from engine.base.text import sanitize
from engine.options.checks import CHECKS, NUMBERS, check_unsupported, expected_length
from engine.options.names import chips_with
from engine.options.values import (
    format_rows,
    format_value,
    mapping_of_text,
    mapping_text,
    number_text,
    sizes,
)

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
SectionName = Literal["source", "preprocess", "quantization", "target", "compiler", "dataset"]
Role = Literal["simulator", "compiler", "refused"]

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
        stage: the first stage whose result depends on it (see ``engine.pipeline.stages``).
        minimum, maximum: bounds of an ``int`` or ``float``.
        aliases: other lower-case spellings of a choice -> the choice.
        frameworks: whose models it concerns; empty for all.
        role: ``simulator``: it does here what the manuals say; ``compiler``: it concerns the
            vendor's binary alone and is carried to its compiler; ``refused``: only its default is
            taken, ``reason`` says why.
        reason: why a ``refused`` option is.
        unsupported: choices that the vendor's code names and that are not taken -> why.
        about: a line on each of the choices.
        rule: of a value in its normal form: what it must be where it is not, else an empty text.
    """

    name: str
    section: SectionName
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
    unsupported: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    rule: Callable[[Value], str] | None = None

    @property
    def flag(self) -> str:
        """The command line flag, ``--mean-values``."""
        return "--" + self.name.replace("_", "-").lower()

    @property
    def extension(self) -> bool:
        """Whether this is our own addition, which no vendor API has."""
        return not self.generations

    @property
    def repeated(self) -> bool:
        """Whether the command line takes it again and again, an entry ``NAME=VALUE`` each time."""
        return self.kind in ("mapping", "ranges")

    def concerns(self, framework: str, generation: int) -> bool:
        """Whether it does something for a model and the chip that is targeted.

        Args:
            framework: of the model.
            generation: of the chip, 1 or 2; 0 where none is targeted.
        """
        if generation == 2 and self.generations == (1,):
            return False
        if generation == 1 and self.generations == (2,) and self.role == "compiler":
            return False
        return not self.frameworks or framework in self.frameworks

    def mentions(self, words: str) -> bool:
        """Whether all of the words are in its name, flag, help, choices or what is said of them."""
        texts = (self.name, self.flag, self.help, *self.choices, *self.aliases)
        text = " ".join((*texts, *self.about.values())).lower()
        return all(word in text for word in words.lower().split())

    def described(self, target: str) -> dict[str, str]:
        """Choice -> a line on it, in their order; of a dtype whether the target (a chip) has it."""
        lines = {choice: self.about.get(choice, "") for choice in self.choices}
        if self.name == "quantized_dtype" and target:
            for dtype, line in lines.items():
                if target not in chips_with(dtype):
                    lines[dtype] = f"✗ not on {target}. {line}"
        return lines

    def turned(self, value: Value, step: int) -> Value:
        """The value after (1) or before (-1) another one, as a front end's arrows turn it.

        Of a switch the other one, of a list round its end, of a number within its bounds; of every
        other kind the same value.
        """
        if self.kind == "bool" or (self.kind == "flags" and isinstance(value, bool)):
            return not value
        if self.kind == "choice":
            choices = (*((None,) if self.default is None else ()), *self.choices)
            at = choices.index(value) if value in choices else 0
            return choices[(at + step) % len(choices)]
        if self.kind == "int":
            new = (value if isinstance(value, int) else 0) + step
            low, high = self.minimum, self.maximum
            if (low is None or new >= low) and (high is None or new <= high):
                return new
        return value

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
        if self.kind in NUMBERS:
            kind, expected = NUMBERS[self.kind]
            try:
                return self.check(kind(text))
            except ValueError:
                raise self.error(text, expected) from None
        if self.repeated:
            return self.check(self._parse_mapping(text))
        return self.check(self.parse_list(text))

    def parse_list(self, text: str) -> Value:
        """The list that a text of a list kind means, not yet checked.

        Raises:
            RecipeError: the text does not fit.
        """
        if text.startswith(("[", '"')) or text == "null":
            return self._parse_json(text, "a list")
        parts = [p.strip() for p in text.split(";")]
        if self.kind in ("names", "code"):
            return [n.strip() for n in text.replace(";", ",").split(",") if n.strip()]
        if self.kind == "paths":
            listed = [p.strip() for p in text.split(",")]
            if len(parts) == 1 < len(listed) and {"-", "null"} & set(listed):
                raise self.error(text, "files with ; between them, - for an input without one")
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
            raise self.error(text, "numbers") from None

    def _parse_mapping(self, text: str) -> Value:
        if text.startswith("{"):
            return self._parse_json(text, "a mapping")
        pairs = mapping_of_text(text)
        if pairs is None:
            raise self.error(text, expected_length(self))
        if self.kind == "mapping":
            return pairs
        try:
            return {
                name: [float(n) for n in pair.strip("[]").replace(",", " ").split()]
                for name, pair in pairs.items()
            }
        except ValueError:
            raise self.error(text, expected_length(self)) from None

    def _parse_json(self, text: str, expected: str) -> Value:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            if self.kind == "paths":
                expected = 'files with ; between them, or a list of JSON, as [null, "rate.npy"]'
            raise self.error(text, expected) from None

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
            return check_unsupported(self, value)
        checked = CHECKS[self.kind](self, value)
        wrong = self.rule(checked) if self.rule is not None else ""
        if wrong:
            raise self.error(value, wrong)
        return checked

    def error(self, value: Value, expected: str) -> RecipeError:
        """The error of a value that is not what it must be."""
        return RecipeError(
            f"{self.name} is {format_value(value)}; it must be {expected}.",
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
            plain = not text.startswith(("[", '"')) and self.parse_list(text) == list(value)
            return text if plain else json.dumps(value)
        if self.kind in ("channels", "shapes") and all(isinstance(row, list) for row in value):
            return format_rows(value, "x" if self.kind == "shapes" else ",")
        if self.kind == "shape_sets":
            return "|".join(format_rows(rows, "x") for rows in value)
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
        f"{option.name} is {sanitize(repr(text), 80)}; it must be yes or no.", remedy=option.help
    )
