"""Every option and every name that a user can type, declared once. Standard library only.

Rendered five times: arguments of ``engine.api.RKNN``, form fields, command line flags, YAML keys of
a recipe, and ``--help`` with the docs. Names and defaults are the vendor's, generation 2 V2.3.0
where both have them [RKNN-T2 2.3.0, 2.2]; our own additions have no generation.
"""

from __future__ import annotations

from engine.base.plain import Value, Values
from engine.options.dataset import Calibration, Preprocessing
from engine.options.declare import Kind, Option, Role, SectionName
from engine.options.names import (
    ALGORITHMS,
    DTYPES,
    GENERATION_1_DTYPES,
    GRANULARITIES,
    LAYER_DTYPES,
    chips_with,
)
from engine.options.quantization import Quantization
from engine.options.section import Section
from engine.options.source import Source
from engine.options.target import Compiler, Target

__all__ = [
    "ALGORITHMS",
    "DTYPES",
    "GENERATION_1_DTYPES",
    "GRANULARITIES",
    "LAYER_DTYPES",
    "OPTIONS",
    "SECTIONS",
    "Calibration",
    "Compiler",
    "Kind",
    "Option",
    "Preprocessing",
    "Quantization",
    "Role",
    "Section",
    "SectionName",
    "Source",
    "Target",
    "Value",
    "Values",
    "check_values",
    "chips_with",
    "named_option",
    "option",
]

PARTS: tuple[type[Section], ...] = (
    Source,
    Preprocessing,
    Quantization,
    Target,
    Compiler,
    Calibration,
)
"""The sections of a recipe in their order."""

SECTIONS: dict[SectionName, str] = {part.NAME: part.TITLE for part in PARTS}
"""Name -> title."""

OPTIONS: tuple[Option, ...] = tuple(one for part in PARTS for one in part.options())
"""Every option, section by section."""

_BY_NAME = {o.name: o for o in OPTIONS}


def option(name: str) -> Option:
    """The option of that name; KeyError where there is none, which is never a user's mistake."""
    return _BY_NAME[name]


def named_option(text: str) -> str | None:
    """The first option, in their order, that a text such as an error's names; None without one.

    Only names with an underscore count: ``model`` or ``inputs`` is also a word of a sentence.
    """
    return next((o.name for o in OPTIONS if "_" in o.name and o.name in text), None)


def check_values(values: Values) -> tuple[dict[str, Value], dict[str, str]]:
    """Check a flat dict of option values.

    Returns:
        Option name -> value in its normal form; option name -> message where one does not fit.
    """
    from engine.base.errors import RecipeError
    from engine.base.text import did_you_mean

    checked: dict[str, Value] = {}
    problems: dict[str, str] = {}
    for name, value in values.items():
        known = _BY_NAME.get(name)
        if known is None:
            problems[name] = f"There is no option {name}. {did_you_mean(name, _BY_NAME)}".strip()
            continue
        try:
            checked[name] = known.check(value)
        except RecipeError as error:
            problems[name] = f"{error.what} {error.cause}".strip()
    return checked, problems
