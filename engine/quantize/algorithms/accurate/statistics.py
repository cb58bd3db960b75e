"""What the float graph's tensors look like over the calibration samples, channel by channel.

Two passes over the samples. The first notes range, mean and mean square of every channel and sample
and adds up the second moments of the inputs of weighted layers at random positions. The second
notes how far and how often each channel goes beyond a threshold, from which
:mod:`~engine.quantize.algorithms.accurate.range_margin` judges what samples never seen will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.errors import QuantizationError
from engine.base.events import Progress, Reporter
from engine.graph.execute import PartedRun
from engine.graph.ir import Graph
from engine.graph.ir.spec import maker_of
from engine.quantize.calibration.observer import not_finite
from engine.quantize.interface import Feeds
from engine.quantize.planning.plan import Plan
from engine.quantize.techniques.moments import Moments, make_moments
from engine.quantize.techniques.softmax import Logits

# Values of a tensor that are looked at together: they stay in the cache.
_BLOCK = 1 << 16

# Rows of the second moments of one layer over all samples, at most: twice the largest K.
ROWS = 1200

# In the place of sums that float32 cannot hold.
_LARGEST = 1e38

# Values of a graph input kept of one sample.
_VALUES = 1000


@dataclass(frozen=True)
class ChannelStatistics:
    """Per sample and channel of one tensor, float64 (samples, channels).

    Attributes:
        low, high: smallest and largest value.
        total, square: sums of values and of squares.
        positions: values per sample and channel.
    """

    low: np.ndarray
    high: np.ndarray
    total: np.ndarray
    square: np.ndarray
    positions: int

    @property
    def mean_square(self) -> np.ndarray:
        """(channels,): the mean of the squares over all samples."""
        mean: np.ndarray = self.square.mean(axis=0) / self.positions
        return mean

    @property
    def mean(self) -> np.ndarray:
        """(channels,): the mean over all samples."""
        mean: np.ndarray = self.total.mean(axis=0) / self.positions
        return mean


@dataclass(frozen=True)
class Statistics:
    """What the first pass saw.

    Attributes:
        tensors: of all watched tensors.
        values: graph input -> some of its values.
        moments: weighted node -> second moments of its input.
        samples: how many came; a stream may give fewer than calibration counted.
    """

    tensors: Mapping[str, ChannelStatistics]
    values: Mapping[str, np.ndarray]
    moments: Mapping[str, Moments]
    samples: int


@dataclass(frozen=True)
class TailStats:
    """One end of the values of one tensor, per sample and channel: (samples, channels).

    The lower end is that of the negated values. Copies of samples count as samples.

    Attributes:
        threshold: (channels,).
        peak: the largest value.
        first: the mean over positions of ``max(x - threshold, 0)``.
        second: the mean of its square.
    """

    threshold: np.ndarray
    peak: np.ndarray
    first: np.ndarray
    second: np.ndarray


Rows = dict[str, list[np.ndarray]]
"""What gathers of each tensor while samples come in."""


def observe(
    runs: StatisticsRunner,
    plan: Plan,
    channels: Mapping[str, int],
    feeds: Feeds,
    samples: int,
    reporter: Reporter,
) -> Statistics:
    """The first pass.

    Args:
        runs: of the float graph; all inputs of weighted nodes are among its tensors.
        plan: of this graph.
        channels: tensor -> number of channels on axis 1; the others count as one channel.
        feeds: gives the samples anew.
        samples: how many at most, for the share of positions of each.
        reporter: may cancel.

    Raises:
        QuantizationError: a tensor is not finite, or no sample comes.
        SimulationError: the graph does not run.
    """
    moments = make_moments(runs.graph, plan, ROWS, samples)
    readers: dict[str, list[Moments]] = {}
    for layer in moments.values():
        readers.setdefault(layer.tensor, []).append(layer)
    gathered, positions, values = Rows(), dict[str, int](), Rows()
    inputs = {spec.name for spec in runs.graph.inputs}
    came = 0
    for count, arrays, needed in runs.over(feeds, samples, "statistics", reporter):
        came = count + 1
        for name, array in arrays.items():
            for reader in readers.get(name, ()):
                reader.add(array, count)
        for name, array in needed.items():
            flat = _by_channel(array, channels.get(name))
            positions[name] = max(flat.shape[1], 1)
            if array.size == 0:
                row = np.zeros((4, flat.shape[0]))
            else:
                total = flat.sum(axis=1)
                if not np.isfinite(total).all() and not np.isfinite(flat).all():
                    raise not_finite(flat, name, count, name in inputs)
                square = np.einsum("cp,cp->c", flat, flat)
                row = np.stack([flat.min(axis=1), flat.max(axis=1), total, square])
                # finite values whose sums are not: of an untrained net, say
                row = np.nan_to_num(row, posinf=_LARGEST, neginf=-_LARGEST)
            gathered.setdefault(name, []).append(row.astype(np.float64))
            if name in inputs:
                # a copy: a view would keep the whole sample in memory
                some = array.reshape(-1)[:: max(array.size // _VALUES, 1)].copy()
                values.setdefault(name, []).append(some)
    if not came:
        raise QuantizationError(
            "There are no calibration samples to read again.",
            cause="The dataset is empty, or is not at hand any more.",
            remedy="Give the dataset, or choose the algorithm 'normal'.",
        )
    tables = {name: np.stack(rows) for name, rows in gathered.items()}
    return Statistics(
        tensors={
            name: ChannelStatistics(t[:, 0], t[:, 1], t[:, 2], t[:, 3], positions[name])
            for name, t in tables.items()
        },
        values={name: np.concatenate(parts) for name, parts in values.items()},
        moments=moments,
        samples=came,
    )


def observe_tails(
    runs: StatisticsRunner,
    upper: Mapping[str, np.ndarray],
    lower: Mapping[str, np.ndarray],
    feeds: Feeds,
    samples: int,
    reporter: Reporter,
    logits: Logits,
) -> tuple[dict[str, TailStats], dict[str, TailStats]]:
    """The second pass: what lies above ``upper`` and below ``-lower``, tensor -> (channels,).

    ``logits`` gets its tensors of every sample.
    """
    ends: list[tuple[int, Mapping[str, np.ndarray], Rows]] = [(1, upper, {}), (-1, lower, {})]
    for _, _, needed in runs.over(feeds, samples, "ranges", reporter):
        for name, array in needed.items():
            logits.visit(name, array)
            for sign, thresholds, rows in ends:
                if name in thresholds:
                    flat = _by_channel(array, thresholds[name].size)
                    rows.setdefault(name, []).append(_excess(flat, thresholds[name], sign))
    above, below = (
        {
            name: TailStats(thresholds[name], *np.stack(parts).transpose(1, 0, 2))
            for name, parts in rows.items()
        }
        for _, thresholds, rows in ends
    )
    return above, below


def residual_terms(graph: Graph, plan: Plan) -> dict[str, tuple[str, str]]:
    """Term of an Add that a Relu follows -> (the clamped sum, the other term).

    How negative a term is does not matter where the sum is cut to 0 anyway: what its range has to
    hold is ``relu(a + b) - b``, which is never below a, and equal to it where the sum is not cut.
    Both terms may be limited so: where both are, the sum is still negative.
    """
    residuals: dict[str, tuple[str, str]] = {}
    for clamped, clamps in plan.clamps.items():
        first = graph.node(clamps[0].node).inputs[0]
        node = maker_of(first, "Add")
        if node is None or len(clamps) > 1 or clamps[0].low != 0:
            continue
        for term, other in (tuple(node.inputs), tuple(reversed(node.inputs))):
            if term is None or other is None or term.shape != other.shape:
                continue
            names = (term.name or "", other.name or "")
            alone = len(term.uses()) == 1 and not term.is_graph_output()
            if alone and all(n in plan.tensors and n not in plan.sources for n in names):
                residuals[names[0]] = (clamped, names[1])
    return residuals


def _excess(flat: np.ndarray, threshold: np.ndarray, sign: int) -> np.ndarray:
    """(3, channels): the peak, and the means of the excess and of its square.

    Half of the channels stay below their threshold on a sample: of them nothing but that is needed.
    """
    limit = threshold.astype(np.float32)
    if sign > 0:
        edge = flat.max(axis=1, initial=-np.inf) - limit
    else:
        edge = -flat.min(axis=1, initial=np.inf) - limit
    positions = max(flat.shape[1], 1)
    excess = np.zeros((3, len(flat)), np.float32)
    excess[0] = edge + limit
    over = np.flatnonzero(edge > 0)
    step = max(_BLOCK // positions, 1)
    for start in range(0, len(over), step):
        rows = over[start : start + step]
        own = limit[rows, None]
        beyond = flat[rows] - own if sign > 0 else -own - flat[rows]
        np.maximum(beyond, 0, out=beyond)
        excess[1, rows] = beyond.sum(axis=1)
        excess[2, rows] = np.einsum("cp,cp->c", beyond, beyond)
    excess[1:] /= positions
    return excess.astype(np.float64)


def _by_channel(array: np.ndarray, channels: int | None) -> np.ndarray:
    """(channels, positions) of an array with channels on axis 1; one channel where None."""
    if channels is None or array.ndim < 2 or array.shape[1] != channels:
        return array.reshape(1, -1)
    if array.shape[0] == 1:
        return array.reshape(channels, -1)
    return np.moveaxis(array, 1, 0).reshape(channels, -1)


class StatisticsRunner:
    """Runs the float graph in parts and gives some of its tensors.

    Args:
        graph: the float graph.
        names: of the tensors; graph inputs among them are handed out as they come in.
        sums: of :func:`residual_terms`.
    """

    def __init__(
        self, graph: Graph, names: Sequence[str], sums: Mapping[str, tuple[str, str]]
    ) -> None:
        inputs = {spec.name for spec in graph.inputs}
        self.graph = graph
        self._inputs = [name for name in names if name in inputs]
        self._names = {name for name in names if name not in inputs}
        self._run = PartedRun(graph, [name for name in names if name not in inputs])
        # what a graph input takes part in is judged by itself
        self._sums = {
            term: pair for term, pair in sums.items() if self._names.issuperset((term, *pair))
        }

    def over(
        self, feeds: Feeds, total: int, phase: str, reporter: Reporter
    ) -> Iterator[tuple[int, Mapping[str, np.ndarray], Mapping[str, np.ndarray]]]:
        """Number of the sample, some of the tensors, and what is needed of tensors.

        The latter are the same, but for terms of clamped sums, which come with the sum. At most
        ``total`` samples.
        """
        for index, feed in enumerate(feeds()):
            if index >= total:
                break
            reporter.check_cancelled()
            if self._inputs:
                fed = {name: np.asarray(feed[name]) for name in self._inputs}
                yield index, fed, fed
            terms = _Terms(self._sums)
            for arrays in self._run.run(feed):
                observed = {name: array for name, array in arrays.items() if name in self._names}
                yield index, observed, terms.take(observed)
            reporter.emit(Progress(phase, index + 1, total))


class _Terms:
    """Of one sample the terms of clamped sums, until the sum is there."""

    def __init__(self, sums: Mapping[str, tuple[str, str]]) -> None:
        self._sums = sums
        self._partners = {name for pair in sums.values() for name in pair} | set(sums)
        self._kept: dict[str, np.ndarray] = {}
        self._open = dict(sums)

    def take(self, found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The tensors with what is needed in the place of terms."""
        self._kept |= {name: array for name, array in found.items() if name in self._partners}
        needed = {name: array for name, array in found.items() if name not in self._sums}
        for term, (clamped, other) in list(self._open.items()):
            if all(name in self._kept for name in (term, clamped, other)):
                needed[term] = self._kept[clamped] - self._kept[other]
                del self._open[term]
        left = {name for term, pair in self._open.items() for name in (term, *pair)}
        self._kept = {name: array for name, array in self._kept.items() if name in left}
        return needed
