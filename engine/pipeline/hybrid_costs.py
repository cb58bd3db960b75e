"""What choices of hybrid quantization cost on the recipe's chip (estimated)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from engine.base.errors import EngineError
from engine.hybrid.noise_model import ChoiceCost
from engine.pipeline.costs import estimator_of

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline
    from engine.wire.cost import ChipEstimate
    from engine.wire.hybrid import LayerRow


class EstimatedCosts:
    """Estimates of a recipe's model with other choices, each made once.

    Nothing is kept on disk: a search asks for many that nobody asks for again.

    Args:
        pipeline: of the recipe.
        chip: that it is built for.
    """

    def __init__(self, pipeline: Pipeline, chip: str) -> None:
        self.chip = chip
        self._pipeline = pipeline
        self._known: dict[frozenset[tuple[str, str]], ChipEstimate | None] = {}

    def estimate(self, choices: Mapping[str, str]) -> ChipEstimate | None:
        """With these dtypes, layers included; None where there is none."""
        key = frozenset(choices.items())
        if key not in self._known:
            self._known[key] = self._estimate(choices)
        return self._known[key]

    def of(self, choices: Mapping[str, str]) -> ChoiceCost | None:
        """As of :class:`engine.hybrid.noise_model.ChoiceCosts`."""
        estimate = self.estimate(choices)
        if estimate is None or estimate.time_ms is None or estimate.memory is None:
            return None
        return ChoiceCost(estimate.time_ms.value, estimate.memory.total)

    def _estimate(self, choices: Mapping[str, str]) -> ChipEstimate | None:
        try:
            estimate = self._again(choices)
        except EngineError:  # hybrid quantization goes on without figures of time
            return None
        return None if estimate.problem else estimate

    @cached_property
    def _again(self) -> Callable[[Mapping[str, str]], ChipEstimate]:
        """What does not depend on a choice is done once: a search asks for hundreds."""
        return estimator_of(self._pipeline, self.chip)


def costs_of(pipeline: Pipeline) -> EstimatedCosts | None:
    """The costs on the recipe's chip; None where the recipe names none."""
    chip = pipeline.recipe.target.target_platform
    return None if chip is None else EstimatedCosts(pipeline, chip)


def with_costs(
    rows: Sequence[LayerRow], costs: EstimatedCosts, built: Mapping[str, str], dtype: str
) -> tuple[LayerRow, ...]:
    """The rows of the hybrid table with what each layer costs.

    What promoting a layer adds is the difference of its own rows in two estimates, of the build and
    of all layers promoted. Conversions between dtypes, which depend on the neighbours, are not in.

    Args:
        rows: without costs.
        costs: of their recipe.
        built: ``layer.id`` -> dtype as the build has it.
        dtype: of promoted layers; empty where the chip has none.
    """
    now = costs.estimate(built)
    if now is None:
        return tuple(rows)
    every = {row.id: dtype for row in rows if dtype in row.choices}
    lifted = costs.estimate(every) if every else None
    own, more = _by_layer(now), {} if lifted is None else _by_layer(lifted)
    return tuple(_with(row, own.get(row.id), more.get(row.id), dtype) for row in rows)


_Figures = tuple[float, int, str]
"""ms, bytes of weights, place."""


def _by_layer(estimate: ChipEstimate) -> dict[str, _Figures]:
    figures: dict[str, _Figures] = {}
    for row in estimate.layers:
        if row.op in ("InputOperator", "OutputOperator", "exDataConvert"):
            continue
        time, weights, place = figures.get(row.id, (0.0, 0, row.target))
        place = place if place != "NPU" else row.target
        figures[row.id] = (time + row.time_ms, weights + row.weight_bytes, place)
    return figures


def _with(row: LayerRow, own: _Figures | None, more: _Figures | None, dtype: str) -> LayerRow:
    if own is None:
        return row  # it is fused into another layer, or removed
    costed = replace(row, time_ms=own[0], target=own[2])
    if more is None or row.dtype == dtype or dtype not in row.choices:
        return costed
    return replace(costed, promote_ms=more[0] - own[0], promote_bytes=more[1] - own[1])
