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
from engine.options.values import frozen, to_mutable

# Checks across options: those that contradict each other whatever the model is.


def cross_check(source: Source, preprocess: Preprocessing) -> dict[str, str]:
    """Option name -> message, for options that cannot hold together whatever the model is."""
    return {**_of_rows(preprocess), **_of_channels(preprocess), **_of_inputs(source)}


def _of_rows(part: Preprocessing) -> dict[str, str]:
    mean, std = part.mean_values, part.std_values
    if mean is None or std is None:
        return {}
    if len(mean) != len(std):
        return {
            "std_values": f"mean_values has {len(mean)} lists and std_values {len(std)}; "
            "each needs one per input."
        }
    for index, (m, s) in enumerate(zip(mean, std, strict=True)):
        if len(m) != len(s) and 1 not in (len(m), len(s)):
            return {
                "std_values": f"For input {index} mean_values has {len(m)} channels "
                f"and std_values {len(s)}."
            }
    return {}


def _of_channels(part: Preprocessing) -> dict[str, str]:
    """What generation 1 says in one option and generation 2 in others."""
    problems = {}
    if part.channel_mean_value is not None and (part.mean_values or part.std_values):
        problems["channel_mean_value"] = (
            "channel_mean_value and mean_values or std_values say the same in two ways: "
            "give one of them."
        )
    swaps = part.quant_img_RGB2BGR
    if part.reorder_channel is not None and (swaps if isinstance(swaps, bool) else any(swaps)):
        problems["reorder_channel"] = (
            "reorder_channel and quant_img_RGB2BGR both swap the channels of images: set only one "
            "of them."
        )
    return problems


def _of_inputs(source: Source) -> dict[str, str]:
    problems = {}
    names = source.inputs
    rows = {
        "input_size_list": source.input_size_list,
        "input_initial_val": source.input_initial_val,
    }
    for name, entries in rows.items():
        if names is not None and entries is not None and len(entries) != len(names):
            problems[name] = (
                f"inputs names {len(names)} tensors and {name} has {len(entries)} entries."
            )
    sets = source.dynamic_input
    if sets is None:
        return problems
    if len({len(one) for one in sets}) > 1:
        problems["dynamic_input"] = "The sets of dynamic_input have different numbers of shapes."
    elif names is not None and len(sets[0]) != len(names):
        problems["dynamic_input"] = (
            f"inputs names {len(names)} tensors and each set of dynamic_input has "
            f"{len(sets[0])} shapes."
        )
    elif len(set(sets)) < len(sets):
        problems["dynamic_input"] = "dynamic_input names a set of shapes twice."
    return problems


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
