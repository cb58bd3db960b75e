"""A build as something that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from engine.base.findings import Finding
from engine.graph.execute import Session
from engine.graph.ir import Graph, TensorSpec
from engine.graph.layers import LayerMap
from engine.quantize import is_quantized_source, layers_of, to_float16
from engine.simulate.exactness import inexact_notes
from engine.simulate.fp16 import find_overflow
from engine.simulate.selfcheck import check_saturation

__all__ = ["Simulator"]

FLOAT_NOTE = Finding(
    code="simulated-in-float32",
    severity="info",
    where="simulator",
    what="The build is not quantized: it is simulated in float32.",
    cause="An NPU would compute in float16, which is simulated where float_dtype asks for it.",
    remedy="Set float_dtype to float16, or expect small differences on a board.",
)

HALF_NOTE = Finding(
    code="simulated-in-float16",
    severity="info",
    where="simulator",
    what="The build is not quantized: weights and tensors are rounded to float16, as on the NPU.",
    cause="Layers sum in float32 here; the width of the NPU's sums is not documented.",
)

OWN_NOTE = Finding(
    code="source-quantization-simulated",
    severity="info",
    where="simulator",
    what="The quantization of the model is simulated; nothing was quantized here.",
    cause="It was quantized, or trained with quantization, by the tool that wrote it.",
)


class Simulator:
    """Runs a build here: simulated results of the quantized graph.

    Sessions are opened at first use and reused. All results are float32 (or the graph's own types
    for integer outputs); quantized tensors come dequantized.

    Args:
        float_graph: the optimised float graph.
        qdq_graph: its quantized form; None for a build without quantization, whose simulated
            results are those of the float graph (see :attr:`findings`).
        threads: of ONNX Runtime.
        outputs: inner tensors that will be asked for, so that one session can give them all.
        float_dtype: of a build without quantization: ``float16`` rounds as a chip does, None
            computes in float32.
        layers: of ``qdq_graph``; read from it when None.
    """

    def __init__(
        self,
        float_graph: Graph,
        qdq_graph: Graph | None = None,
        threads: int = 1,
        *,
        outputs: Sequence[str] = (),
        float_dtype: str | None = None,
        layers: LayerMap | None = None,
    ) -> None:
        self._float_graph = float_graph
        self._quantized = qdq_graph is not None
        self._half = float_dtype == "float16" and not self._quantized
        self._qdq_graph = qdq_graph
        self._layers = layers
        self._overflow: Finding | None = None
        self._unchecked = True
        self._threads = threads
        self._inner = tuple(outputs)

    @cached_property
    def _graph(self) -> Graph:
        """What runs; made when it is asked for, as a build asks for the notes alone."""
        if self._qdq_graph is not None:
            return self._qdq_graph
        if not self._half:
            return self._float_graph
        done = to_float16(self._float_graph)
        self._layers = done.layers
        return done.graph

    @property
    def quantized(self) -> bool:
        """Whether :meth:`run` computes in integers."""
        return self._quantized

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The graph's inputs."""
        return self._graph.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The graph's outputs."""
        return self._graph.outputs

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self._graph.outputs)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What limits the simulation on this machine, and what its first sample showed."""
        return self._limits if self._overflow is None else (*self._limits, self._overflow)

    @cached_property
    def _limits(self) -> tuple[Finding, ...]:
        if not self._quantized:
            if is_quantized_source(self._float_graph):
                return (OWN_NOTE,)
            return (HALF_NOTE,) if self._half else (FLOAT_NOTE,)
        found = [] if (saturation := check_saturation()) is None else [saturation]
        return (*found, *inexact_notes(self._graph))

    @cached_property
    def _session(self) -> Session:
        return Session(self._graph, outputs=self._inner, threads=self._threads)

    def run(
        self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None
    ) -> dict[str, np.ndarray]:
        """Simulated results.

        Args:
            feeds: an array for every input, of its shape and dtype.
            outputs: tensors to give, any of the graph; the graph's outputs when None.

        Returns:
            tensor name -> array. A quantized tensor is given as the next layer sees it,
            dequantized to float32.

        Raises:
            UsageError: feeds that do not fit the inputs.
            GraphError: a name in ``outputs`` that the graph does not have.
            SimulationError: ONNX Runtime failed.
        """
        results = self._session.run(feeds, self._asked(outputs))
        if self._unchecked:
            self._unchecked = False
            layers = self._layers or layers_of(self._graph)
            self._overflow = find_overflow(self._graph, layers, self._float_graph, feeds)
        return results

    def _asked(self, outputs: Sequence[str] | None) -> Sequence[str]:
        return self._names if outputs is None else outputs
