"""What a script has said of its model, and the pipeline that it means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.api.loading import source_values
from engine.api.signatures import Parameters
from engine.base.errors import UsageError
from engine.options import Value, Values

if TYPE_CHECKING:
    from engine.api.configuration import Configuration
    from engine.base.events import Reporter
    from engine.graph.ir.custom import CustomOperators
    from engine.pipeline.pipeline import Pipeline

_UNSAID_1: Values = {
    "quantized_dtype": "asymmetric_quantized-u8",
    "quantized_method": "layer",
    "target_platform": "rk1808",
}
"""What generation 1 means where ``config`` was not called."""


class Script:
    """The calls so far that a build depends on.

    Attributes:
        config: of the last ``config`` that was taken.
        refused: whether the last ``config`` was not.
        operators: custom operators that were registered.
    """

    def __init__(self, reporter: Reporter) -> None:
        self.config: Configuration | None = None
        self.refused = False
        self.operators: CustomOperators | None = None
        self._reporter = reporter
        self._source: Values | None = None
        self._initial: Sequence[Any] | None = None

    def take_source(self, method: str, given: Parameters) -> None:
        """Remember the model of a load method."""
        values = source_values(method, {n: v for n, v in given.items() if n != "input_initial_val"})
        initial = given.get("input_initial_val")
        self._source = {name: value for name, value in values.items() if value is not None}
        self._initial = None if initial is None else list(initial)

    def forget_source(self) -> None:
        """No model is loaded any more."""
        self._source = None

    def require_source(self) -> None:
        """Raises UsageError where there is nothing that could be built."""
        if self.refused:
            raise UsageError("config was refused.", remedy="Correct its arguments first.")
        if self._source is None:
            raise UsageError(
                "No model is loaded.", remedy="Call load_onnx or another load method first."
            )

    def pipeline(self, generation: int, changes: Values) -> Pipeline:
        """The pipeline of what was said.

        Raises:
            RecipeError: an option does not fit, or contradicts another.
        """
        from engine.base.cache import StageCache
        from engine.pipeline.pipeline import Pipeline
        from engine.pipeline.source import RecipeSource
        from engine.pipeline.stages import STAGES
        from engine.recipe import Recipe

        unsaid = _UNSAID_1 if generation == 1 else {}
        said = unsaid if self.config is None else self.config.values
        values: dict[str, Value] = {**said, **(self._source or {}), **changes}
        recipe = Recipe.from_values({k: v for k, v in values.items() if v is not None}, Path.cwd())
        initial, operators = self._initial, self.operators
        return Pipeline(
            recipe,
            STAGES,
            reporter=self._reporter,
            # what the classes of a script compute is in no key
            cache=None if operators else StageCache(),
            generation=generation,
            source=RecipeSource(
                recipe,
                None
                if initial is None
                else [None if v is None else np.asarray(v) for v in initial],
                None if operators is None else lambda: operators,
            ),
        )
