"""What brings a chip nearer to a frame rate: tips of the manuals, a smaller input (estimated)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.cost.sizes import smaller_size
from engine.pipeline.costs import advice, estimates, resized
from engine.wire.cost import Interval
from engine.wire.goal import ChipWays, Way, Ways, judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.pipeline import Pipeline
    from engine.wire.cost import ChipEstimate, WhatIf


def ways_to_rate(pipeline: Pipeline, what_if: WhatIf, fps: float) -> Ways:
    """What the chips need that do not reach a frame rate for sure.

    Args:
        pipeline: of the recipe, with the sizes of ``what_if`` already.
        what_if: the chips, and what is varied.
        fps: frames a second to reach.

    Raises:
        EngineError: as :func:`engine.pipeline.costs.estimates`.
    """
    found = judged(estimates(pipeline, what_if, layers=False), fps)
    chips = [
        ChipWays(chip.chip, tuple(sorted(_ways(pipeline, what_if, chip, fps), key=_rank)))
        for chip in found.chips
        if chip.reaches in ("maybe", "no")
    ]
    return Ways(found.model, fps, tuple(chips))


def _rank(way: Way) -> tuple[bool, float]:
    return not way.reaches, way.gain_ms


def _ways(pipeline: Pipeline, what_if: WhatIf, chip: ChipEstimate, goal: float) -> Iterator[Way]:
    if chip.fps is None or chip.time_ms is None:
        return
    whole = chip.time_ms.value
    for tip in advice(pipeline, chip.chip, what_if.dtype, what_if.npu_mhz).advice:
        if tip.gain_ms is not None and 0 < tip.gain_ms < whole:
            rate = chip.fps.value * whole / (whole - tip.gain_ms)
            yield Way(tip.title, Interval(rate, rate, rate), tip.gain_ms, rate >= goal)
    inputs = pipeline.loaded.graph.graph.inputs
    sizes: tuple[str, ...] = ()
    if inputs and not what_if.input_sizes:
        sizes = smaller_size(inputs[0].name, inputs[0].shape, chip.fps.low / goal)
    if sizes:
        asked = replace(what_if, chips=(chip.chip,), input_sizes=sizes)
        smaller = estimates(resized(pipeline, sizes), asked, layers=False).chips[0]
        if smaller.fps is not None and smaller.time_ms is not None:
            size = sizes[0].rpartition("=")[2].replace(",", "x").removeprefix("1x3x")
            gain = whole - smaller.time_ms.value
            yield Way(f"input {size}", smaller.fps, gain, smaller.fps.value >= goal, sizes)
