"""The recipe: one YAML file, or one frozen object, with everything needed to build again.

Sections, names, types, defaults and checks are those of ``engine.options``; nothing is declared
here a second time.
"""

from __future__ import annotations

from engine.recipe.applicability import applicability_findings
from engine.recipe.keys import (
    cache_key,
    canonical_json,
    portable_recipe,
    portable_values,
    relocatable,
    stage_values,
)
from engine.recipe.model import VERSION, Recipe, recipe_problems
from engine.recipe.schema import recipe_schema
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
    "Change",
    "Problem",
    "Recipe",
    "applicability_findings",
    "cache_key",
    "canonical_json",
    "diff_recipes",
    "dump_recipe",
    "load_recipe",
    "parse_recipe",
    "portable_recipe",
    "portable_values",
    "read_recipe",
    "recipe_problems",
    "recipe_schema",
    "relocatable",
    "stage_values",
]
