"""The vendor's two hybrid steps as jobs of the worker."""

from __future__ import annotations

from pathlib import Path

from engine.base.events import ArtifactWritten, Reporter
from engine.base.files import atomic_write, refuse_existing
from engine.base.trust import trusted_code
from engine.pipeline.hybrid_steps import build_step2, write_step1
from engine.pipeline.operators import load_custom_ops
from engine.services.handler import runs
from engine.services.state import WORKER_STATE, get_pipeline, recipe_at, recipe_of
from engine.wire.hybrid import STEP1, STEP2, Built, Step1, Step1Params, Step2Params, StepFiles

__all__ = ["step1", "step2"]


@runs(STEP1)
def step1(params: Step1Params, reporter: Reporter) -> Step1:
    """Write structure, data and configuration; propose layers where asked."""
    files, found = write_step1(
        get_pipeline(recipe_at(params), reporter, last="calibrate"),
        Path(params.folder),
        proposal=params.proposal,
        proposal_dataset_size=params.proposal_dataset_size,
        custom_hybrid=params.custom_hybrid,
        overwrite=params.force,
    )
    paths = StepFiles(str(files.model), str(files.data), str(files.config))
    if found is None:
        return Step1(paths, {}, ())
    return Step1(paths, found.layers, found.ranking, found.before, found.after, found.label)


@runs(STEP2)
def step2(params: Step2Params, reporter: Reporter) -> Built:
    """Build from the files of step 1, and write the container where asked."""
    path = None if params.path is None else Path(params.path)
    if path is not None:
        refuse_existing(path, overwrite=params.force)
    named = {"custom_ops": list(params.custom_ops)} if params.custom_ops else {}
    done = build_step2(
        Path(params.model),
        Path(params.data),
        Path(params.config),
        dataset=None if params.dataset is None else Path(params.dataset),
        reporter=reporter,
        memory=WORKER_STATE,
        operators=load_custom_ops(recipe_of(named), allowed=trusted_code()) or None,
    )
    if path is not None:
        size = atomic_write(path, done.result.container, overwrite=params.force)
        reporter.emit(ArtifactWritten(str(path), "rknn", size))
    return Built(done.result.summary, done.honoured, None if path is None else str(path))
