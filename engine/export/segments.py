"""Models cut into segments [RKNN-T1 1.3.2, 3.4 and 3.6.14]: containers of ours here, models of the
vendor's generation 1 by its toolkit; and where to cut for a longest time of a segment.
"""

from __future__ import annotations

import io
import shutil
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.base.errors import CompilerError, ContainerError, UsageError
from engine.base.events import Reporter
from engine.base.files import atomic_copy, atomic_write, refuse_existing, sha256_of
from engine.base.text import sanitize, some_of
from engine.container import Container, write_container
from engine.container.encryption import encrypt
from engine.container.keys import needed_key
from engine.container.vendor import VendorModel, inspect_vendor
from engine.cost.chips import chips_named
from engine.cost.estimate import CostSettings, estimate_chip
from engine.graph.layers import LayerMap
from engine.graph.segments import cut_points, segment_crossings
from engine.quantize import layers_of
from engine.recipe import portable_recipe
from engine.toolkit.environments import find
from engine.toolkit.toolkit import one_run
from engine.wire.segments import Segment, SegmentLayer
from engine.wire.vendor import ToolkitEnvironment

_TENSORS, _UIDS = 16, 12  # that are told
_SECONDS = 600.0


@dataclass(frozen=True)
class Proposed:
    """A proposal.

    Attributes:
        after: the layers that a segment ends after.
        too_long: (first, last) layer of each segment that cannot be made shorter.
        crossing: bytes that cross, of all cuts.
    """

    after: tuple[int, ...]
    too_long: tuple[tuple[int, int], ...]
    crossing: int


def propose(
    times: Sequence[float],
    crossing: Sequence[int],
    limit: float,
    joined: Sequence[bool] | None = None,
) -> Proposed:
    """The fewest segments of at most ``limit``, and of those the ones between which the fewest
    bytes cross.

    What cannot be divided (a layer, or layers that are computed together) and is longer than
    ``limit`` is a segment of its own.

    Args:
        times: of each layer, in the order they run.
        crossing: bytes behind each layer.
        limit: in the unit of ``times``.
        joined: of each layer whether it is computed together with the next one.
    """
    ends = [at for at in range(len(times)) if not (joined and joined[at]) or at == len(times) - 1]
    if not ends:
        return Proposed((), (), 0)
    blocks, begun = [], 0
    for end in ends:
        blocks.append(sum(times[begun : end + 1]))
        begun = end + 1
    until = [0.0]
    for time in blocks:
        until.append(until[-1] + time)
    # best[i]: (segments, bytes) of the first i blocks; a window of starts whose segment fits, the
    # best of which is found at the head of the queue
    best: list[tuple[int, int]] = [(0, 0)]
    before = [0]
    queue: deque[int] = deque()
    first = 0
    for end in range(1, len(blocks) + 1):
        _push(queue, end - 1, best)
        while first < end - 1 and until[end] - until[first] > limit * (1 + 1e-12):
            first += 1
        while queue[0] < first:
            queue.popleft()
        start = queue[0]
        count, size = best[start]
        behind = crossing[ends[end - 1]] if end < len(blocks) else 0
        best.append((count + 1, size + behind))
        before.append(start)
    cuts: list[int] = []
    long: list[tuple[int, int]] = []
    end = len(blocks)
    while end:
        start = before[end]
        if until[end] - until[start] > limit * (1 + 1e-12):
            long.append((ends[start - 1] + 1 if start else 0, ends[end - 1]))
        if start:
            cuts.append(ends[start - 1])
        end = start
    return Proposed(tuple(reversed(cuts)), tuple(reversed(long)), best[-1][1])


def _push(queue: deque[int], start: int, best: Sequence[tuple[int, int]]) -> None:
    while queue and best[queue[-1]] >= best[start]:
        queue.pop()
    queue.append(start)


@dataclass(frozen=True)
class LayerTimes:
    """Of the layers of a container on a chip, in their order.

    Attributes:
        chip: its name.
        ms: of each layer; 0 of one that the chip computes as a part of another.
        joined: whether it is computed together with the next one.
    """

    chip: str
    ms: tuple[float, ...]
    joined: tuple[bool, ...]


