"""Segments of a model: where it is cut, what crosses there, and how long each takes (estimated)."""

from __future__ import annotations

from engine.base.findings import Finding
from engine.wire.codec import Text
from engine.wire.method import Task
from engine.wire.record import record

__all__ = ["SEGMENTS_CUT", "Segment", "SegmentLayer", "Segments", "SegmentsParams"]


@record(kw_only=True)
class SegmentsParams:
    """A compiled model or a container, and where it is to be cut.

    Nothing but ``path``: its layers are listed. ``output`` and ``force`` count where it is cut.

    Attributes:
        path: a container of ours, or a model of the vendor's generation 1.
        after: uids of layers that a segment ends after, or names of layers of a container.
        max_ms: instead: milliseconds that a segment may take at most; where to cut is proposed.
        chip: that the times are estimated for; None: the container's ``target_platform``.
        output: the file to write; None: none, it is only told.
        toolkit: name of the environment for a model of the vendor; None: the default.
    """

    path: Text
    after: tuple[Text, ...] = ()
    max_ms: float | None = None
    chip: Text | None = None
    output: Text | None = None
    toolkit: Text | None = None
    force: bool = False


@record(kw_only=True)
class SegmentLayer:
    """A layer, and what a cut behind it would mean.

    Attributes:
        uid: as in the column Uid of ``eval_perf``.
        id: ``layer.id``; of a model of the vendor the name in the file.
        op: its operator.
        crossing_bytes: in memory between the segments; None of a model of the vendor.
        time_ms: estimated; None where no chip is named.
        with_next: whether the chip computes it together with the next layer (estimated), so that no
            cut is proposed behind it.
    """

    uid: int
    id: str
    op: str
    crossing_bytes: int | None = None
    time_ms: float | None = None
    with_next: bool = False


@record(kw_only=True)
class Segment:
    """A segment.

    Attributes:
        first, last: uids of its first and its last layer.
        ends: id of the last.
        layers: how many it has.
        crossing: tensors that later segments read, the first sixteen; ``crossing_bytes`` of all.
        time_ms: estimated; None where no chip is named.
    """

    first: int
    last: int
    ends: str
    layers: int
    crossing: tuple[str, ...] = ()
    crossing_bytes: int = 0
    time_ms: float | None = None


@record(kw_only=True)
class Segments:
    """The answer.

    Attributes:
        path: the file that was written; empty where none was.
        size, sha256: of it.
        ours: whether it is a container of ours; else a model of the vendor.
        layers: all of the model.
        segments: as it is cut; one where it is not, none of a model of the vendor.
        uids: of the layers that a segment ends after.
        chip: that the times are estimated for; empty where none is.
        findings: such as a layer that is longer than a segment may be.
        toolkit: of the vendor's that did it; empty for a container.
    """

    ours: bool
    layers: tuple[SegmentLayer, ...]
    segments: tuple[Segment, ...] = ()
    uids: tuple[int, ...] = ()
    path: str = ""
    size: int = 0
    sha256: str = ""
    chip: str = ""
    findings: tuple[Finding, ...] = ()
    toolkit: str = ""


SEGMENTS_CUT = Task("segments.cut", SegmentsParams, Segments)
