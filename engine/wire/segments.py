"""Segments of a model: where it is cut, what crosses there, and how long each takes (estimated)."""

from __future__ import annotations

from typing import Annotated

from engine.base.text import quantity
from engine.wire.codec import Text
from engine.wire.compile import WrittenModel
from engine.wire.flags import Argument, Flag, Force, Toolkit, output_flag
from engine.wire.method import Task
from engine.wire.record import record


def _read_milliseconds(text: str) -> float:
    milliseconds = quantity(text, {"us": 1e-3, "ms": 1.0, "s": 1e3})
    if not milliseconds:
        raise ValueError(f"{text!r} is no limit such as 5ms.")
    return milliseconds


@record(kw_only=True)
class SegmentsParams:
    """A compiled model or a container, and where it is to be cut.

    Nothing but ``path``: its layers are listed. ``output`` and ``force`` count where it is cut.

    Attributes:
        path: a container of ours, or a model of the vendor's generation 1.
    """

    path: Annotated[
        Text,
        Argument(metavar="MODEL", help="A container, or a compiled model of generation 1 (.rknn)."),
    ]
    after: Annotated[
        tuple[Text, ...],
        Flag(
            help="Uid (or, of a container, name) of a layer that a segment ends after; once per "
            "segment.",
            metavar="UID",
        ),
    ] = ()
    max_ms: Annotated[
        float | None,
        Flag(
            name="--max-time",
            help="Propose the fewest segments of which none takes longer (estimated), such as 5ms.",
            metavar="TIME",
            read=_read_milliseconds,
            write="{}ms".format,
        ),
    ] = None
    chip: Annotated[
        Text | None,
        Flag(help="Chip of the times. Default: the container's own.", metavar="CHIP", kind="chip"),
    ] = None
    output: Annotated[
        Text | None, output_flag("The file to write. Without it, what would be written is told.")
    ] = None
    toolkit: Toolkit = None
    force: Force = False


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
class Segments(WrittenModel):
    """The answer; a finding is such as a layer that is longer than a segment may be.

    Attributes:
        toolkit: of the vendor's that did it; empty for a container.
        ours: whether it is a container of ours; else a model of the vendor.
        layers: all of the model.
        segments: as it is cut; one where it is not, none of a model of the vendor.
        uids: of the layers that a segment ends after.
        chip: that the times are estimated for; empty where none is.
    """

    ours: bool
    layers: tuple[SegmentLayer, ...]
    segments: tuple[Segment, ...] = ()
    uids: tuple[int, ...] = ()
    chip: str = ""
    toolkit: str = ""


# fmt: off
SEGMENTS_CUT = Task("segments.cut", SegmentsParams, Segments, "segment",
    options=False, after="codegen",
    about="Cut a model into segments that other models may run between.",
    example="Examples: rknntui segment model.rknn --chip rk1808; rknntui segment model.rknn "
    "--max-time 5ms -o parts.rknn; rknntui segment model.rknn --after 12 --after 30 "
    "-o parts.rknn")
# fmt: on