def layer_times(found: Container, layers: LayerMap, chip: str) -> LayerTimes:
    """The estimate of a chip, spread over the layers of ours.

    Where the chip computes several of ours at once, the last of them has the time, and the ones
    from the first to it are joined. What is nobody's (changes of layout) counts to the layer before
    it.

    Raises:
        UsageError: there is no such chip, or it cannot have the model.
    """
    name = chips_named((chip,))[0].name
    estimate = estimate_chip(found.graph, name, _settings(found, layers), layers)
    if estimate.problem:
        raise UsageError(estimate.problem, remedy=estimate.remedy)
    places = {layer.id: place for place, layer in enumerate(layers.layers)}
    ms = [0.0] * len(places)
    joined = [False] * len(places)
    last = 0
    for row in estimate.layers:
        own = sorted(places[layer_id] for layer_id in row.layers if layer_id in places)
        if own:
            last = own[-1]
            joined[own[0] : last] = (
                [True] * (last - own[0]) if _follows(own) else joined[own[0] : last]
            )
        if ms:
            ms[last] += row.time_ms
    return LayerTimes(name, tuple(ms), tuple(joined))


def _follows(own: Sequence[int]) -> bool:
    """Whether layers stand one behind the other; those of one row that do not are no one kernel."""
    return own[-1] - own[0] == len(own) - 1


def _settings(container: Container, layers: LayerMap) -> CostSettings:
    options = portable_recipe(container.recipe).quantization
    dtypes: dict[str, str] = {}
    for named, dtype in (options.quantized_layers or {}).items() if container.quantized else ():
        layer = layers.find(named)
        if layer is not None:
            dtypes[layer.id] = str(dtype)
    return CostSettings(
        quantized_dtype=options.quantized_dtype if container.quantized else "float16",
        layer_dtypes=dtypes,
        batch=options.rknn_batch_size or 1,
    )


def container_layers(found: Container) -> LayerMap:
    """The layers of a container, also of one that does not hold them."""
    return found.layers or layers_of(found.graph)


def cut_container(
    found: Container, after: Iterable[object], output: Path, *, overwrite: bool = False
) -> Container:
    """Write a container with other segments; what they were is forgotten.

    An encrypted one is encrypted again, with its key and level.

    Args:
        found: the container.
        after: uids of the layers that a segment ends after, or names of layers.
        output: the file to make; may be the one that it was read from.
        overwrite: whether ``output`` may be there.

    Returns:
        What was written.

    Raises:
        UsageError: it has no such layer.
        ContainerError: it holds what this version does not know and would lose.
        OutputError: it cannot be written.
    """
    if found.unknown_sections:
        named = ", ".join(sanitize(name, 40) for name in found.unknown_sections)
        raise ContainerError(
            f"The container has sections that this version does not read: {named}.",
            cause="A newer version or another program wrote it. They would be lost.",
            remedy="Update this program, or build the model again.",
        )
    cut = replace(found, segments=cut_points(after, container_layers(found)))
    data = write_container(cut)
    if found.encryption_level is not None:
        sealed = io.BytesIO()
        key = needed_key(sanitize(output.name, 200))
        encrypt(io.BytesIO(data), len(data), sealed, key, found.encryption_level)
        data = sealed.getvalue()
    atomic_write(output, data, overwrite=overwrite)
    return cut


def segments_of(found: Container) -> tuple[int, ...]:
    """Uids of the layers that the segments of a container end after.

    Raises:
        ContainerError: the file names a layer that the graph does not have under this uid.
    """
    layers = container_layers(found).layers
    for uid, name in found.segments:
        if uid >= len(layers) - 1 or layers[uid].id != name:
            raise ContainerError(
                f"The container is cut after layer {uid}, {sanitize(name, 100)!r}, which its graph "
                "does not have there.",
                cause="It was written by another program or changed.",
                remedy="Cut it again with `rknntui segment`.",
            )
    return tuple(sorted({uid for uid, _ in found.segments}))


def layers_told(found: Container, times: LayerTimes | None = None) -> tuple[SegmentLayer, ...]:
    """Every layer with what a cut behind it would mean."""
    layers = container_layers(found)
    crossings = segment_crossings(found.graph, layers)
    return tuple(
        SegmentLayer(
            uid=uid,
            id=layer.id,
            op=layer.op,
            crossing_bytes=crossing.bytes,
            time_ms=None if times is None else times.ms[uid],
            with_next=times is not None and times.joined[uid],
        )
        for uid, (layer, crossing) in enumerate(zip(layers.layers, crossings, strict=True))
    )


