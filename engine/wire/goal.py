"""Frames a second that a chip is to reach, and what brings it nearer to them (estimated)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from engine.wire.codec import Above
from engine.wire.cost import ChipEstimate, EstimateParams, Estimates, Interval
from engine.wire.flags import Flag
from engine.wire.method import Query
from engine.wire.record import record


@record
class Goal:
    """Frames a second that a chip is to reach; None: no goal."""

    fps: Annotated[
        Annotated[float, Above(0)] | None,
        Flag(name="--fps", help="Frames a second to reach: which chips do, what the others need."),
    ] = None


@record(kw_only=True)
class WaysParams(EstimateParams):
    """A model, what is varied in its estimates, and the frames a second to reach."""

    fps: Annotated[float, Above(0)]


@record
class Way:
    """What brings a chip nearer to the goal.

    Attributes:
        what: to do.
        fps: the rate then; of a tip of the manuals without an interval.
        gain_ms: what it saves.
        reaches: whether the rate is that of the goal then.
        input_sizes: the input that was tried, as an estimate takes it; empty for a tip.
    """

    what: str
    fps: Interval
    gain_ms: float
    reaches: bool
    input_sizes: tuple[str, ...] = ()


@record
class ChipWays:
    """What brings one chip nearer to the goal: what reaches it first, of these the cheapest."""

    chip: str
    ways: tuple[Way, ...]


@record
class Ways:
    """The same for the chips asked for that do not reach it for sure."""

    model: str
    fps_asked: float
    chips: tuple[ChipWays, ...]


COST_WAYS = Query("cost.ways", WaysParams, Ways)


def judged(found: Estimates, frames: float) -> Estimates:
    """With :attr:`ChipEstimate.reaches` of so many frames a second."""

    def reaches(chip: ChipEstimate) -> str:
        if chip.fps is None:
            return ""
        if chip.fps.low >= frames:
            return "yes"
        return "maybe" if chip.fps.high >= frames else "no"

    chips = tuple(replace(chip, reaches=reaches(chip)) for chip in found.chips)
    return replace(found, chips=chips, fps_asked=frames)
