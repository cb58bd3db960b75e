"""Calibration: one pass over the samples that tells all that the algorithms want to know.

The float graph runs sample by sample, in parts; its tensors are reduced in numpy. What is kept does
not grow with the number of samples: the range and a histogram of every tensor
(:mod:`engine.quantize.calibration.histograms`), the mean input of every weighted layer
(:mod:`engine.quantize.calibration.input_means`). A calibration that was stopped goes on from what
it had seen, with the same result to the last bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sized
from itertools import islice

import numpy as np

from engine.base.errors import QuantizationError
from engine.base.events import NullReporter, Progress, Reporter
from engine.base.text import sanitize
from engine.graph.execute import release_pool
from engine.graph.ir import Graph
from engine.graph.ir.spec import array_of, name_of
from engine.quantize.calibration.histograms import HistogramBuilder
from engine.quantize.calibration.input_means import BLOCK, InputSum, Sums, input_sums
from engine.quantize.calibration.observations import Observation, Observations
from engine.quantize.calibration.observer import ActivationObserver, SampleStats
from engine.quantize.planning.node_properties import LAYOUT, WEIGHTED
from engine.quantize.planning.plan import Plan, is_quantized_source, plan

Visit = Callable[[str, np.ndarray, int], None]

# Values that wait for their histograms: counting those of several samples at once takes a third of
# the time, as every count goes through a table of 14,000 bins that is in no cache any more.
_WAITING_BYTES = 24 << 20


def sample_limit(batch_size: int, epochs: int) -> int | None:
    """How many samples generation 1's options ask for; None for all of them.

    ``epochs`` batches of ``batch_size`` samples; -1 epochs are as many as the dataset has. Samples
    are read one by one whatever the batch: ranges and means do not depend on it.

    Raises:
        QuantizationError: a batch of no samples, or 0 epochs.
    """
    if batch_size < 1 or epochs == 0 or epochs < -1:
        raise QuantizationError(
            f"batch_size {batch_size} and epochs {epochs} leave nothing to calibrate with.",
            cause="batch_size counts samples, epochs counts batches; -1 epochs mean all samples.",
            remedy="Leave both as they are (100 and -1), or give positive numbers.",
        )
    return None if epochs == -1 else batch_size * epochs


def calibrate(
    graph: Graph,
    feeds: Iterable[Mapping[str, np.ndarray]],
    *,
    reporter: Reporter | None = None,
    limit: int | None = None,
    resume: Observations | None = None,
    checkpoint: Callable[[Observations], None] | None = None,
    checkpoint_seconds: float = 10.0,
    visit: Visit | None = None,
    brief: bool = False,
) -> Observations:
    """Run the float graph over the samples and note what quantization needs to know.

    On one thread: more change the order of additions, thus the last bit of a range.

    Args:
        graph: the float graph; a graph that has Q/DQ nodes keeps them and needs no observations.
        feeds: one mapping of input name to array a sample; read one at a time and never kept.
        reporter: gets a ``Progress`` a sample, and may cancel.
        limit: read at most so many samples (:func:`sample_limit`).
        resume: what an earlier run over the same graph and samples gave to ``checkpoint``; the
            samples that it counted are passed over.
        checkpoint: gets the observations so far, every eight samples or less often.
        checkpoint_seconds: at least so far apart.
        visit: gets the inputs of weighted layers (name, array, number of the sample), and must not
            keep them.
        brief: keep neither peaks of channels nor mean inputs of layers.

    Raises:
        QuantizationError: there are no samples, a weight or a bias is not finite (names it and its
            layer), a tensor takes a value that is not finite (names the tensor and the sample), or
            ``resume`` belongs to another graph.
        SimulationError: the graph does not run, or a sample does not fit its inputs.
    """
    reporter = reporter or NullReporter()
    chosen = Plan() if is_quantized_source(graph) else plan(graph)
    _check_constants(graph)
    tally = _Accumulator(graph, chosen, visit, brief=brief)
    if resume is not None:
        tally.resume(resume)
    total = len(feeds) if isinstance(feeds, Sized) else 0
    if limit is not None:
        total = min(total or limit, limit)
    written = time.monotonic()
    for feed in islice(feeds, tally.samples, limit):
        reporter.check_cancelled()
        tally.add(feed)
        reporter.emit(Progress("calibrate", tally.samples, total))
        due = time.monotonic() - written >= checkpoint_seconds
        if checkpoint is not None and due and tally.samples % BLOCK == 0:
            checkpoint(tally.observations())
            written = time.monotonic()
    if tally.samples == 0:
        raise QuantizationError(
            "There are no calibration samples.",
            cause="The dataset is empty.",
            remedy="Give a dataset with at least one sample; 20 to 200 are usual.",
        )
    seen = tally.observations()
    del tally  # its sessions' memory is for the stages after this one
    release_pool()
    return seen


def _check_constants(graph: Graph) -> None:
    """Refuse weights and biases that no integer can stand for.

    Raises:
        QuantizationError: one holds NaN or infinity; names the tensor and its layer.
    """
    for node in graph.nodes:
        if node.op_type not in WEIGHTED:
            continue
        for value in node.inputs[1:]:
            array = array_of(value)
            if value is None or array is None or np.isfinite(array).all():
                continue
            bad = int(array.size - np.isfinite(array).sum())
            kind = "not a number (NaN)" if np.isnan(array).any() else "infinite"
            layer, name = (sanitize(text or "", 120) for text in (node.name, value.name))
            raise QuantizationError(
                f"The weights {name!r} of layer {layer!r} hold {bad} values that are {kind}.",
                cause="The training diverged, or the file is damaged.",
                remedy="Export the model again from a checkpoint whose weights are finite.",
            )


class _Accumulator:
    """Accumulates all statistics; they go to :class:`Observations` and come back from there
    unchanged.
    """

    def __init__(self, graph: Graph, plan: Plan, visit: Visit | None, *, brief: bool) -> None:
        self._visit = visit
        self._brief = brief
        self._sources = _copied_from(graph, plan)
        watched = [name for name, source in self._sources.items() if name == source]
        self._readers: dict[InputSum, list[str]] = {}
        for node, input_sum in input_sums(graph, plan).items():
            self._readers.setdefault(input_sum, []).append(node)
        self._watch = ActivationObserver(graph, watched, list(self._readers), brief)
        self._tensors = {name: _TensorAccumulator() for name in watched}
        self._sums = Sums(self._readers)
        self._waiting = 0
        self.samples = 0

    def resume(self, seen: Observations) -> None:
        """Take over what an earlier run saw.

        Raises:
            QuantizationError: it belongs to another graph.
        """
        summed = {node for nodes in self._readers.values() for node in nodes}
        if list(seen.tensors) != list(self._sources) or set(seen.inputs) != summed:
            raise QuantizationError(
                "The calibration cannot continue: what it recorded belongs to another graph.",
                cause="The model or its optimization changed since.",
                remedy="Calibrate from the start.",
            )
        self.samples = seen.samples
        for name, growing in self._tensors.items():
            growing.resume(seen[name])
        for input_sum, nodes in self._readers.items():
            self._sums.add(input_sum, seen.inputs[nodes[0]])

    def add(self, feed: Mapping[str, np.ndarray]) -> None:
        """Take one more sample; raises as :func:`calibrate`."""
        for name, seen in self._watch.run(feed, self.samples):
            if name in self._tensors:
                self._tensors[name].add(seen)
                self._waiting += seen.values.nbytes
            if seen.array is not None:
                if not self._brief:
                    self._sums.add_input(name, seen.array)
                if self._visit is not None:
                    self._visit(name, seen.array, self.samples)
        self.samples += 1
        if self._waiting > _WAITING_BYTES:
            self._count()
        if self.samples % BLOCK == 0:
            self._sums.flush()

    def _count(self) -> None:
        for growing in self._tensors.values():
            growing.count()
        self._waiting = 0

    def observations(self) -> Observations:
        """What was seen so far, frozen; later samples must not follow a part of a block."""
        self._sums.flush()
        self._count()
        observed = {name: growing.observation() for name, growing in self._tensors.items()}
        tensors = {name: observed[source] for name, source in self._sources.items()}
        # in the order of the graph, also where a run went on from another's
        means = {
            node: self._sums.means[input_sum]
            for input_sum, nodes in self._readers.items()
            if input_sum in self._sums.means
            for node in nodes
        }
        return Observations(self.samples, tensors, means)


def _copied_from(graph: Graph, plan: Plan) -> dict[str, str]:
    """Tensor of the plan -> the one of them, maybe itself, that holds the same values first."""
    copies, sources = _layout_outputs(graph), dict[str, str]()
    for name in plan.tensors:
        sources[name] = sources.get(copies.get(name, ""), name)
    return sources


class _TensorAccumulator:
    """Accumulates the statistics of one tensor over the samples."""

    def __init__(self) -> None:
        self._low, self._high = np.inf, -np.inf
        self._histogram = HistogramBuilder()
        self._waiting: list[np.ndarray] = []
        self._peaks: np.ndarray | None = None
        self._channels = True

    def resume(self, seen: Observation) -> None:
        self._low, self._high = seen.minimum, seen.maximum
        self._histogram = HistogramBuilder(seen.histogram)
        self._peaks = None if seen.peaks is None else np.array(seen.peaks, np.float32)
        self._channels = seen.peaks is not None

    def add(self, seen: SampleStats) -> None:
        low, high = float(seen.low.min()), float(seen.high.max())
        self._low, self._high = min(self._low, low), max(self._high, high)
        self._waiting.append(np.array(seen.values).reshape(-1))  # not a view of the tensor
        if not self._channels:
            return
        peaks = np.maximum(np.abs(seen.low), np.abs(seen.high))
        if self._peaks is None:
            self._peaks = peaks
        elif self._peaks.shape == peaks.shape:
            np.maximum(self._peaks, peaks, out=self._peaks)
        else:  # their number depends on the sample: no channels
            self._channels = False

    def count(self) -> None:
        """Add what waits to the histogram."""
        if self._waiting:
            self._histogram.add(np.concatenate(self._waiting), positive=self._low >= 0.0)
            self._waiting.clear()

    def observation(self) -> Observation:
        """What was seen so far, all of it counted."""
        peaks = self._peaks if self._channels else None
        return Observation(
            self._low,
            self._high,
            self._histogram.histogram(),
            None if peaks is None else tuple(peaks.tolist()),
        )


def _layout_outputs(graph: Graph) -> dict[str, str]:
    """Output of a node that keeps every value -> its input (for ranges that need no watching)."""
    return {
        name_of(node.outputs[0]): name_of(node.inputs[0])
        for node in graph.nodes
        if node.op_type in LAYOUT and node.inputs
    }
