"""Rounding sensitivity: how far outputs move when roundings at an edge go the other way.

A quantized graph is run in the reference arithmetic, and again with other roundings: by the integer
kernels, with halves rounded up, and with every tensor shaken by a thousandth of a step before it is
rounded. None of these is wrong. What lies between them no simulator can promise, and no board's
difference that is no larger says anything. The formula is in docs/accuracy.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from engine.base.errors import SimulationError, UsageError
from engine.base.events import LogLine, NullReporter, Progress, Reporter
from engine.base.text import sanitize
from engine.graph.execute import Session
from engine.graph.execute.lower import OFFSET
from engine.graph.execute.reference_form import reference_form
from engine.graph.metrics import ErrorSums, error_sums, power
from engine.quantize import vendor_form
from engine.simulate.edges import EDGE, Shaken, halves_up
from engine.wire.accuracy import RoundedLayer, RoundedOutput, RoundingSensitivity

if TYPE_CHECKING:
    from engine.graph.ir import Graph, QuantParams
    from engine.graph.layers import LayerMap, StoredTensor
    from engine.quantize import Quantized

SEEDS = 2
"""Runs with shaken tensors."""
MOST_SAMPLES = 2
"""Samples at most: each is run once in every way."""
WITHIN = 3.0
"""In dB: two runs that round otherwise are further from each other than each from the reference,
whose movements add up: twice the power."""
_LAST_BITS = 1e-6
"""Of an output's largest value: floats that are nearer count as equal."""
_MOST_VALUES = 96 << 20
"""Integers of layers that are held twice at a time; of a larger graph every n-th layer is told."""


def rounding_sensitivity(
    graph: Graph,
    layers: LayerMap,
    samples: Iterable[Mapping[str, np.ndarray]],
    *,
    golden: Graph | None = None,
    inner: bool = True,
    reporter: Reporter | None = None,
) -> RoundingSensitivity:
    """Measure how far a quantized graph moves.

    Args:
        graph: with Q/DQ pairs.
        layers: of it.
        samples: feeds; at most ``MOST_SAMPLES`` of them are taken.
        golden: its float graph, for the SQNR of the quantization.
        inner: whether layers are told too; without, outputs alone.
        reporter: told of the progress, asked whether to stop.

    Raises:
        UsageError: no sample.
        SimulationError: a graph does not run.
    """
    reporter = reporter or NullReporter()
    begun = time.perf_counter()
    feeds = list(islice(samples, MOST_SAMPLES))
    if not feeds:
        raise UsageError("There is no sample to run.", remedy="Give the inputs of one sample.")
    form = reference_form(vendor_form(graph), names=True)
    stored = _stored(layers, form) if inner else {}
    sides = _Sides(graph, layers, stored, golden)
    ways = ["integer", "halves up", *(f"edge {seed}" for seed in range(1, SEEDS + 1))]
    held: list[dict[str, np.ndarray]] = []
    done = 0

    def compare(way: str, runs: Iterator[dict[str, np.ndarray]]) -> None:
        nonlocal done
        for sample, (values, results) in enumerate(zip(held, runs, strict=True)):
            reporter.check_cancelled()
            sides.add(way, sample, values, results)
        done += 1
        reporter.emit(Progress("rounding", done, len(ways), way))

    shaken = Shaken(form)
    session = Session(shaken.graph, outputs=sides.tensors, reference=True)
    held += [session.run({**feed, **shaken.still}) for feed in feeds]
    sides.lose(held, feeds)
    for seed in range(1, SEEDS + 1):
        numbers = shaken.numbers(seed)
        compare(f"edge {seed}", (session.run({**feed, **numbers}) for feed in feeds))
    for way, other in (("halves up", halves_up(form)), ("integer", graph)):
        reference = other is not graph
        session = Session(other, outputs=sides.tensors, reference=reference)
        compare(way, map(session.run, feeds))
    return RoundingSensitivity(
        outputs=tuple(sides.outputs()),
        layers=tuple(sides.layers()),
        runs=tuple(ways),
        samples=len(feeds),
        edge=EDGE,
        seconds=round(time.perf_counter() - begun, 3),
    )


def rounding_where_it_runs(
    build: Quantized, samples: Iterable[Mapping[str, np.ndarray]], reporter: Reporter
) -> RoundingSensitivity | None:
    """The rounding sensitivity of a build beside another analysis, which does not fail with it.

    Returns:
        None where a form of the graph does not run; the reporter is told why.
    """
    try:
        return rounding_sensitivity(
            build.graph, build.layers, samples, golden=build.reference, reporter=reporter
        )
    except SimulationError as error:
        message = f"The rounding sensitivity cannot be measured: {error.what}"
        reporter.emit(LogLine(message, "warning"))
        return None


