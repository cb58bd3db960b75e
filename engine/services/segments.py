"""Answers of the worker about segments: layers, proposals, and models cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import UsageError
from engine.base.events import ArtifactWritten, Reporter
from engine.base.files import refuse_existing, sha256_of
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.export.segments import (
    container_layers,
    cut_container,
    cut_vendor_model,
    layer_times,
    layers_told,
    propose,
    segments_of,
    segments_told,
    vendor_layers,
)
from engine.frontends.sniff import sniff
from engine.graph.segments import cut_points
from engine.pipeline.runner import load_packed
from engine.services.registry import runs
from engine.wire.segments import SEGMENTS_CUT, Segments, SegmentsParams

if TYPE_CHECKING:
    from engine.container import Container
    from engine.export.segments import LayerTimes


@runs(SEGMENTS_CUT)
def cut(params: SegmentsParams, reporter: Reporter) -> Segments:
    """List a model's layers, or tell how it is cut, and write it where that is asked for.

    Raises:
        EngineError: it cannot be read or written; it has no such layer; no chip or toolkit is known
            that it needs.
    """
    path = Path(params.path)
    output = None if params.output is None else Path(params.output)
    if params.after and params.max_ms is not None:
        raise UsageError(
            "Layers to cut after and a longest time are both given.",
            remedy="Give one: the other follows from it.",
        )
    if output is not None:
        if not params.after and params.max_ms is None:
            raise UsageError(
                "It is not said where to cut.",
                remedy="Name layers, or a longest time of a segment.",
            )
        refuse_existing(output, overwrite=params.force)
    kind = sniff(path).kind
    if kind == "rknn":
        segmented = _container(path, params, output)
    elif kind == "rknn_vendor":
        segmented = _vendor(path, params, output, reporter)
    else:
        raise UsageError(
            f"{sanitize(path.name, 200)} is no .rknn file.",
            cause="Segments are of a container of this program, or of a model of generation 1.",
            remedy="Build it first: `rknntui export MODEL -o FILE.rknn`.",
        )
    if segmented.path:
        reporter.emit(ArtifactWritten(segmented.path, "rknn", segmented.size))
    return segmented


def _container(path: Path, params: SegmentsParams, output: Path | None) -> Segments:
    container = load_packed(path)
    times = _times(container, params)
    if times is None and params.max_ms is not None:
        raise UsageError(
            "The chip that a segment's time is meant for is not known.",
            cause="The container names no target_platform.",
            remedy="Name a chip (--chip).",
        )
    layers = layers_told(container, times)
    findings: tuple[Finding, ...] = ()
    if times is not None and params.max_ms is not None:
        uids, findings = _proposed(container, times, params.max_ms)
    elif params.after:
        uids = tuple(uid for uid, _ in cut_points(params.after, container_layers(container)))
    else:
        uids = segments_of(container)
    answer = Segments(
        ours=True,
        layers=layers,
        segments=segments_told(container, uids, times),
        uids=uids,
        chip="" if times is None else times.chip,
        findings=findings,
    )
    if output is None:
        return answer
    cut_container(container, uids, output, overwrite=params.force)
    size, digest = output.stat().st_size, sha256_of(output)
    return replace(answer, path=str(output), size=size, sha256=digest)


def _times(container: Container, params: SegmentsParams) -> LayerTimes | None:
    """The times of the chip that is named or that the container is for; None for no chip."""
    chip = params.chip or container.target_platform
    return None if chip is None else layer_times(container, container_layers(container), chip)


def _proposed(
    container: Container, times: LayerTimes, limit: float
) -> tuple[tuple[int, ...], tuple[Finding, ...]]:
    if not 0 < limit < float("inf"):
        raise UsageError(
            f"A segment of at most {limit:g} ms is none.", remedy="Give a time such as 5ms."
        )
    rows = layers_told(container)
    crossing = [row.crossing_bytes or 0 for row in rows]
    proposal = propose(times.ms, crossing, limit, times.joined)
    layers = container_layers(container).layers
    findings = tuple(
        Finding(
            "segment-too-long",
            "warning",
            layers[last].id,
            (
                f"{sanitize(layers[last].id, 120)} alone"
                if first == last
                else f"Layers {first} to {last}, which are computed together,"
            )
            + f" take {sum(times.ms[first : last + 1]):.2f} ms on {times.chip} (estimated), more "
            f"than {limit:g} ms.",
            "A layer cannot be divided.",
            "Allow a longer time, use a smaller input, or make the layer cheaper: "
            "`rknntui perf estimate MODEL --chip CHIP --advice`.",
        )
        for first, last in proposal.too_long
    )
    whole = segments_told(container, (), times)[0].time_ms if layers else 0.0
    if not proposal.after and whole is not None and whole <= limit:
        note = Finding(
            "segment-not-needed",
            "info",
            container.name,
            f"The whole model takes {whole:.2f} ms on {times.chip} (estimated): no cut is needed.",
        )
        findings = (*findings, note)
    return proposal.after, findings


def _vendor(
    path: Path, params: SegmentsParams, output: Path | None, reporter: Reporter
) -> Segments:
    layers = vendor_layers(path)
    if params.max_ms is not None:
        raise UsageError(
            "Where to cut a compiled model cannot be proposed.",
            cause="Its file does not hold what times are estimated from.",
            remedy="Ask for a container of the same model, which has the same layers in order, or "
            "take the times of eval_perf and name uids with --after.",
        )
    uids = tuple(_uid(text) for text in params.after)
    if output is None:
        return Segments(ours=False, layers=layers, uids=uids)
    segmented = cut_vendor_model(
        path, uids, output, toolkit=params.toolkit, overwrite=params.force, reporter=reporter
    )
    return Segments(
        ours=False,
        layers=layers,
        uids=uids,
        path=str(output),
        size=segmented.size,
        sha256=segmented.sha256,
        toolkit=segmented.toolkit,
    )


def _uid(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(
            f"{sanitize(text, 80)!r} is no uid.",
            cause="Layers of a compiled model are named by their uids.",
            remedy="Take uids from `rknntui segment MODEL`.",
        )
    return int(text)
