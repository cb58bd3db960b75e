"""What a choice of dtypes costs on the chip of a recipe, as those who choose ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from engine.base.errors import UsageError

__all__ = ["LEAST_MS", "ChoiceCost", "ChoiceCosts", "check_budget", "fits", "per_millisecond"]

LEAST_MS = 0.0005
"""Time below which a choice counts as free: half a microsecond is far below what estimates tell."""


@dataclass(frozen=True)
class ChoiceCost:
    """Estimated: ms of an inference; bytes of memory, weights and tensors between layers."""

    time_ms: float
    bytes: int


class ChoiceCosts(Protocol):
    """Estimates of choices on one chip.

    Attributes:
        chip: its name.
    """

    chip: str

    def of(self, choices: Mapping[str, str]) -> ChoiceCost | None:
        """The cost with these dtypes, ``layer.id`` -> dtype; None where there is no estimate."""


def check_budget(costs: ChoiceCosts | None, budget_ms: float | None) -> None:
    """A budget of time needs estimates.

    Raises:
        UsageError: there is a budget and no estimate to hold it against.
    """
    if budget_ms is not None and (costs is None or costs.of({}) is None):
        raise UsageError(
            "A budget of time needs an estimate of the time.",
            cause="The recipe names no chip, or there is no estimate of the model there.",
            remedy="Set target_platform; `rknntui chips` says which chips have an estimate.",
        )


def fits(cost: ChoiceCost | None, budget_ms: float | None) -> bool:
    """Whether a choice keeps to the time; one without estimate does where no time is asked for."""
    return budget_ms is None or (cost is not None and cost.time_ms <= budget_ms)


def per_millisecond(gain: float, before: ChoiceCost | None, after: ChoiceCost | None) -> float:
    """What a choice gains for each ms that it adds; one that adds none comes before all others."""
    if before is None or after is None:
        return gain
    return gain / max(LEAST_MS, after.time_ms - before.time_ms)
