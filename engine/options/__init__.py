"""Every option and every name that a user can type, declared once. Standard library only.

Rendered five times: arguments of ``engine.api.RKNN``, form fields, command line flags, YAML keys of
a recipe, and ``--help`` with the docs. Names and defaults are the vendor's, generation 2 V2.3.0
where both have them (API reference 002:478-693); our own additions have no generation.
"""

from __future__ import annotations

from engine.options.about import chips_with
from engine.options.data import DATASET, PREPROCESS
from engine.options.declare import Kind, Option, Role, Section, Value
from engine.options.names import (
    ALGORITHMS,
    DTYPES,
    GENERATION_1_DTYPES,
    GRANULARITIES,
    LAYER_DTYPES,
)
from engine.options.quantization import QUANTIZATION
from engine.options.source import SOURCE
from engine.options.target import COMPILER, TARGET

__all__ = [
    "ALGORITHMS",
    "DTYPES",
    "GENERATION_1_DTYPES",
    "GRANULARITIES",
    "LAYER_DTYPES",
    "OPTIONS",
    "SECTIONS",
    "STAGES",
    "Kind",
    "Option",
    "Role",
    "Section",
    "Value",
    "check_values",
    "chips_with",
    "named_option",
    "option",
]

STAGES = ("load", "optimise", "calibrate", "quantize", "evaluate", "container")
"""The stages of a build in order; ``Option.stage`` is the first that depends on the option."""

SECTIONS: dict[Section, str] = {
    "source": "Source model",
    "preprocess": "Preprocessing",
    "quantization": "Quantization",
    "target": "Target",
    "compiler": "Compiler",
    "dataset": "Calibration dataset",
}

OPTIONS: tuple[Option, ...] = (
    *SOURCE,
    *PREPROCESS,
    *QUANTIZATION,
    *TARGET,
    *COMPILER,
    *DATASET,
)
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


def check_values(values: dict[str, Value]) -> dict[str, str]:
    """Check a flat dict of option values; returns option name -> message where one is unfit."""
    from engine.base.errors import RecipeError
    from engine.base.text import did_you_mean

    problems: dict[str, str] = {}
    for name, value in values.items():
        known = _BY_NAME.get(name)
        if known is None:
            problems[name] = f"There is no option {name}. {did_you_mean(name, _BY_NAME)}".strip()
            continue
        try:
            known.check(value)
        except RecipeError as error:
            problems[name] = f"{error.what} {error.cause}".strip()
    return problems
