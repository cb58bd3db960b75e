"""What a model costs on each chip: lowered once a family, then placed, counted and timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from engine.base.content import reading
from engine.base.errors import EngineError, GraphError, UsageError
from engine.base.text import sanitize
from engine.cost.advice import advise
from engine.cost.chips import chips_named
from engine.cost.crashes import known_crashes, targets_with_effect
from engine.cost.cycles import all_cycles
from engine.cost.generation1.lowering import lower_generation1
from engine.cost.generation1.timing import DESIGNS
from engine.cost.limits import with_reasons
from engine.cost.lowered import Lowered
from engine.cost.lowering import lower, read_graph
from engine.cost.lowering.read import ids_of_sources, nodes_of_layers, without_qdq
from engine.cost.rows import Counted, chip_figures, counted
from engine.cost.timing import layer_times
from engine.cost.timing.form import timed_chip
from engine.cost.trials import with_tried_changes
from engine.facts import Chip, chips
from engine.facts.figures import basis, number
from engine.facts.npu import NpuDtype, NpuProfile, npu_profile
from engine.graph.layers import LayerMap
from engine.wire.cost import Advice, ChipEstimate

if TYPE_CHECKING:
    from engine.cost.lowering.graph import LoweringGraph
    from engine.graph.ir import Graph

_INT8 = (
    "int8",
    "w8a8",
    "asymmetric_quantized-8",
    "asymmetric_quantized-u8",
    "asymmetric_affine-u8",
    "dynamic_fixed_point-8",
    "dynamic_fixed_point-i8",
)
"""Dtypes of the options, in either generation's words, that the NPU multiplies in int8."""
_WIDER = (
    "float16",
    "float32",
    "int16",
    "w4a16",
    "w8a16",
    "w16a16i",
    "w16a16i_dfp",
    "dynamic_fixed_point-16",
    "dynamic_fixed_point-i16",
)
"""Those that are counted as float16: it, and what has activations of 16 bits."""

_INT4 = "w4a16"
_INT4_NOTE = f"{_INT4}: dense weights are counted in 4 bits, all else as in float16."

_CLOCKS = (1, 10_000)
"""MHz that an NPU may have."""


@dataclass(frozen=True)
class CostSettings:
    """What an estimate depends on beside the graph.

    Attributes:
        chips: names; every chip of both generations where empty.
        dtype: of the model: ``int8``, ``float16``, or a dtype of the options; None: that of
            ``quantized_dtype``, and float16 where a chip has no int8.
        quantized_dtype: of the recipe.
        layer_dtypes: ``layer.id`` -> dtype, of the layers that have another one.
        op_target: ``layer.id`` -> ``cpu`` or ``npu``.
        batch: inferences at once.
        cores: that share an inference; a chip with fewer takes all that it has.
        npu_mhz: clock of the NPU; None: the chip's highest.
    """

    chips: tuple[str, ...] = ()
    dtype: str | None = None
    quantized_dtype: str = "w8a8"
    layer_dtypes: Mapping[str, str] = field(default_factory=dict)
    op_target: Mapping[str, str] = field(default_factory=dict)
    batch: int = 1
    cores: int = 1
    npu_mhz: float | None = None


def npu_dtype(name: str) -> NpuDtype:
    """What the NPU multiplies in for a dtype of the options.

    Raises:
        UsageError: there are no facts of such a dtype.
    """
    dtype = name.strip().lower()
    if dtype in _INT8:
        return "int8"
    if dtype in _WIDER:
        return "float16"
    raise UsageError(
        f"There are no estimates in the dtype {sanitize(name, 60)!r}.",
        cause="Estimates know models in int8 (w8a8) and float16.",
        remedy="Use int8 or float16.",
    )


def estimate(
    graph: Graph, settings: CostSettings, layers: LayerMap | None = None
) -> tuple[ChipEstimate, ...]:
    """What a model costs on every chip asked for; the graph is read once.

    Args:
        graph: float, as it was loaded, with fixed shapes; Q/DQ of a quantized source model are
            seen through.
        settings: chips and what to vary.
        layers: of the build: layers are keyed by their ids; None: by the nodes' names.

    Returns:
        One estimate a chip, in the order asked for. A chip that cannot have the model has a
        ``problem``.

    Raises:
        UsageError: an unknown chip or dtype, or a shape that is not fixed.
    """
    asked = chips_named(settings.chips)
    work = _Work(without_qdq(read_graph(graph)), settings, layers or LayerMap())
    return tuple(map(work.of, asked))


def estimate_chip(
    graph: Graph, name: str, settings: CostSettings, layers: LayerMap | None = None
) -> ChipEstimate:
    """As :func:`estimate`, of one chip."""
    return estimate(graph, replace(settings, chips=(name,)), layers)[0]


