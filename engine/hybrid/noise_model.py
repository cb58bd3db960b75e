"""The noise model: predicts the error of a choice of layers by a sum over the quantizers that are
left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engine.base.errors import UsageError
from engine.hybrid.sensitivity import NoiseTerm

# A rounding below this share of the whole error is no reason to lift anything.
_SHARE = 1e-4


@dataclass(frozen=True)
class Candidate:
    """Layers to lift together, and the cost that is left when they are."""

    layers: frozenset[str]
    cost: float


class NoiseModel:
    """Predicts the error of hybrid builds.

    The cost of a build is the sum over outputs of weight x relative power of the error; with equal
    weights the worst outputs decide, which is what a model is judged by.

    Args:
        terms: of the build without lifted layers.
        outputs: names, in the order of the terms' noise.
        weights: output -> weight; 1 where it is not named.
    """

    def __init__(
        self,
        terms: Sequence[NoiseTerm],
        outputs: Sequence[str],
        weights: Mapping[str, float] | None = None,
    ) -> None:
        names = sorted({name for term in terms for name in term.needs})
        self.layers = tuple(names)
        self._index = {name: i for i, name in enumerate(names)}
        self._needs = np.zeros((len(terms), len(names)), dtype=np.float32)
        for row, term in enumerate(terms):
            self._needs[row, [self._index[name] for name in term.needs]] = 1
        self._noise = np.array([term.noise for term in terms]).reshape(len(terms), len(outputs))
        scale = np.array([(weights or {}).get(name, 1.0) for name in outputs])
        self._costs = self._noise @ scale
        self._outputs = tuple(outputs)
        self._terms = tuple(terms)

    def cost(self, lifted: Iterable[str] = ()) -> float:
        """The cost that is left with these layers lifted."""
        return float(self._costs @ self._left(self._mask(lifted))[:, 0])

    def noise(self, lifted: Iterable[str] = ()) -> dict[str, float]:
        """Output -> predicted relative power of its error."""
        left = self._left(self._mask(lifted))[:, 0] @ self._noise
        return dict(zip(self._outputs, map(float, left), strict=True))

    def candidates(self, lifted: Iterable[str], most: int) -> list[Candidate]:
        """What to lift next, the largest gain per layer first.

        Every rounding that counts makes one: the layers that it still needs. A pair of layers with
        a coarse tensor between them is one, whose halves alone would gain little.

        Args:
            lifted: what is lifted already.
            most: layers that may be added.
        """
        base = self._mask(lifted)
        now = float(self._costs @ self._left(base)[:, 0])
        choices: dict[frozenset[str], None] = {}
        done = frozenset(lifted)
        for term, cost in zip(self._terms, self._costs, strict=True):
            missing = term.needs - done
            if missing and len(missing) <= most and cost >= _SHARE * now:
                choices[missing] = None
        if not choices:
            return []
        masks = np.repeat(base, len(choices), axis=1)
        for column, names in enumerate(choices):
            masks[[self._index[name] for name in names], column] = 0
        costs = self._costs @ self._left(masks)
        candidates = [Candidate(names, float(c)) for names, c in zip(choices, costs, strict=True)]
        return sorted(candidates, key=lambda c: (-(now - c.cost) / len(c.layers), sorted(c.layers)))

    def demotion_order(self, lifted: Iterable[str]) -> list[str]:
        """The order in which to lower lifted layers: each time the one that costs least."""
        kept = [name for name in self.layers if name in set(lifted)]
        order: list[str] = []
        while kept:
            masks = np.repeat(self._mask(kept), len(kept), axis=1)
            masks[[self._index[name] for name in kept], range(len(kept))] = 1
            costs = self._costs @ self._left(masks)
            order.append(kept.pop(int(np.argmin(costs))))
        return order

    def _mask(self, lifted: Iterable[str]) -> np.ndarray:
        """Column of 1 for layers that are not lifted."""
        mask = np.ones((len(self.layers), 1), dtype=np.float32)
        mask[[self._index[name] for name in lifted if name in self._index]] = 0
        return mask

    def _left(self, masks: np.ndarray) -> np.ndarray:
        """1 for every rounding (row) that is left in each case (column)."""
        left: np.ndarray = (self._needs @ masks > 0).astype(np.float64)
        return left


# What a choice of dtypes costs on the chip of a recipe, as those who choose ask for it.

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
