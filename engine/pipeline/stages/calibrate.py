"""What the calibration samples show of every tensor of the float graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.base.errors import QuantizationError
from engine.base.findings import Finding
from engine.pipeline.pipeline import Codec, Pipeline, Stage
from engine.pipeline.results import Calibration

if TYPE_CHECKING:
    from engine.dataset import Dataset
    from engine.quantize import Observations

_UNFINISHED = "calibrating"
"""What the cache calls observations of a calibration that is not done."""


def _calibrate(pipeline: Pipeline, key: str) -> Calibration:
    from engine.quantize import calibrate, sample_limit

    options, cache = pipeline.recipe.dataset, pipeline.cache

    def keep(seen: Observations) -> None:
        """Keep what was seen so far, for the case that the calibration is killed."""
        if cache is not None:
            cache.put(_UNFINISHED, key, seen.to_files())

    feeds = pipeline.feeds()
    seen = calibrate(
        pipeline.optimised.graph.graph,
        feeds,
        reporter=pipeline.reporter,
        limit=sample_limit(options.batch_size, options.epochs),
        resume=_left_off(pipeline, key),
        checkpoint=keep,
    )
    if cache is not None:
        cache.drop(_UNFINISHED, key)
    return Calibration(key, seen, seen.samples, (*feeds.findings, *_skipped(pipeline.dataset)))


def _left_off(pipeline: Pipeline, key: str) -> Observations | None:
    """What an earlier run of this calibration saw before it was killed."""
    from engine.quantize import Observations

    if pipeline.cache is None or pipeline.refresh:
        return None
    files = pipeline.cache.get(_UNFINISHED, key)
    if files is None:
        return None
    try:
        return Observations.from_files(files)
    except QuantizationError:
        return None


def _skipped(dataset: Dataset) -> list[Finding]:
    if not dataset.skipped:
        return []
    names = ", ".join(path.name for path, _ in dataset.skipped[:3])
    return [
        Finding(
            "pictures-skipped",
            "warning",
            "dataset",
            f"{len(dataset.skipped)} images could not be used, such as {names}.",
            cause=dataset.skipped[0][1],
            remedy="Repair or remove them.",
        )
    ]


CALIBRATE: Stage[Calibration] = Stage(
    name="calibrate",
    title="Calibrate",
    run=_calibrate,
    inputs=("optimise",),
    codec=Codec(Calibration.to_files, lambda _, key, files: Calibration.from_files(key, files)),
    quantized_only=True,
    contents=lambda pipeline: {"dataset": pipeline.samples.digest},
    facts=lambda pipeline: {"generation": pipeline.generation},
    findings=lambda pipeline: pipeline.calibration.findings,
)