def repeated(
    graph: Graph, name: str, settings: CostSettings, layers: LayerMap
) -> Callable[[Mapping[str, str]], ChipEstimate]:
    """A function that estimates a model on one chip again, for other dtypes of its layers.

    Args:
        graph, settings, layers: as of :func:`estimate`; the graph is read once.
        name: of the chip.

    Returns:
        ``layer.id`` -> dtype, of the layers that differ -> the estimate.

    Raises:
        UsageError: as of :func:`estimate`.
    """
    (one,) = chips_named((name,))
    read = without_qdq(read_graph(graph))

    def again(dtypes: Mapping[str, str]) -> ChipEstimate:
        return _Work(read, replace(settings, layer_dtypes=dtypes), layers).of(one)

    return again


def advice(
    graph: Graph, name: str, settings: CostSettings, layers: LayerMap | None = None
) -> tuple[ChipEstimate, tuple[Advice, ...]]:
    """The estimate of one chip, and ways to make the model faster there, the largest gain first.

    Args:
        graph, settings, layers: as of :func:`estimate`.
        name: of the chip.

    Raises:
        UsageError: as of :func:`estimate`.
    """
    (one,) = chips_named((name,))
    work = _Work(without_qdq(read_graph(graph)), settings, layers or LayerMap())
    chip_estimate = work.of(one)
    return chip_estimate, () if chip_estimate.problem else work.advice(chip_estimate)


class _Work:
    """Lowered graphs of one model, kept for the chips of the same family and dtype."""

    def __init__(self, graph: LoweringGraph, settings: CostSettings, layers: LayerMap) -> None:
        _check(settings)
        self._graph, self._settings = graph, settings
        self._asked = None if settings.dtype is None else npu_dtype(settings.dtype)
        self._ids = ids_of_sources(layers)
        self._int4 = (settings.dtype or settings.quantized_dtype).strip().lower() == _INT4
        dtypes = {name: npu_dtype(dtype) for name, dtype in settings.layer_dtypes.items()}
        self._dtypes = nodes_of_layers(layers, dtypes)
        asked = nodes_of_layers(layers, settings.op_target)
        self._targets, self._idle = targets_with_effect(self._graph, asked)
        self._families: dict[tuple[str, NpuDtype], Counted] = {}

    def of(self, one: Chip) -> ChipEstimate:
        """The estimate of a chip."""
        settings = self._settings
        npu = npu_profile(one.name)
        dtype = self._asked or npu_dtype(settings.quantized_dtype)
        if self._asked is None and npu is not None and "int8" not in npu.dtypes:
            dtype = "float16"  # whatever the recipe says
        blank = ChipEstimate(
            chip=one.name,
            generation=one.generation,
            dtype=dtype,
            cores=min(settings.cores, one.npu_cores),
            batch=settings.batch,
            npu_mhz=settings.npu_mhz or _highest_clock(one),
            confidence=basis(one.name),
        )
        try:
            if self._int4 and _INT4 not in one.dtypes:
                raise UsageError(
                    f"The vendor's toolkit compiles no {_INT4} for {one.name}.",
                    cause="What it would take there is not known.",
                    remedy="Estimate it in w8a8 or float16, or take a chip that has it: "
                    f"{', '.join(other.name for other in chips() if _INT4 in other.dtypes)}.",
                )
            with reading(lambda why: _not_understood(one.name, why)):
                result = self._of_known(blank, npu, dtype)
        except EngineError as error:
            return replace(blank, problem=error.what, remedy=error.advice)
        notes = self._counted_otherwise()
        return replace(_with_peaks(result, npu), notes=(*result.notes, *notes))

    def _counted_otherwise(self) -> tuple[str, ...]:
        """Which dtypes there are no figures of."""
        settings = self._settings
        asked = {settings.dtype or settings.quantized_dtype, *settings.layer_dtypes.values()}
        names = sorted(name for name in asked if name in _WIDER and not name.startswith("float"))
        notes = [_INT4_NOTE] if self._int4 else []
        if self._int4:
            names.remove(_INT4)
        note = f"There are no figures of {', '.join(names)}: it is counted as float16."
        return (*notes, note) if names else tuple(notes)

    def _of_known(
        self, blank: ChipEstimate, npu: NpuProfile | None, dtype: NpuDtype
    ) -> ChipEstimate:
        if npu is not None and dtype not in npu.dtypes:
            has = ", ".join(npu.dtypes)
            raise UsageError(
                f"The NPU of {blank.chip} has no {dtype}; it has {has}.",
                remedy=f"Estimate it in {has}.",
            )
        result = chip_figures(blank, self._counted(blank.chip, dtype), self._settings.npu_mhz)
        if npu is None:
            return result
        crashes = known_crashes(self._graph, npu.family, dtype, self._dtypes)
        return replace(result, warnings=(*crashes, *self._idle))

    def advice(self, found: ChipEstimate) -> tuple[Advice, ...]:
        """Of the chip that was estimated."""
        dtype: NpuDtype = "float16" if found.dtype == "float16" else "int8"
        known = self._counted(found.chip, dtype)
        times = partial(known.times, found.chip, self._settings.npu_mhz)
        return advise(known.lowered, found.chip, times, self._ids)

    def _counted(self, chip_name: str, dtype: NpuDtype) -> Counted:
        """The layers of a chip's family or design, laid out and counted once.

        Raises:
            UsageError: nothing is known of the chip.
        """
        npu = npu_profile(chip_name)
        family = DESIGNS.get(chip_name) if npu is None else npu.family
        if family is None:
            raise UsageError(f"Nothing is known that {chip_name} could be estimated from.")
        key = (family, dtype)
        if key not in self._families:
            if npu is None:
                lowered = lower_generation1(self._graph, family, dtype, self._dtypes)
                lowered = with_reasons(lowered, chip_name)
            else:
                lowered = self._laid_out(npu, dtype)
            self._families[key] = counted(lowered, npu, self._ids)
        return self._families[key]

    def _laid_out(self, npu: NpuProfile, dtype: NpuDtype) -> Lowered:
        """Limits are the family's; a layer that the rules of placement know keeps its reason."""
        return with_tried_changes(
            with_reasons(self._lower(npu, dtype), npu.family),
            self._graph,
            lambda graph, dtypes: self._lower(npu, dtype, graph, dtypes),
            partial(_times, npu=npu),
        )

    def _lower(
        self,
        npu: NpuProfile,
        dtype: NpuDtype,
        graph: LoweringGraph | None = None,
        dtypes: Mapping[str, NpuDtype] | None = None,
    ) -> Lowered:
        """The layers; of another graph and with other dtypes of its nodes where they are given."""
        layer_dtypes = {**self._dtypes, **(dtypes or {})}
        return lower(
            self._graph if graph is None else graph,
            npu,
            dtype,
            layer_dtypes={
                name: layer_dtype
                for name, layer_dtype in layer_dtypes.items()
                if layer_dtype in npu.dtypes
            },
            op_target=self._targets,
            int4=self._int4,
        )


