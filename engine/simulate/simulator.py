"""A build as something that runs, in which arithmetic, and how exact that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from engine.base.findings import Finding
from engine.graph.execute import Session, is_quantized
from engine.graph.ir import Graph, TensorSpec
from engine.graph.layers import ADDED, LayerMap
from engine.quantize import is_quantized_source, layers_of, to_float16, vendor_form
from engine.quantize.checks import overflow_finding
from engine.quantize.dtypes.formats import SCHEMES, Scheme
from engine.simulate.selfcheck import check_saturation
from engine.wire.names import NOT_EXACT, NOT_EXACT_CODE, Arithmetic

# How exact a simulation is: which formats run in float kernels, and how far from the reference.

_SIXTEEN = ("int16", "uint16")


def inexact_notes(graph: Graph) -> tuple[Finding, ...]:
    """A finding for every kind of tensor that float kernels compute in a QDQ graph.

    The figures are those of :data:`engine.quantize.dtypes.formats.SCHEMES`: the largest of any
    dtype with tensors of that kind.
    """
    wide = any(
        node.op_type == "QuantizeLinear" and _dtype(graph, node.inputs[2:3]) in _SIXTEEN
        for node in graph.nodes
    )
    half = any(node.op_type == "Cast" and ADDED in node.metadata_props for node in graph.nodes)
    kinds = (
        (wide, "16-bit integers", [s for s in SCHEMES.values() if s.activation.dtype == "int16"]),
        (half, "float16", [s for s in SCHEMES.values() if s.activation.is_float]),
    )
    return tuple(_note(kind, schemes) for present, kind, schemes in kinds if present)


def _dtype(graph: Graph, values: object) -> str:
    (value,) = values if isinstance(values, (tuple, list)) and values else (None,)
    array = None if value is None else graph.constant(value.name or "")
    return "" if array is None else str(array.dtype)


def _note(kind: str, schemes: list[Scheme]) -> Finding:
    steps = max(scheme.difference for scheme in schemes)
    share = max(scheme.share for scheme in schemes)
    return Finding(
        code=NOT_EXACT_CODE,
        severity="info",
        where="simulator",
        what=f"Tensors in {kind} are {NOT_EXACT}.",
        cause="ONNX Runtime has no such kernels: layers sum in float32. Against exact sums at most "
        f"{steps} step of difference was measured, on {share:.2%} of the values or less.",
    )


# Overflows of float16 in a simulated graph.


def find_overflow(
    graph: Graph, layers: LayerMap, reference: Graph, feeds: Mapping[str, np.ndarray]
) -> Finding | None:
    """The first tensor whose numbers half precision cannot hold on one sample.

    Args:
        graph: simulated, with roundings to half precision.
        layers: of it.
        reference: its float graph.
        feeds: an array for every input.

    Returns:
        A finding that names the layer; None where every number fits.
    """
    halves = {one.value: one.tensor for one in layers.stored.values() if one.dtype == "float16"}
    if not halves:
        return None
    values = Session(graph, outputs=tuple(halves)).run(feeds, tuple(halves))
    first = next((name for name in halves if np.isinf(values[name]).any()), None)
    if first is None:
        return None
    source = halves[first]
    largest = np.inf
    if source in reference.values:
        largest = float(np.abs(Session(reference).run(feeds, [source])[source]).max())
    return overflow_finding(layers.id_of(source), largest)


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
        findings = [] if (saturation := check_saturation()) is None else [saturation]
        return (*findings, *inexact_notes(self._graph))

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


# The two arithmetics of a quantized graph: integer kernels, and the float form.


def open_arithmetic(
    graph: Graph,
    arithmetic: Arithmetic = "integer",
    *,
    outputs: Sequence[str] | None = None,
    threads: int = 1,
) -> Session:
    """A session of a graph in one of its arithmetics.

    Both are right. ``integer`` sums integers exactly and rounds once, in fused kernels.
    ``reference`` computes each operator in float32 between dequantized tensors, in the form that is
    handed to the vendor's toolkit: its simulator has these numbers, bit by bit. They differ where a
    value lies on the edge between two integers (docs/accuracy.md).

    Args:
        graph: of a build; without Q/DQ pairs both are the float session.
        arithmetic: ``integer`` or ``reference``.
        outputs: inner tensors that runs give besides the graph's outputs.
        threads: of one operator.

    Raises:
        SimulationError: ONNX Runtime does not take the graph.
    """
    if arithmetic == "integer" or not is_quantized(graph):
        return Session(graph, outputs=outputs, threads=threads)
    return Session(vendor_form(graph), outputs=outputs, threads=threads, reference=True)
