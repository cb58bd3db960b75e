"""Containers of ours in segments: cut, and told."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from engine.base.errors import ContainerError
from engine.base.files import atomic_write
from engine.base.text import sanitize
from engine.container import Container, write_container
from engine.container.encryption import encrypt
from engine.container.keys import needed_key
from engine.export.segments.propose import LayerTimes
from engine.graph.layers import LayerMap
from engine.graph.segments import cut_points, segment_crossings
from engine.quantize import layers_of
from engine.wire.segments import Segment, SegmentLayer

_SHOWN = 16


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
                crossing=crossing.tensors[:_SHOWN],
                crossing_bytes=crossing.bytes,
                time_ms=None if times is None else sum(times.ms[first : last + 1]),
            )
        )
        first = last + 1
    return tuple(segments)
