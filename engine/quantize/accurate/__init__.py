"""Our own algorithm ``accurate``: ranges judged by the error of what follows.

The recipe, each step in a module of its own: statistics of every channel (:mod:`statistics`,
:mod:`moments`, :mod:`copies`), ranges with headroom by cross-validation (:mod:`headroom`), channels
equalized by activation ranges (:mod:`channels`, :mod:`equalize`), the range before a Softmax
(:mod:`softmax`), weights with error feedback and biases corrected (:mod:`rounding`), and a choice
on samples held out (:mod:`choose`). What comes out is plain w8a8.
"""

from __future__ import annotations

from engine.base.errors import QuantizationError
from engine.base.events import Reporter
from engine.graph.ir import Graph
from engine.quantize.accurate.assemble import assemble
from engine.quantize.accurate.choose import choose
from engine.quantize.accurate.gather import Feeds, gather
from engine.quantize.observe import Observations
from engine.quantize.plan import Plan
from engine.quantize.prepared import Prepared
from engine.quantize.settings import QuantizeSettings

__all__ = ["prepare"]


def prepare(
    graph: Graph,
    plan: Plan,
    observations: Observations,
    settings: QuantizeSettings,
    feeds: Feeds | None,
    reporter: Reporter,
) -> Prepared:
    """Quantize by ``accurate``.

    Args:
        graph: the float graph.
        plan: of this graph.
        observations: of the same graph; only their number of samples is used, as ranges of whole
            tensors are too little for channels.
        settings: granularity and ranges set by hand.
        feeds: gives the calibration samples anew; they are read up to five times.
        reporter: gets progress, and may cancel.

    Raises:
        QuantizationError: without ``feeds``, or a tensor is not finite.
        SimulationError: the graph does not run.
    """
    if feeds is None:
        raise QuantizationError(
            "The algorithm 'accurate' reads the calibration samples again.",
            cause="It was given observations without the samples.",
            remedy="Give the dataset, or choose the algorithm 'normal'.",
        )
    material = gather(graph, plan, settings, feeds, observations.samples, reporter)
    choice = choose(material, feeds, reporter)
    return assemble(material, choice, range(observations.samples))