def _check(settings: CostSettings) -> None:
    """Refuse what would give a negative or endless time; NaN fails every comparison.

    Raises:
        UsageError: batch, cores or clock are out of bounds.
    """
    clock = settings.npu_mhz
    if clock is not None and not _CLOCKS[0] <= clock <= _CLOCKS[1]:
        raise UsageError(
            f"An NPU's clock of {clock:g} MHz is not possible.",
            cause=f"It is from {_CLOCKS[0]} to {_CLOCKS[1]} MHz.",
            remedy="Give it in MHz, as 1000, or leave it out for the chip's highest.",
        )
    if settings.batch < 1 or settings.cores < 1:
        raise UsageError(
            f"An inference of {settings.batch} at once on {settings.cores} cores is none.",
            remedy="Give a batch and cores of 1 or more.",
        )


def _not_understood(chip_name: str, why: str) -> GraphError:
    """A graph of a form that nobody thought of: the other chips are estimated all the same."""
    return GraphError(
        f"The graph cannot be laid out for {chip_name}: {why}.",
        cause="A node of it has a form that the estimate does not know.",
        remedy="Check the model with `rknntui inspect`; please report it.",
    )


def _times(lowered: Lowered, npu: NpuProfile) -> tuple[float, ...]:
    """Milliseconds of each layer on the first chip of a family, at its highest clock."""
    cycles = all_cycles(lowered, npu)
    return tuple(timed.ms for timed in layer_times(lowered, cycles, npu.family))


def _highest_clock(one: Chip) -> float:
    """MHz of the NPU: as published, else as the model of time assumes."""
    published = number(one.name, "npu_mhz")
    return published or (timed_chip(one.name).mhz if one.generation == 2 else 0.0)


def _with_peaks(result: ChipEstimate, npu: NpuProfile | None) -> ChipEstimate:
    """What the chip could do at most: a roofline's two lines."""
    if npu is not None:
        dtype: NpuDtype = "float16" if result.dtype == "float16" else "int8"
        macs: float | None = npu.macs_in[dtype] * npu.macs_out[dtype]
    else:
        macs = number(result.chip, "macs_fp16" if result.dtype == "float16" else "macs_int8")
    peak = None
    if macs and result.npu_mhz:
        peak = round(2 * macs * result.npu_mhz * result.cores / 1000, 3)
    return replace(result, peak_gops=peak, bandwidth_gbs=number(result.chip, "memory_bandwidth"))