def segments_told(
    found: Container, after: Iterable[int], times: LayerTimes | None = None
) -> tuple[Segment, ...]:
    """The segments of a container that is cut after layers of these uids."""
    layers = container_layers(found)
    ends = sorted({*after, len(layers.layers) - 1}) if layers.layers else []
    segments, first = [], 0
    for last, crossing in zip(ends, segment_crossings(found.graph, layers, ends), strict=True):
        segments.append(
            Segment(
                first=first,
                last=last,
                ends=layers.layers[last].id,
                layers=last - first + 1,
                crossing=crossing.tensors[:_TENSORS],
                crossing_bytes=crossing.bytes,
                time_ms=None if times is None else sum(times.ms[first : last + 1]),
            )
        )
        first = last + 1
    return tuple(segments)


@dataclass(frozen=True)
class CutModel:
    """The file that was made: its place, size and content, and the toolkit that made it."""

    path: Path
    size: int
    sha256: str
    toolkit: str


def vendor_layers(path: Path) -> tuple[SegmentLayer, ...]:
    """The layers of a model of generation 1, with their uids.

    Raises:
        ContainerError: it cannot be read.
        UsageError: it is no such model, or its file does not tell uids.
    """
    return _layers(path, inspect_vendor(path))


def _layers(path: Path, model: VendorModel) -> tuple[SegmentLayer, ...]:
    name = sanitize(path.name, 200)
    if model.generation != 1 or model.kind == "op-package":
        raise UsageError(
            f"{name} is {model.form}, which has no segments.",
            cause="Segments are of the vendor's generation 1 (RK1808, RK3399Pro, RV1109, RV1126).",
            remedy="Cut a container of this program, or a model of generation 1.",
        )
    layers = model.graphs[0].layers if model.graphs else ()
    with_uid = tuple(
        SegmentLayer(uid=layer.uid, id=layer.name, op=layer.op)
        for layer in layers
        if layer.uid is not None
    )
    if not with_uid:
        raise UsageError(
            f"The file of {name} tells no uids of layers.",
            cause="A precompiled model is one layer for the toolkit; it cannot be cut any more.",
            remedy="Cut the model before it is precompiled.",
        )
    return with_uid


def cut_vendor_model(
    path: Path,
    uids: Sequence[int],
    output: Path,
    *,
    environment: ToolkitEnvironment | None = None,
    toolkit: str | None = None,
    overwrite: bool = False,
    reporter: Reporter | None = None,
) -> CutModel:
    """Have sync layers put behind the layers of these uids.

    The vendor's manual warns that a uid which is none has results that nobody can foresee: they are
    checked against those in the file.

    Args:
        path: of the model.
        uids: of layers.
        output: the file to make; may be ``path``.
        environment: of the toolkit; None: found by ``toolkit``.
        toolkit: name of the environment; None: the default of generation 1.
        overwrite: whether ``output`` may be there.
        reporter: told what the toolkit prints, asked whether to stop.

    Raises:
        UsageError: the model has no such uid, or is of another generation.
        ToolkitError: there is no toolkit of generation 1.
        CompilerError: it failed.
        OutputError: the file cannot be written.
    """
    _check_uids(path, uids)
    refuse_existing(output, overwrite=overwrite)
    place = environment or find(1, toolkit)
    before = sha256_of(path)
    with one_run(place, reporter) as rknn:
        plain, segmented = rknn.toolkit.work / "model.rknn", rknn.toolkit.work / "segments.rknn"
        shutil.copyfile(path, plain)
        rknn.do(
            "export_rknn_sync_model",
            input_model=str(plain),
            sync_uids=[int(uid) for uid in uids],
            output_model=str(segmented),
            seconds=_SECONDS,
        )
        if not segmented.is_file() or not _is_cut(segmented, before):
            raise CompilerError(
                "The vendor's toolkit said that it cut the model, and did not.",
                cause="What it wrote is missing, the same as before, or no model of generation 1.",
                remedy="Try another version of the toolkit.",
            )
        size = atomic_copy(segmented, output, overwrite=overwrite)
        return CutModel(output, size, sha256_of(output), rknn.toolkit.words)


def _check_uids(path: Path, uids: Sequence[int]) -> None:
    known = [layer.uid for layer in vendor_layers(path)]
    unknown = [uid for uid in uids if uid not in known]
    if unknown or not uids:
        raise UsageError(
            f"{sanitize(path.name, 200)} has no layer with the uid {unknown[0]}."
            if unknown
            else "No uid is given to cut after.",
            cause=f"Its layers have the uids {some_of([*map(str, sorted(known))], _UIDS)}.",
            remedy="Take uids from the Uid column of eval_perf (perf_debug=True), or from "
            "`rknntui segment MODEL`.",
        )


def _is_cut(model: Path, before: str) -> bool:
    try:
        return sha256_of(model) != before and inspect_vendor(model).generation == 1
    except ContainerError:
        return False
