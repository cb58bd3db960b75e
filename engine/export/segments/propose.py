"""Where to cut: the fewest segments that keep a longest time, and of those the least crossing.

How long each layer takes on a chip is estimated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from engine.base.errors import UsageError
from engine.container import Container
from engine.cost.chips import chips_named
from engine.cost.estimate import CostSettings, estimate_chip
from engine.graph.layers import LayerMap
from engine.recipe import portable_recipe


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
