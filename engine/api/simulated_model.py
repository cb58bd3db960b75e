"""A build, or a container of ours, that runs in the simulator of this process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.accuracy.snapshot import dump_layers
from engine.api.input_adapter import adapt_inputs
from engine.dataset import InputPlan, Preprocess
from engine.pipeline.runner import Runnable
from engine.quantize import layers_of
from engine.recipe import portable_recipe

if TYPE_CHECKING:
    from engine.graph.ir import CustomOperators, QuantParams
    from engine.pipeline.pipeline import Pipeline
    from engine.wire.names import Arithmetic

_DUMP = "NN_LAYER_DUMP"


class SimulatedModel:
    """The model that ``inference`` runs.

    Args:
        runnables: the simulator, for each set of input shapes (``dynamic_input``).
        preprocess: mean and std, generation 1's order of channels; the swap of generation 2's
            pictures is not applied to arrays.
    """

    def __init__(self, runnables: Sequence[Runnable], preprocess: Preprocess) -> None:
        self._forms: list[tuple[Runnable, tuple[InputPlan, ...]]] = [
            (runnable, preprocess.plans(runnable.inputs)) for runnable in runnables
        ]
        self._quant: Mapping[str, QuantParams] = runnables[0].table

    @classmethod
    def of_build(cls, pipeline: Pipeline) -> SimulatedModel:
        """A pipeline whose stages are done."""
        preprocess = Preprocess.from_recipe(pipeline.recipe, pipeline.generation)
        return cls(
            [Runnable.of_build(pipeline, graph) for graph in pipeline.deployed.graphs],
            preprocess,
        )

    def in_form(self, arithmetic: Arithmetic, *, compiled: bool = False) -> SimulatedModel:
        """The same model; arguments as of :meth:`engine.pipeline.runner.Runnable.in_form`."""
        other = copy(self)
        other._forms = [
            (runnable.in_form(arithmetic, compiled=compiled), plans)
            for runnable, plans in self._forms
        ]
        return other

    @classmethod
    def of_container(
        cls, path: Path, generation: int, operators: CustomOperators | None = None
    ) -> SimulatedModel:
        """A container; generation 1's order of channels is in its recipe.

        Args:
            path: of the container.
            generation: whose rules hold.
            operators: custom operators that a script registered.

        Raises:
            ContainerError: it cannot be read.
        """
        runnable = Runnable.of_container(path, operators)
        recipe = portable_recipe(runnable.recipe)
        return cls([runnable], Preprocess.from_recipe(recipe, generation))

    def run(
        self, inputs: Any, *, data_format: Any, data_type: Any, pass_through: Any
    ) -> tuple[dict[str, np.ndarray], list[str]]:
        """Output name -> values in the model's order, and warnings.

        Raises:
            EngineError: an input does not fit, or the graph does not run.
        """
        runnable, plans = self._form_for(inputs)
        feeds, warnings = adapt_inputs(
            plans,
            inputs,
            data_format=data_format,
            data_type=data_type,
            pass_through=pass_through,
            quant=self._quant,
        )
        if os.environ.get(_DUMP) == "1":
            layers = runnable.layers or layers_of(runnable.graph)
            files = dump_layers(runnable.graph, layers, feeds, Path.cwd())
            warnings.append(
                f"{_DUMP}=1: the tensors of {len(files)} layers are in {Path.cwd()} as "
                "layer_NUMBER_NAME.npy (names and format are ours, simulated)."
            )
        return runnable.run(feeds), warnings

    def _form_for(self, inputs: Any) -> tuple[Runnable, tuple[InputPlan, ...]]:
        """The form whose input shapes are those that are given; the first where none fits."""
        arrays = [inputs] if isinstance(inputs, np.ndarray) else inputs
        for runnable, plans in self._forms:
            if isinstance(arrays, Sequence) and all(
                np.shape(array) in plan.accepted_shapes()
                for array, plan in zip(arrays, plans, strict=False)
            ):
                return runnable, plans
        return self._forms[0]
