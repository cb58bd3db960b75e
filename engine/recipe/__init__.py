"""The recipe: one YAML file, or one frozen object, with everything needed to build again.

Sections, names, defaults and checks are those of ``engine.options``; nothing is declared here a
second time.
"""

from __future__ import annotations

from engine.recipe.frozen import FrozenMap
from engine.recipe.keys import canonical_json, portable, portable_values, stage_key, stage_values
from engine.recipe.model import (
    VERSION,
    Calibration,
    Compiler,
    Preprocessing,
    Quantization,
    Recipe,
    Source,
    Target,
    recipe_problems,
    recipe_schema,
)
from engine.recipe.notes import option_notes
from engine.recipe.text import (
    Change,
    Problem,
    diff_recipes,
    dump_recipe,
    load_recipe,
    parse_recipe,
    read_recipe,
)

__all__ = [
    "VERSION",
    "Calibration",
    "Change",
    "Compiler",
    "FrozenMap",
    "Preprocessing",
    "Problem",
    "Quantization",
    "Recipe",
    "Source",
    "Target",
    "canonical_json",
    "diff_recipes",
    "dump_recipe",
    "load_recipe",
    "option_notes",
    "parse_recipe",
    "portable",
    "portable_values",
    "read_recipe",
    "recipe_problems",
    "recipe_schema",
    "stage_key",
    "stage_values",
]
