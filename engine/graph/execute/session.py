"""A graph that runs in ONNX Runtime."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine.base.errors import ShortOfMemoryError, SimulationError, UsageError
from engine.base.text import did_you_mean, sanitize
from engine.graph.execute.custom import has_custom, require_compute
from engine.graph.execute.lower import is_quantized
from engine.graph.execute.observe import Fetch, add_outputs
from engine.graph.execute.reference_form import reference_form
from engine.graph.execute.runtime import (
    RUNTIME_ERRORS,
    WRONG_FUSIONS,
    cpu_session,
    ort,
    refuse_shortage,
    session_options,
)
from engine.graph.execute.segments import SegmentExecutor, SessionLike
from engine.graph.execute.session_setup import check_feeds, keep_sums_exact, share_pool
from engine.graph.execute.shared_weights import (
    RuntimeModel,
    duplicate_shared_weights,
    message_and_weights,
    prepare_for_ort,
)
from engine.graph.ir.graph import Graph
from engine.graph.ir.shapes import with_types
from engine.graph.ir.spec import TensorSpec

LEVELS: Mapping[str, ort.GraphOptimizationLevel] = {
    "disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

# Sessions kept for sets of inner tensors besides the plain one; each holds the weights once more.
_KEPT_PLANS = 2


@dataclass(frozen=True)
class _Plan:
    """A session of ONNX Runtime, or several in a row, how each tensor comes out of it, and the
    weights that the session reads.
    """

    session: SessionLike
    fetches: Mapping[str, Fetch]
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)


class Session:
    """A float or QDQ graph, loaded in ONNX Runtime on the CPU.

    The same graph, feeds and number of threads give the same results. A QDQ graph runs in the form
    that :func:`engine.graph.execute.lower_for_runtime` gives it; names, types and numbers stay
    those of the graph that was handed in. Fetching inner tensors of a QDQ graph changes neither its
    results nor its integer kernels; that of a float graph can keep ONNX Runtime from fusing
    operators, which changes last bits.

    A graph with custom operators runs in parts, with calls of their classes between them
    (:mod:`engine.graph.execute.segments`).

    Args:
        model: the graph, or the bytes of :meth:`Graph.to_bytes`.
        outputs: inner tensors that :meth:`run` gives besides the graph's outputs.
        threads: of one operator; operators run one after the other.
        optimised_model: where ONNX Runtime writes the graph that it really runs.
        level: ``disabled``, ``basic``, ``extended`` or ``all``.
        lower: whether int8 activations run as uint8.
        reference: whether a QDQ graph is computed in float, operator by operator, without any
            optimization of ONNX Runtime: the form that the vendor's simulator has
            (:mod:`engine.graph.execute.reference_form`). ``level`` and ``lower`` say nothing then.

    Raises:
        SimulationError: ONNX Runtime does not take the graph, or a custom operator of it has no
            compute; names the node.
        GraphError: ``outputs`` names what the graph does not have.
        UsageError: an unknown ``level`` or fewer than one thread.
    """

    def __init__(
        self,
        model: Graph | bytes,
        *,
        outputs: Sequence[str] | None = None,
        threads: int = 1,
        optimised_model: Path | None = None,
        level: str = "all",
        lower: bool = True,
        reference: bool = False,
    ) -> None:
        if level not in LEVELS:
            raise UsageError(
                f"There is no optimization level {level!r} of the runtime.",
                remedy=did_you_mean(level, LEVELS) or f"Levels: {', '.join(LEVELS)}.",
            )
        if threads < 1:
            raise UsageError(f"A session runs on at least one thread, not {threads}.")
        graph = Graph.from_bytes(model) if isinstance(model, bytes) else model
        self._custom = has_custom(graph)
        if self._custom:
            require_compute(graph)
        self._graph = with_types(graph)
        self._reference = reference
        form = prepare_for_ort(self._graph) if lower and not reference else None
        if reference:
            self._lowered = reference_form(self._graph, names=self._custom)
        else:
            self._lowered = duplicate_shared_weights(self._graph) if form is None else form.graph
        # bytes of a graph that runs as it is are not kept: they hold all float weights once more
        self._form: RuntimeModel | None = None if self._lowered is self._graph else form
        self._threads = threads
        self._level = "disabled" if reference else level
        self._plans: OrderedDict[frozenset[str], _Plan] = OrderedDict()
        own = [spec.name for spec in self._graph.outputs]
        self._names = own + [name for name in outputs or () if name not in own]
        self._plain = self._open(self._names, optimised_model)
        # what the session gives is what is asked for, as it is in most runs
        self._direct = all(fetch.is_identity(name) for name, fetch in self._plain.fetches.items())
        self._inputs = self._graph.inputs

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The graph's inputs."""
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What :meth:`run` gives by default: the graph's outputs, then the named inner tensors."""
        return tuple(self._graph.spec(name) for name in self._names)

    def run(
        self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None
    ) -> dict[str, np.ndarray]:
        """Run once.

        Args:
            feeds: an array for every input, of its shape and dtype.
            outputs: the tensors to give, any of the graph; a set of inner tensors that was not
                asked for before opens another session, the last two of which are kept.

        Returns:
            tensor name -> array, in the order asked for. Tensors of the same names as in the
            graph, with its dtypes; a float tensor of a QDQ graph that is quantized is given as
            the next layer sees it, quantized and dequantized.

        Raises:
            UsageError: feeds that do not fit the inputs.
            GraphError: an unknown name in ``outputs``.
            SimulationError: ONNX Runtime or a custom operator failed; names the node.
        """
        arrays = check_feeds(feeds, self._inputs)
        if outputs is None and self._direct:
            with simulation_errors():
                results = self._plain.session.run(self._names, arrays)
            return dict(zip(self._names, results, strict=True))
        names = self._names if outputs is None else list(dict.fromkeys(outputs))
        plan = self._plan(names)
        fetches = {name: plan.fetches[name] for name in names}
        sources = list(dict.fromkeys(f.source for f in fetches.values() if f.source))
        fed = {source: arrays[source] for source in sources if source in arrays}
        asked = [source for source in sources if source not in arrays]
        got = dict(fed)
        if asked:
            with simulation_errors():
                got.update(zip(asked, plan.session.run(asked, arrays), strict=True))
        return {
            name: fetch.constant if fetch.constant is not None else fetch.finish(got[fetch.source])
            for name, fetch in fetches.items()
        }

    def _plan(self, names: Sequence[str]) -> _Plan:
        if all(name in self._plain.fetches for name in names):
            return self._plain
        key = frozenset(names)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._open(names, None)
            while len(self._plans) > _KEPT_PLANS:
                self._plans.popitem(last=False)
        self._plans.move_to_end(key)
        return plan

    def _open(self, names: Sequence[str], optimised_model: Path | None) -> _Plan:
        graph, fetches = self._lowered, {name: Fetch(name) for name in names}
        if not {*names} <= {spec.name for spec in self._graph.outputs}:
            whole = reference_form(self._graph, names=True) if self._reference else self._lowered
            graph, fetches = add_outputs(self._graph, whole, names)
        if self._custom:
            return _Plan(SegmentExecutor(graph, self._load, optimised_model), fetches)
        if self._form is not None and graph is self._lowered:
            return _Plan(self._load(self._form.data, optimised_model), fetches)
        fused = self._level != "disabled" and is_quantized(graph)
        if fused or optimised_model is not None:  # what was fused is read from files of their own
            return _Plan(self._load(graph.to_bytes(), optimised_model), fetches)
        data, weights = message_and_weights(graph)
        return _Plan(self._load(data, None, weights), fetches, weights)

    def _load(
        self,
        data: bytes,
        optimised_model: Path | None,
        weights: Mapping[str, np.ndarray] | None = None,
    ) -> SessionLike:
        return open_model(
            data,
            threads=self._threads,
            level=self._level,
            optimised_model=optimised_model,
            weights=weights,
        )


