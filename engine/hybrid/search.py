"""Which layers to lift or lower: a noise model proposes, real builds decide.

Lifting adds layers where the model predicts the largest gain per layer, tries the best proposals
for real and keeps the better. Lowering starts with every layer lifted and gives back, least harm
first, what the floor does not need. Both end at the budget, the floor, the time or the user's word
with the best that was built.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from engine.base.errors import UsageError
from engine.base.events import LogLine
from engine.hybrid.evaluator import EvalResult, Evaluator, sqnr_of
from engine.hybrid.layers import Layers
from engine.hybrid.noise_model import (
    Candidate,
    ChoiceCost,
    ChoiceCosts,
    NoiseModel,
    check_budget,
    fits,
    per_millisecond,
)
from engine.hybrid.sensitivity import noise_samples, noise_terms
from engine.report import sqnr_rank
from engine.wire.hybrid import CURVE, CurvePoint, SearchParams, SearchResult

# Proposals that are built before one is chosen, and where none of them gains.
_TRIED, _TRIED_AT_MOST = 3, 6
# Proposals whose time is estimated where there is a budget of time.
_PRICED = 24
# A gain below this is no reason for one more layer in float.
_LEAST_DB = 0.02


_FLOAT = "float16"
"""What layers are promoted to where nothing is asked for."""


def search(
    trials: Evaluator,
    asked: SearchParams,
    costs: ChoiceCosts | None = None,
    *,
    layers: Mapping[str, str] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    floor_score: float | None = None,
) -> SearchResult:
    """Search; every point is told as a piece ``CURVE`` when it is built.

    Args:
        trials: of the model.
        asked: floor, budgets and time; its model is that of the trials. With a budget of time
            what gains most for the time that it adds comes first.
        costs: estimates on a chip; a budget of time needs them.
        layers: that differ already; they stay, and do not count.
        ranges: set by hand; they stay.
        floor_score: of the trials' score function, where there is one; in the place of SQNR.

    Raises:
        UsageError: neither a floor nor a budget nor a time, an output that does not exist.
        EngineError: the model cannot be quantized or run.
    """
    return _Search(trials, asked, costs, layers or {}, ranges or {}, floor_score).run()


@dataclass
class _Search:
    trials: Evaluator
    asked: SearchParams
    costs: ChoiceCosts | None
    own_layers: Mapping[str, str]
    ranges: Mapping[str, tuple[float, float]]
    floor_score: float | None
    too_slow: bool = False  # or too many layers: something would gain, and the budget forbids it
    curve: list[CurvePoint] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.dtype = self.asked.dtype or _FLOAT
        self.has_floor = self.asked.floor_db is not None or self.floor_score is not None

    def run(self) -> SearchResult:
        self._check()
        self.begun = time.perf_counter()
        self.layers = Layers(self.trials.graph)
        start = self._try(frozenset())
        build = self.trials.build(start.layers, start.ranges)
        own = Layers(build.reference)
        feeds = self.trials.feeds[: noise_samples(own)]
        terms = noise_terms(own, build, feeds, reporter=self.trials.reporter)
        self.model = NoiseModel(terms, self.trials.outputs, self._weights())
        if self.asked.demote:
            ended = self._lower()
        else:
            self._tell("", start, frozenset())
            ended = self._lift()
        best = self._best()
        met = self._meets(best) if self.has_floor else None
        return SearchResult(best, tuple(self.curve), met, ended, self.count)

    def _check(self) -> None:
        asked = self.asked
        limits = (asked.budget, asked.seconds, asked.budget_ms)
        if limits == (None, None, None) and not self.has_floor:
            raise UsageError(
                "A search needs a floor, a budget or a time to stop at.",
                remedy="Give a floor in dB (--floor) or a number of layers (--budget).",
            )
        check_budget(self.costs, asked.budget_ms)
        if asked.demote and not self.has_floor:
            raise UsageError(
                "Demoting layers needs a floor: without one every layer could be demoted.",
                remedy="Give the SQNR that every output must reach (--floor).",
            )
        if isinstance(asked.floor_db, Mapping):
            for name in asked.floor_db:
                if name not in self.trials.outputs:
                    raise UsageError(
                        f"The model has no float output {name!r}.",
                        remedy=f"Its outputs are {', '.join(self.trials.outputs)}.",
                    )

    def _floor(self, output: str) -> float | None:
        floor = self.asked.floor_db
        return floor.get(output) if isinstance(floor, Mapping) else floor

    def _weights(self) -> dict[str, float]:
        """Error counts by how near it brings an output to its floor."""
        floors = {name: self._floor(name) for name in self.trials.outputs}
        if all(floor is None for floor in floors.values()):
            return dict.fromkeys(floors, 1.0)
        return {name: 0.0 if f is None else 10 ** (f / 10) for name, f in floors.items()}

    def _chosen(self, lifted: frozenset[str]) -> dict[str, str]:
        """The dtypes of a build with these layers, and with those that the user chose."""
        return self.layers.with_data_movement({**self.own_layers, **self._as_layers(lifted)})

    def _try(self, lifted: frozenset[str]) -> EvalResult:
        self.count += 1
        return self.trials.run(self._chosen(lifted), self.ranges)

    def _tell(self, layer: str, outcome: EvalResult, lifted: frozenset[str]) -> CurvePoint:
        price = self.costs.of(outcome.layers) if self.costs is not None else None
        point = CurvePoint(
            step=len(self.curve),
            tensor=self.layers.by_id[layer].tensor if layer else "",
            layer=layer,
            dtype=self.dtype if layer in lifted else "",
            layers=outcome.layers,
            promoted=tuple(one.id for one in self.layers.all if one.id in lifted),
            outputs=outcome.sqnr,
            predicted=sqnr_of(self.model.noise(lifted)),
            seconds=round(time.perf_counter() - self.begun, 3),
            score=outcome.score,
            time_ms=None if price is None else price.time_ms,
            bytes=None if price is None else price.bytes,
            samples=len(self.trials.feeds),
        )
        self.curve.append(point)
        self.trials.reporter.emit(CURVE.event(point))
        return point

    def _cost_of(self, lifted: frozenset[str]) -> ChoiceCost | None:
        """What a choice costs on the chip; None without one."""
        return self.costs.of(self._chosen(lifted)) if self.costs is not None else None

    def _fits(self, point: CurvePoint) -> bool:
        limit = self.asked.budget_ms
        return limit is None or (point.time_ms is not None and point.time_ms <= limit)

    def _ended(self) -> str:
        """Why to stop now; empty to go on."""
        self.trials.reporter.check_cancelled()
        if self.trials.reporter.finish_requested():
            return "asked"
        seconds = self.asked.seconds
        return "time" if seconds is not None and time.perf_counter() - self.begun > seconds else ""

    def _meets(self, point: CurvePoint) -> bool:
        if self.floor_score is not None:
            return point.score is not None and point.score >= self.floor_score
        floors = ((value, self._floor(name)) for name, value in point.outputs.items())
        return all(f is None or sqnr_rank(v) >= f for v, f in floors)

    def _cost(self, score: float | None, sqnr: Mapping[str, float | None]) -> float:
        """What is to become small: the user's score, or the weighted error."""
        if score is not None:
            return -score
        weights = self._weights()
        return sum(
            weights[name] * (0.0 if value is None else 10 ** (-value / 10))
            for name, value in sqnr.items()
        )

    def _best(self) -> CurvePoint:
        points = [point for point in self.curve if self._fits(point)] or self.curve
        good = [point for point in points if self.has_floor and self._meets(point)]
        if good:
            return min(good, key=lambda p: (len(p.promoted), self._cost(p.score, p.outputs)))
        return min(points, key=lambda p: (self._cost(p.score, p.outputs), len(p.promoted)))

    # -- lifting -----------------------------------------------------------------------------------

    def _lift(self) -> str:
        lifted: frozenset[str] = frozenset()
        budget = len(self.model.layers) if self.asked.budget is None else self.asked.budget
        while True:
            point = self.curve[-1]
            if self.has_floor and self._meets(point):
                return "floor"
            if len(lifted) >= budget:
                return "budget"
            ended = self._ended()
            if ended:
                return ended
            promoted = self._next(lifted, budget - len(lifted))
            if promoted is None:
                return "budget" if self.too_slow else "nothing more"
            lifted = promoted

    def _next(self, lifted: frozenset[str], most: int) -> frozenset[str] | None:
        """Lift the best of the proposals, layer by layer; None where none gains."""
        last = self.curve[-1]
        before = self._cost(last.score, last.outputs)
        least = abs(before) * (1 - 10 ** (-_LEAST_DB / 10))
        tried: list[tuple[float, float, frozenset[str]]] = []
        now = self._cost_of(lifted)
        for candidate in self._affordable(lifted, most):
            more = lifted | candidate.layers
            outcome = self._try(more)
            whole = before - self._cost(outcome.score, outcome.sqnr)
            rank = gain = whole / len(candidate.layers)
            if self.asked.budget_ms is not None:
                rank = per_millisecond(whole, now, self._cost_of(more))
            tried.append((rank, gain, candidate.layers))
            enough = len(tried) >= _TRIED and max(one[1] for one in tried) > least
            if enough or self._ended():
                break
        if not tried:
            return None
        _, gain, added = max(tried, key=lambda one: one[:2])
        if gain <= least and not self.has_floor:
            return None
        for name in self._order(lifted, added):
            lifted = lifted | {name}
            self._tell(name, self._try(lifted), lifted)
        return lifted

    def _affordable(self, lifted: frozenset[str], most: int) -> list[Candidate]:
        """The best proposals that keep to the time, as many as are tried."""
        candidates, self.too_slow = self.model.candidates(lifted, most), False
        if self.asked.budget is not None:  # moves between them count too
            budget, found = self.asked.budget, len(candidates[:_PRICED])
            fitting = (c for c in candidates if len(self._moved(lifted | c.layers)) <= budget)
            candidates = list(islice(fitting, _PRICED))
            self.too_slow = len(candidates) < found
        limit = self.asked.budget_ms
        if limit is None:
            return candidates[:_TRIED_AT_MOST]
        kept = [c for c in candidates[:_PRICED] if fits(self._cost_of(lifted | c.layers), limit)]
        self.too_slow |= len(kept) < len(candidates[:_PRICED])
        return kept[:_TRIED_AT_MOST]

    def _order(self, lifted: frozenset[str], added: frozenset[str]) -> list[str]:
        """The layers of a proposal, that which gains most by itself first."""
        return sorted(added, key=lambda name: (self.model.cost(lifted | {name}), name))

    def _moved(self, lifted: frozenset[str]) -> dict[str, str]:
        """The lifted layers with the moves between them."""
        return self.layers.with_data_movement(self._as_layers(lifted))

    def _as_layers(self, lifted: frozenset[str]) -> dict[str, str]:
        return dict.fromkeys(lifted, self.dtype)

    # -- lowering ----------------------------------------------------------------------------------

    def _lower(self) -> str:
        """Bisect the order of least harm for the most layers that may be lowered."""
        every = frozenset(self.model.layers)
        order = self.model.demotion_order(every)
        start = self._try(every)
        self._tell("", start, every)
        if not self._meets(self.curve[-1]):
            self.trials.reporter.emit(
                LogLine("Even with every layer promoted the floor is not reached.", "warning")
            )
            return "nothing more"
        good, bad = 0, len(order) + 1
        while bad - good > 1:
            ended = self._ended()
            if ended:
                return ended
            middle = (good + bad) // 2
            lifted = every - frozenset(order[:middle])
            point = self._tell(order[middle - 1], self._try(lifted), lifted)
            good, bad = (middle, bad) if self._meets(point) else (good, middle)
        return "floor"
