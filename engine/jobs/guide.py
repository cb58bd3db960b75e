"""The job ``guide``: runs the next step of the accuracy procedure, and names the one after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engine.accuracy.guide import STEPS, Fact, Step, following
from engine.base.errors import UsageError
from engine.base.events import Reporter, StageFinished, StageStarted
from engine.base.text import did_you_mean, printable
from engine.graph.ir.arrays import read_npy
from engine.jobs.guide_float import FLOAT_CHECKS, float_verdict
from engine.jobs.guide_probe import Check, Probe
from engine.jobs.guide_quantized import QUANTIZED_CHECKS, quantized_verdict
from engine.jobs.warm import pipeline_of, recipe_of
from engine.recipe import Recipe

__all__ = ["guide"]

_CHECKS: Mapping[str, Check] = {**FLOAT_CHECKS, **QUANTIZED_CHECKS}
_ALGORITHMS = ("normal", "kl_divergence", "mmse", "accurate")


def guide(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Run one step.

    Args:
        params: ``recipe``; ``done``: ids of the steps that ran; ``step``: the one to run, where it
            is not the next; ``reference``: npy files with the outputs of the original framework
            for the first calibration sample, one per output.
        reporter: told of the stages.

    Returns:
        ``step``: see :meth:`engine.accuracy.guide.Outcome.to_json`, None where nothing is left;
        ``next``: ``id``, ``title``, ``why`` of the step after it, or None; ``total``: how many
        steps there are.

    Raises:
        UsageError: ``done`` names no steps, or the model is not quantized and was not meant to be.
    """
    recipe = recipe_of(params)
    known = [step.id for step in STEPS]
    done = params.get("done") or []
    if not isinstance(done, list) or not set(done) <= set(known):
        raise UsageError(f"done is a list of steps, of {', '.join(known)}.")
    if not recipe.dataset.dataset:
        raise UsageError(
            "The accuracy guide needs samples, and no dataset is set.",
            remedy="Set dataset to a dataset.txt or a folder of pictures.",
        )
    probe = Probe(pipeline_of(recipe, reporter, stages=()), _reference(params.get("reference")))
    holds = _facts(recipe, probe)
    step = _asked(params.get("step"), known) or following(done, holds)
    if step is None:
        return {"step": None, "next": None, "total": len(STEPS)}
    reporter.emit(StageStarted("guide", step.title, 0, 0))
    begun = time.perf_counter()
    outcome = _CHECKS[step.id](probe)
    reporter.emit(StageFinished("guide", round(time.perf_counter() - begun, 4)))
    after = following([*done, step.id], holds)
    told = None if after is None else {"id": after.id, "title": after.title, "why": after.why}
    return {"step": outcome.to_json(step), "next": told, "total": len(STEPS)}


def _asked(wanted: Any, known: list[str]) -> Step | None:
    if wanted is None:
        return None
    if wanted not in known:
        raise UsageError(
            f"The guide has no step {printable(str(wanted), 40)}.",
            remedy=did_you_mean(str(wanted), known) or f"It has {', '.join(known)}.",
        )
    return STEPS[known.index(wanted)]


def _facts(recipe: Recipe, probe: Probe) -> Callable[[Fact], bool]:
    options = recipe.quantization
    algorithm = options.quantized_algorithm
    place = _ALGORITHMS.index(algorithm) if algorithm in _ALGORITHMS else 0

    def holds(fact: Fact) -> bool:
        if fact == "always":
            return True
        if fact in ("float wrong", "float right"):
            return (float_verdict(probe) == "fail") == (fact == "float wrong")
        if float_verdict(probe) == "fail" or quantized_verdict(probe) == "pass":
            return False
        if fact == "quantized short":
            return True
        if fact == "per layer":
            return options.quantized_method == "layer"
        return place < _ALGORITHMS.index(fact.removeprefix("before "))

    return holds


def _reference(paths: Any) -> list[np.ndarray] | None:
    """The user's outputs of the original framework.

    Raises:
        UsageError: no list of readable npy files.
    """
    if paths is None:
        return None
    if not isinstance(paths, list) or not all(isinstance(p, str) and p for p in paths):
        raise UsageError("reference is a list of npy files, one per output.")
    arrays = []
    for path in paths:
        try:
            arrays.append(read_npy(Path(path)))
        except (OSError, ValueError) as error:
            raise UsageError(
                f"The reference {printable(path)} could not be read: {printable(str(error), 200)}",
                remedy="Save every output of the original framework with numpy.save.",
            ) from error
    return arrays