def open_model(
    data: bytes,
    *,
    threads: int = 1,
    level: str = "all",
    optimised_model: Path | None = None,
    without: Sequence[str] = (),
    plan_memory: bool = True,
    pooled: bool = False,
    weights: Mapping[str, np.ndarray] | None = None,
) -> SessionLike:
    """A serialised model as it is, in ONNX Runtime, with the settings of every session here.

    ``without``: rewrites of ONNX Runtime, by name, that are not worth their time; ``plan_memory``:
    whether all tensors of a run are laid out in one block, from the second run on: a little faster,
    but that block is held besides the tensors that are handed out;
    ``pooled``: memory of the pool that such sessions share; ``weights``: constants that the model
    says are outside of it, which must live as long as the session.

    Raises:
        SimulationError: ONNX Runtime does not take it; names the node.
    """
    options = session_options(threads)
    options.graph_optimization_level = LEVELS[level]
    options.enable_mem_pattern = plan_memory
    keep_sums_exact(options)
    if pooled:
        share_pool(options)
    initializers = {
        n: ort.OrtValue.ortvalue_from_numpy(array) for n, array in (weights or {}).items()
    }
    if initializers:
        options.add_external_initializers(list(initializers), list(initializers.values()))
    if optimised_model is not None:
        options.optimized_model_filepath = str(optimised_model)
    with simulation_errors():
        try:
            session = cpu_session(data, options, [*WRONG_FUSIONS, *without])
        except RUNTIME_ERRORS as error:
            wrong = [
                n for mark, names in _OWN_NODES.items() if mark.search(str(error)) for n in names
            ]
            if not wrong:
                raise
            session = cpu_session(data, options, [*WRONG_FUSIONS, *without, *wrong])
    # the wrapper keeps the model to open it again with other providers, of which there are none
    vars(session).update(_model_bytes=None)
    runs: SessionLike = session
    return runs


