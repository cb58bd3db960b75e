"""Which steps are taken: judged on calibration samples that they have not seen.

Every step rests on an assumption (independent rounding errors, tails that fall off exponentially,
copies that look like pictures), and a graph may break any of them. So the whole recipe and the
plain one are each made from three quarters of the samples, run as the integer graphs that they
become, and compared on the last quarter. So is the recipe without headroom: inputs that are crops
of few pictures, or small, show their ranges, and room beyond them costs more than it saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from engine.base.events import LogLine, Reporter
from engine.graph.execute import Session
from engine.quantize.accurate.assemble import Choice, Material, assemble
from engine.quantize.accurate.gather import Feeds
from engine.quantize.qdq import insert_qdq

__all__ = ["CANDIDATES", "choose"]

CANDIDATES: Mapping[str, Choice] = {
    "equalized, with headroom": Choice(),
    "equalized, ranges as seen": Choice(headroom=False),
    "ranges as seen": Choice(equalize=False, headroom=False),
}
"""In the order of preference."""

# The first candidate is left only for one that is better than this (1 dB): few samples are left to
# judge by, and over all models the first is the best one.
_MARGIN = 10**0.1

# Samples to judge by, at most, and how many there have to be at all.
_JUDGES = 8
_FEWEST = 8


def choose(material: Material, feeds: Feeds, reporter: Reporter) -> Choice:
    """The candidate with the least noise at the graph's outputs."""
    samples = material.statistics.samples
    # beyond 8 bits nothing but a value that is clipped counts, and few samples clip none
    wide = all(form.bits > 8 for form in material.plan.formats.values())
    if samples < _FEWEST or wide:
        return next(iter(CANDIDATES.values()))
    held = list(range(0, samples, max(4, -(-samples // _JUDGES))))
    seen = [row for row in range(samples) if row not in set(held)]
    judges = [feed for row, feed in enumerate(feeds()) if row in set(held)]
    exact = _outputs(Session(material.graph), judges)
    best, least = Choice(), np.inf
    for title, choice in CANDIDATES.items():
        reporter.check_cancelled()
        ready = assemble(material, choice.draft(), seen)
        graph, _ = insert_qdq(ready.graph, ready.plan, ready.activations, ready.weights)
        noise = _noise(exact, _outputs(Session(graph), judges))
        reporter.emit(
            LogLine(f"{title}: {-10 * np.log10(max(noise, 1e-30)):.1f} dB on samples held out")
        )
        if noise * _MARGIN < least:
            best, least = choice, noise
    return best


def _outputs(
    session: Session, judges: Iterable[Mapping[str, np.ndarray]]
) -> dict[str, list[np.ndarray]]:
    found: dict[str, list[np.ndarray]] = {}
    for feed in judges:
        for name, array in session.run(feed).items():
            found.setdefault(name, []).append(array.astype(np.float64))
    return found


def _noise(exact: Mapping[str, list[np.ndarray]], found: Mapping[str, list[np.ndarray]]) -> float:
    """Noise power relative to signal power; over the outputs the geometric mean."""
    shares = []
    for name, arrays in exact.items():
        signal = sum(float(np.square(a).sum()) for a in arrays)
        noise = sum(float(np.square(a - b).sum()) for a, b in zip(arrays, found[name], strict=True))
        if signal > 0:
            shares.append(np.log(max(noise / signal, 1e-15)))
    return float(np.exp(np.mean(shares))) if shares else 0.0
