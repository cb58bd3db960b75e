"""``Recipe``: the values of all options as one frozen, hashable object, a section an attribute."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from engine.base.errors import RecipeError
from engine.base.text import did_you_mean, sanitize
from engine.options import (
    OPTIONS,
    Calibration,
    Compiler,
    Preprocessing,
    Quantization,
    Section,
    SectionName,
    Source,
    Target,
    Value,
    Values,
    check_values,
    option,
)
from engine.options.frozen import frozen, to_mutable
from engine.recipe.validation import cross_check

__all__ = ["VERSION", "Recipe", "recipe_problems"]

VERSION = 1
"""Version of the recipe format; written into every file, a newer one is refused."""

PATH_KINDS = frozenset({"path", "paths", "code"})
"""Kinds of options that name files; one of ``code`` names something in the file, too."""


@dataclass(frozen=True)
class Recipe:
    """Everything needed to build again. Frozen and hashable; equal recipes have equal hashes.

    Make one with :meth:`from_values` or ``load_recipe``; paths are kept as text, absolute
    when it came from a file or when ``from_values`` was given a base.
    """

    source: Source = field(default_factory=Source.of)
    preprocess: Preprocessing = field(default_factory=Preprocessing.of)
    quantization: Quantization = field(default_factory=Quantization.of)
    target: Target = field(default_factory=Target.of)
    compiler: Compiler = field(default_factory=Compiler.of)
    dataset: Calibration = field(default_factory=Calibration.of)

    @classmethod
    def from_values(cls, values: Values, base: Path | None = None) -> Recipe:
        """A recipe from a flat dict of option name -> value; absent or None means the default.

        Args:
            values: as the worker protocol carries them.
            base: where relative paths start; None leaves them as they are.

        Raises:
            RecipeError: names every option that is unknown, does not fit or contradicts another.
        """
        checked, problems = check_values(values)
        if problems:
            raise RecipeError(
                " ".join(problems.values()),
                remedy=" ".join(
                    f"{name}: {option(name).help}" for name in problems if name in _NAMES
                )
                or "Leave out what is unknown.",
            )
        if base is not None:
            for name, value in checked.items():
                if option(name).kind in PATH_KINDS:
                    checked[name] = _resolved(value, base)
        recipe = _of_checked(checked)
        problems = cross_check(recipe.source, recipe.preprocess)
        if problems:
            raise RecipeError(
                " ".join(problems.values()), remedy="Change one of the options named above."
            )
        return recipe

    def value(self, name: str) -> Value:
        """The value of one option by its name, lists as tuples; KeyError if unknown."""
        return self.section(option(name).section).values[name]

    def section(self, name: SectionName) -> Section:
        """One of the sections by its name."""
        part: Section = getattr(self, name)
        return part

    def to_values(self, *, everything: bool = False) -> dict[str, Value]:
        """The flat dict of option name -> value, as JSON has it; defaults with ``everything``."""
        return {
            o.name: to_mutable(value)
            for o in OPTIONS
            if (value := self.value(o.name)) != frozen(o.default) or everything
        }

    def with_values(self, **changes: Value) -> Recipe:
        """A recipe with some options changed; None resets one to its default."""
        return Recipe.from_values(self.to_values() | changes)


_NAMES = frozenset(o.name for o in OPTIONS)


def unknown_option(name: str, near: Collection[str]) -> RecipeError:
    """The error for a name that is no option, or that belongs to another section."""
    shown = sanitize(name, 80)
    if name in _NAMES:
        home = option(name).section
        return RecipeError(
            f"{shown} does not belong here.", remedy=f"Put it under {home}: in the recipe."
        )
    hint = did_you_mean(name, near) or did_you_mean(name, _NAMES)
    return RecipeError(
        f"There is no option {shown}. {hint}".strip(), remedy="Correct or remove it."
    )


def _resolved(value: Value, base: Path) -> Value:
    """Paths of one option made absolute; ``~/`` is the home folder, as in a shell."""
    if isinstance(value, list):
        return [_resolved(v, base) for v in value]
    if not isinstance(value, str):
        return value
    path = Path(value)
    if value.startswith("~/"):  # only this form: "~name" may be a file
        path = path.expanduser()
    return str(base.absolute() / path)


def recipe_problems(values: Values) -> dict[str, str]:
    """Option name -> message of everything in a flat dict that does not fit."""
    checked, problems = check_values(values)
    return problems | cross_check(Source.of(checked), Preprocessing.of(checked))


def _of_checked(values: Values) -> Recipe:
    """The recipe of values in their normal form, contradictory or not."""
    return Recipe(
        Source.of(values),
        Preprocessing.of(values),
        Quantization.of(values),
        Target.of(values),
        Compiler.of(values),
        Calibration.of(values),
    )
