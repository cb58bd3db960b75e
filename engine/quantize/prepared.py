"""What an algorithm of its own hands over: everything that the QDQ form is written from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.graph.ir import Graph, QuantParams
from engine.quantize.calibration.observations import Observations
from engine.quantize.planning.plan import Plan
from engine.quantize.settings import QuantizeSettings
from engine.quantize.weights import LayerWeights

Feeds = Callable[[], Iterable[Mapping[str, np.ndarray]]]
"""Gives the calibration samples anew: input -> array, as the graph takes it."""


@dataclass(frozen=True)
class Prepared:
    """A float graph, ready to be written with Q/DQ nodes.

    Attributes:
        graph: the float graph. Its outputs compute what those of the given graph do; inner tensors
            may be scaled.
        plan: of this graph.
        activations: parameters of all tensors and constants of the plan.
        weights: node name -> its quantized constants, of every weighted node of the plan.
        findings: what the user should know.
    """

    graph: Graph
    plan: Plan
    activations: Mapping[str, QuantParams]
    weights: Mapping[str, LayerWeights]
    findings: tuple[Finding, ...] = ()


class Prepare(Protocol):
    """An algorithm."""

    def __call__(
        self,
        graph: Graph,
        plan: Plan,
        observations: Observations,
        settings: QuantizeSettings,
        feeds: Feeds | None,
        reporter: Reporter,
        /,
    ) -> Prepared:
        """Quantize a graph.

        Args:
            graph: the float graph.
            plan: of this graph.
            observations: of this graph.
            settings: granularity, bias correction, ranges set by hand.
            feeds: gives the calibration samples anew; an algorithm that reads them says what it
                leaves out without.
            reporter: gets log lines and progress, and may cancel.

        Raises:
            QuantizationError: the observations belong to another graph; samples that are needed are
                missing or do not run.
        """