def judgement(
    output: str, between: float | None, rounding: float | None, *, fused: bool = False
) -> str:
    """Whether an output of a board is further from the simulator than other roundings move it.

    Args:
        output: its name.
        between: board against simulator, both from the model's inputs on, in dB; None: equal.
        rounding: the rounding sensitivity of the output in dB; None: it does not move.
        fused: whether the board's model may lack roundings that the compiler leaves out.
    """
    name = sanitize(output, 120)
    if between is None:
        return f"{name}: board and simulator are equal."
    more = "That is more than rounding explains"
    if fused:
        more += ", unless by the roundings that the compiler leaves out at level 3"
    gap = f"{name}: the board is {_percent(between)} from the simulator, end to end"
    if rounding is None:
        return f"{gap}; no other rounding moves it. {more}."
    moved = f"other roundings alone move it by {_percent(rounding)}"
    if between >= rounding - WITHIN:
        return f"{gap}; {moved}. That is no more than rounding."
    return f"{gap}; {moved}. {more}."


def _percent(decibels: float) -> str:
    return f"{10 ** (2 - decibels / 20):.2g} % ({decibels:.1f} dB)"


def _stored(layers: LayerMap, form: Graph) -> dict[str, StoredTensor]:
    """Layer id -> where its result lies, as many as may be held, spread evenly."""
    stored: dict[str, StoredTensor] = {}
    for layer in layers.layers:
        one = layers.stored.get(layer.outputs[0]) if layer.outputs else None
        if one is not None and one.stored in form.values and one.value in form.values:
            stored[layer.id] = one
    total = sum(form.spec(one.stored).size or 0 for one in stored.values())
    every = max(1, -(-total // _MOST_VALUES))
    return {name: stored[name] for name in list(stored)[::every]}


def _signal(integers: np.ndarray, params: QuantParams) -> float:
    """Power of integers less their zero point; the reference form has int8 as uint8."""
    zero = int(params.zero_point[0])
    if integers.dtype != np.uint8:
        return power(integers.astype(np.float32) - np.float32(zero))
    zero += OFFSET if params.dtype == "int8" else 0
    counts = np.bincount(integers.ravel(), minlength=256)  # exact, in a quarter of the time
    return float((counts * (np.arange(256) - zero) ** 2).sum())


@dataclass
class _Movement:
    """Of one tensor: sums for each way to round, and what counts its values."""

    sums: dict[str, ErrorSums] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)
    exact: bool = True
    greatest: float = 0.0
    kept: int = 0

    def add(self, way: str, one: np.ndarray, other: np.ndarray) -> None:
        """Take float values of one run beside those of the reference."""
        # what is stored in floats differs in last bits all the same
        near = _LAST_BITS * float(np.abs(one[np.isfinite(one)]).max(initial=0.0))
        changed = (one != other) if self.exact else ~np.isclose(one, other, rtol=0.0, atol=near)
        apart = np.abs(one[changed].astype(np.float64) - other[changed])
        self._note(way, error_sums(one, other)[0], np.nan_to_num(apart), one.size)
        self.kept += int(np.argmax(one) == np.argmax(other)) if one.size else 1

    def add_integers(self, way: str, one: np.ndarray, other: np.ndarray, signal: float) -> None:
        """Take integers; most are equal, and ``signal`` is known: only the others are looked at."""
        changed = np.flatnonzero(one.ravel() != other.ravel())
        apart = np.abs(one.ravel()[changed].astype(np.float64) - other.ravel()[changed])
        noise = float(np.square(apart).sum())
        self._note(way, ErrorSums(signal, noise, signal, 1), apart, one.size)

    def _note(self, way: str, sums: ErrorSums, apart: np.ndarray, count: int) -> None:
        self.sums[way] = self.sums.get(way, ErrorSums()) + sums
        self.moved[way] = self.moved.get(way, 0) + apart.size
        self.count[way] = self.count.get(way, 0) + count
        self.greatest = max(self.greatest, float(apart.max(initial=0.0)))

    @property
    def least(self) -> float | None:
        """In dB, of the run in which it moves most; None where it moves in none."""
        figures = [sums.sqnr for sums in self.sums.values()]
        return min((value for value in figures if value is not None), default=None)

    @property
    def share(self) -> float:
        """Of the values that change, in the run in which most do."""
        return max((self.moved[way] / max(1, self.count[way]) for way in self.moved), default=0.0)


class _Sides:
    """What is compared, and the sums so far."""

    def __init__(
        self,
        graph: Graph,
        layers: LayerMap,
        stored: Mapping[str, StoredTensor],
        golden: Graph | None,
    ) -> None:
        self._graph, self._layers, self._stored, self._golden = graph, layers, stored, golden
        ids = {node: layer.id for layer in layers.layers for node in layer.nodes}
        self._nodes: dict[str, list[ir.Node]] = {}
        for node in graph.nodes:
            if node.name in ids:
                self._nodes.setdefault(ids[node.name], []).append(node)
        self._own = [spec.name for spec in graph.outputs if spec.dtype.startswith("float")]
        # integers are what a tensor is stored in; of half precision the values are read
        self._names = {
            name: one.value if one.dtype.startswith("float") else one.stored
            for name, one in stored.items()
        }
        self.tensors = list(dict.fromkeys([*self._names.values()]))
        self._outputs = {name: _Movement(exact=self._step(name) is not None) for name in self._own}
        self._inner = {name: _Movement() for name in stored}
        self._lost = dict.fromkeys(self._own, ErrorSums())
        self._signals: dict[tuple[str, int], float] = {}
        self._written = {
            tensor: name
            for name, one in stored.items()
            for tensor in (one.tensor, one.computed, one.value)
        }

    def lose(
        self,
        held: Sequence[Mapping[str, np.ndarray]],
        feeds: Sequence[Mapping[str, np.ndarray]],
    ) -> None:
        """What the quantization costs: the results beside those of the float graph."""
        if self._golden is None:
            return
        session = Session(self._golden)
        for feed, values in zip(feeds, held, strict=True):
            exact = session.run(feed, self._own)
            for name in self._own:
                self._lost[name] += error_sums(exact[name], values[name])[0]

    def add(
        self,
        way: str,
        sample: int,
        values: Mapping[str, np.ndarray],
        others: Mapping[str, np.ndarray],
    ) -> None:
        """One sample in one way."""
        for name, movement in self._outputs.items():
            movement.add(way, values[name], others[name])
        for name, movement in self._inner.items():
            tensor, params = self._names[name], self._stored[name].params
            one, other = values[tensor], others[tensor]
            if params is None or params.is_float:
                movement.add(way, one, other)
                continue
            if (name, sample) not in self._signals:
                self._signals[name, sample] = _signal(one, params)
            if one.dtype != other.dtype:  # int8 of the graph beside uint8 of the reference form
                other = other.view(np.uint8) ^ np.uint8(OFFSET)
            movement.add_integers(way, one, other, self._signals[name, sample])

    def _step(self, output: str) -> float | None:
        """The step of an output; None where it is not quantized."""
        stored = self._layers.stored.get(output)
        params = None if stored is None else stored.params
        return None if params is None or params.is_float else float(params.scale[0])

    def outputs(self) -> Iterator[RoundedOutput]:
        """The figures of the outputs."""
        for name, movement in self._outputs.items():
            least = movement.least
            integer = movement.sums.get("integer", ErrorSums())
            step = self._step(name)
            dims = [size for size in self._graph.spec(name).shape if size != 1]
            yield RoundedOutput(
                name=name,
                rounding_db=least,
                quantization_db=None if self._golden is None else self._lost[name].sqnr,
                arithmetic_db=integer.sqnr,
                relative=0.0 if least is None else 10 ** (-least / 20),
                moved=movement.share,
                steps=None if step is None else round(movement.greatest / step, 3),
                kept_top=movement.kept if len(dims) == 1 else None,
            )

    def layers(self) -> Iterator[RoundedLayer]:
        """The figures of the layers, in the order of the graph."""
        for name, movement in self._inner.items():
            one = self._stored[name]
            least = movement.least
            before = [
                value
                for source in self._read(name)
                if (value := self._inner[source].least) is not None
            ]
            amplified = None if least is None or not before else min(before) - least
            yield RoundedLayer(
                id=name,
                tensor=one.tensor,
                rounding_db=least,
                moved=movement.share,
                steps=None if one.dtype.startswith("float") else movement.greatest,
                amplified_db=amplified,
            )

    def _read(self, name: str) -> Iterator[str]:
        """Layers whose results a layer reads, as far as they are looked at."""
        for node in self._nodes.get(name, ()):
            for value in node.inputs:
                source = None if value is None else self._written.get(value.name or "")
                if source is not None and source != name:
                    yield source
