"""What the steps of the accuracy guide look at: samples, graphs, and builds with other options."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.accuracy.guide import cosine_verdict
from engine.base.errors import UsageError
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.metrics import cosine
from engine.services.state import get_pipeline
from engine.wire.guide import StepFinding, StepResult

if TYPE_CHECKING:
    from engine.pipeline.board import BoardChoice
    from engine.pipeline.pipeline import Pipeline

PROBES = 4
"""Calibration samples that the float checks run on; the procedure asks for one at least."""

Tensors = Mapping[str, np.ndarray]


class Probe:
    """A recipe under examination.

    Args:
        pipeline: of the recipe.
        reference: outputs of the original framework for the first calibration sample.
        board: to compare with; None for none.

    Raises:
        UsageError: ``reference`` does not fit the model's outputs.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        reference: Sequence[np.ndarray] | None = None,
        board: BoardChoice | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.board = board
        self.recipe = pipeline.recipe
        self.reporter = pipeline.reporter
        self.given = reference is not None
        self._reference = reference

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The float outputs' names."""
        specs = self.pipeline.loaded.graph.graph.outputs
        return tuple(spec.name for spec in specs if spec.dtype.startswith("float"))

    @cached_property
    def feeds(self) -> list[Tensors]:
        """The first samples of the calibration dataset."""
        count = 1 if self.given else PROBES
        return list(islice(self.pipeline.feeds(self.pipeline.dataset.first(count)), count))

    @cached_property
    def expected(self) -> list[Tensors]:
        """Right results: the user's where given, else the source model's in float32."""
        if self._reference is None:
            return self.run(self.pipeline.loaded.graph.graph)
        specs = self.pipeline.loaded.graph.graph.outputs
        if len(self._reference) != len(specs):
            raise UsageError(
                f"{len(self._reference)} reference files for {len(specs)} outputs.",
                remedy="Give one npy file per output, in the model's order.",
            )
        arrays: dict[str, np.ndarray] = {}
        for spec, array in zip(specs, self._reference, strict=True):
            if array.size != math.prod(spec.shape):
                raise UsageError(
                    f"The reference of {spec.name} has {array.size} values, the model's output "
                    f"{math.prod(spec.shape)}.",
                    remedy="Give the files in the order of the outputs.",
                )
            arrays[spec.name] = array.reshape(spec.shape)
        return [arrays]

    def run(self, graph: Graph, feeds: Sequence[Tensors] | None = None) -> list[Tensors]:
        """The outputs of a graph for the probes.

        Raises:
            SimulationError: it does not run.
        """
        session = Session(graph)
        return [session.run(feed) for feed in (self.feeds if feeds is None else feeds)]

    def with_options(self, **changes: Any) -> Pipeline:
        """The pipeline of the recipe with other options, over the same caches."""
        return get_pipeline(self.recipe.with_values(**changes), self.reporter)


Check = Callable[[Probe], StepResult]


def cosines(
    names: Sequence[str], expected: Sequence[Tensors], found: Sequence[Tensors]
) -> dict[str, float]:
    """Output -> the mean of its cosines over the samples."""
    return {
        name: float(
            np.mean([cosine(a[name], b[name]) for a, b in zip(expected, found, strict=True)])
        )
        for name in names
    }


def cosine_text(values: Mapping[str, float], what: str = "cosine") -> tuple[StepFinding, ...]:
    """A line for each output."""
    return tuple(
        StepFinding(name, f"{what} {value:.5f}", cosine_verdict(value))
        for name, value in values.items()
    )