# ONNX Runtime 1.31 refuses graphs of its own: it puts Q/DQ pairs of int8 behind a Reshape and makes
# their zero points uint8; of a normalization in parts some of which are rounded to float16 it makes
# one node of two types
_OWN_NODES = {
    re.compile(r"output_dtype \w+ does not match y_zero_point type"): ["QDQS8ToU8Transformer"],
    re.compile(r"bound to different types .* in node \(\S*LayerNormFusion"): [
        "LayerNormFusionL1",
        "LayerNormFusionL2",
    ],
}

_NODE = (
    re.compile(r"while running (?P<op>\S+) node\. Name:'(?P<name>[^']*)'"),
    re.compile(r"Node \((?P<name>[^)]*)\) Op \((?P<op>[^)]*)\)"),
    re.compile(r"implementation for (?P<op>\w+)\(\d+\) node with name '(?P<name>[^']*)'"),
    re.compile(r"node \((?P<op>\w*):(?P<name>[^)]*)\)"),
    re.compile(r"Node:(?P<name>\S*) .*?(?P<op>\w+)\("),
)


@contextmanager
def simulation_errors() -> Iterator[None]:
    """Turn what ONNX Runtime raises into a :class:`SimulationError` that names the node."""
    try:
        try:
            yield
        except RUNTIME_ERRORS as error:
            refuse_shortage(error)
            raise
    except MemoryError as error:
        raise ShortOfMemoryError(
            "There was not enough memory to run the graph.",
            remedy="Close other programs or use a smaller input size.",
        ) from error
    except RUNTIME_ERRORS as error:
        text = str(error)
        where = "The graph"
        for pattern in _NODE:
            match = pattern.search(text)
            if match:
                where = f"Node {sanitize(match['name'], 120)!r} ({sanitize(match['op'], 40)})"
                break
        reason = text.rsplit("Status Message: ", 1)[-1].split("\n")[0]
        if "element out of data bounds" in reason:
            raise SimulationError(
                f"{where} did not run in ONNX Runtime: {sanitize(reason, 300)}",
                cause="An input is a place in a table, and a sample has a number that is none.",
                remedy="Give samples (dataset) whose numbers are within that range.",
            ) from error
        raise SimulationError(
            f"{where} did not run in ONNX Runtime: {sanitize(reason, 300)}",
            cause="The runtime has no kernel for these types, or the shapes do not fit.",
            remedy="Cut the graph there with 'outputs', or export the model with another opset.",
        ) from error
