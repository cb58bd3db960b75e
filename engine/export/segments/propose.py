"""Where to cut: the fewest segments that keep a longest time, and of those the least crossing."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


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
