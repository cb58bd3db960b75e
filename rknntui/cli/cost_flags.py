"""What the verbs that estimate have in common: the model, loaded, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.wire.cost import COST_ESTIMATE, EstimateParams, Estimates
from engine.wire.model import LOAD, LoadParams
from engine.wire.requests import ModelTarget
from rknntui.cli.session import WorkerSession, resolve

__all__ = ["cores_of", "estimated", "load_target"]


def cores_of(masks: Sequence[str]) -> int:
    """How many cores a choice of ``--cores`` takes; ``all`` are as many as a chip has."""
    last = masks[-1] if masks else "auto"
    return 8 if last == "all" else last.count("_") + 1


async def load_target(
    session: WorkerSession, model: Path, given: dict[str, Any], sizes: Sequence[str] = ()
) -> ModelTarget:
    """The model or recipe, loaded: one of TensorFlow or PyTorch is converted first.

    With other sizes of inputs it is loaded with those, by who is asked for an answer.

    Raises:
        EngineError: it cannot be used, or loaded.
    """
    recipe = await resolve(session, model, given)
    if not sizes:
        await session.run(LOAD, LoadParams(recipe=recipe))
    return ModelTarget(recipe=recipe)


async def estimated(
    session: WorkerSession, model: Path, given: dict[str, Any], values: dict[str, Any]
) -> Estimates:
    """What a model costs; ``values``: the other fields of the request."""
    found = await load_target(session, model, given, values.get("input_sizes", ()))
    return await session.call(COST_ESTIMATE, EstimateParams(recipe=found.recipe, **values))
