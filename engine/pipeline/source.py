"""From a recipe to the files of its source model, and what of them decides the load stage."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.base.errors import EngineError, RecipeError
from engine.base.plain import JsonObject, JsonValue
from engine.base.version import version_of
from engine.frontends.load import find_source
from engine.frontends.source import LoadOptions, SourceModel
from engine.pipeline.fingerprints import digest_of
from engine.recipe import Recipe

if TYPE_CHECKING:
    from engine.graph.ir.custom import CustomOperators

CONVERTED = frozenset({"tensorflow", "pytorch"})
"""Frameworks whose models are converted by other programs, which takes seconds."""

_CONVERTERS = {
    "tensorflow": ("tensorflow-cpu", "tensorflow", "tf2onnx"),
    "pytorch": ("torch", "onnxscript"),
    "tflite": ("tflite",),
}
"""Packages whose version decides what a load gives."""


@dataclass(frozen=True)
class RecipeSource:
    """The source model of a recipe.

    Args:
        recipe: names the files.
        initial_values: constants for inputs, in the place of the files of ``input_initial_val``.
        give_operators: gives the custom operators: those that the recipe names, or that a script
            registered. Only the former are in the keys of stages: others must not meet a cache.
    """

    recipe: Recipe
    initial_values: Sequence[np.ndarray | None] | None = None
    give_operators: Callable[[], CustomOperators] | None = None

    @cached_property
    def operators(self) -> CustomOperators | None:
        """The custom operators; their Python is run at the first question.

        Raises:
            RecipeError: nobody allowed it to run, or it does not run.
        """
        return None if self.give_operators is None else self.give_operators()

    @cached_property
    def path(self) -> Path:
        """The model file that the recipe names.

        Raises:
            RecipeError: it names none.
        """
        if not self.recipe.source.model:
            raise RecipeError("The recipe names no model.", remedy="Set model to a model file.")
        return Path(self.recipe.source.model)

    @cached_property
    def model(self) -> SourceModel:
        """The recognised files, and what the recipe says of them.

        Raises:
            RecipeError: the recipe names no model.
            SourceModelError: the file is missing or no model, or its other half is not clear.
        """
        said = self.recipe.source
        initial: Any = self.initial_values
        if initial is None and said.input_initial_val is not None:
            initial = tuple(None if p is None else Path(p) for p in said.input_initial_val)
        # the first set of shapes is the one that is calibrated
        sizes = said.input_size_list if said.dynamic_input is None else said.dynamic_input[0]
        try:
            operators = self.operators
        except EngineError:  # a look at the files does without operators that may not run
            operators = None
        names = {field.name for field in fields(LoadOptions)}
        values: dict[str, Any] = {name: said.values[name] for name in names & said.values.keys()}
        values |= {
            "input_size_list": sizes,
            "input_initial_val": None if initial is None else tuple(initial),
            "predef_file": None if said.predef_file is None else Path(said.predef_file),
        }
        options = LoadOptions(**values, operators=operators)
        weights = None if said.weights is None else Path(said.weights)
        return find_source(self.path, weights, options)

    @cached_property
    def digests(self) -> dict[str, str]:
        """SHA-256 of every file that the recipe's source names, by the text that names it."""
        said = self.recipe.source
        named = [said.model, said.weights, said.predef_file]
        named += [*(said.input_initial_val or ()), *(said.op_packages or ())]
        digests = {name: digest_of(Path(name)) for name in named if name is not None}
        for code in said.custom_ops or ():
            digests[code] = digest_of(Path(code.rpartition(":")[0]))
        return digests

    def contents(self) -> JsonObject:
        """For each option that names files, the hashes of what they hold."""
        said = self.recipe.source
        digests = self.digests
        contents: dict[str, JsonValue] = {}
        for name in ("model", "weights", "predef_file"):
            value = getattr(said, name)
            contents[name] = None if value is None else digests[value]
        for name in ("input_initial_val", "op_packages", "custom_ops"):
            values = getattr(said, name)
            contents[name] = values and [None if v is None else digests[v] for v in values]
        if self.initial_values is not None:
            contents["input_initial_val"] = self._given()
        return contents

    def _given(self) -> list[str | None] | None:
        """SHA-256 of every constant that is given for an input."""
        if self.initial_values is None:
            return None
        return [None if v is None else _array_digest(v) for v in self.initial_values]

    def extra(self) -> JsonObject:
        """What else decides the load: names, the other half of the model, converters' versions."""
        model = self.model
        codes = self.recipe.source.custom_ops or ()
        return {
            "name": model.model.name,
            "partner": None if model.weights is None else digest_of(model.weights),
            "main": digest_of(model.model),
            "classes": [code.rpartition(":")[2] for code in codes],
            "converters": [version_of(name) or "" for name in _CONVERTERS.get(model.framework, ())],
            "given": self._given(),
        }


def _array_digest(array: np.ndarray) -> str:
    head = f"{array.dtype.str} {array.shape} ".encode("ascii")
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()
