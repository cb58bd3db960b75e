"""The worker's job ``sweep``: many builds of one model, side by side on a Dask cluster.

A sweep is a recipe and axes: an option and the values that it takes. Every combination is built up
to its comparison with the float model; what they share (load, optimise, calibrate) is taken from
the cache. A killed sweep goes on where it was: what is done is in the cache.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import EngineError, InternalError, UsageError, WorkerError
from engine.base.events import (
    NullReporter,
    Partial,
    Progress,
    Reporter,
    StageFinished,
    StageStarted,
)
from engine.base.resources import resource_error
from engine.base.text import did_you_mean, printable
from engine.jobs.confirmed import allowed_code, allowing
from engine.options import OPTIONS

__all__ = ["COMBINATIONS_LIMIT", "Combination", "combinations", "run_combination", "sweep"]

COMBINATIONS_LIMIT = 1000
"""Most builds of one sweep."""

_SHARED = ("load", "optimise", "calibrate")


@dataclass(frozen=True)
class Combination:
    """One build of a sweep: the values of its axes, and its whole recipe."""

    values: Mapping[str, Any]
    recipe: Mapping[str, Any]

    @property
    def shared(self) -> str:
        """The same for combinations whose first stages are the same."""
        stage = {option.name: option.stage for option in OPTIONS}
        first = {k: v for k, v in self.recipe.items() if stage.get(k, "load") in _SHARED}
        return json.dumps(first, sort_keys=True)


def combinations(
    recipe: Mapping[str, Any], axes: Mapping[str, Any], recipes: Any = None
) -> list[Combination]:
    """Every combination of the axes' values, over each of the recipes.

    Args:
        recipe: flat option values.
        axes: option name -> values that it takes.
        recipes: further recipes, flat option values each; ``recipe`` alone when None.

    Raises:
        UsageError: an unknown option, an axis without values, or too many combinations.
        RecipeError: a value does not fit its option.
    """
    known = {option.name: option for option in OPTIONS}
    for name, values in axes.items():
        if name not in known:
            raise UsageError(
                f"There is no option {printable(name, 60)}.", remedy=did_you_mean(name, known)
            )
        if not isinstance(values, list) or not values:
            raise UsageError(f"The axis {name} has no values.", remedy="Give a list of values.")
        for value in values:
            known[name].check(value)
    bases = [dict(recipe)] if recipes is None else [dict(values) for values in recipes]
    total = len(bases)
    for values in axes.values():
        total *= len(values)
    if total > COMBINATIONS_LIMIT:
        raise UsageError(
            f"The sweep has {total} combinations.",
            cause=f"At most {COMBINATIONS_LIMIT} are built at a time.",
            remedy="Leave out axes or values.",
        )
    found = []
    for base, chosen in itertools.product(bases, itertools.product(*axes.values())):
        values = dict(zip(axes, chosen, strict=True))
        model = {} if recipes is None else {"model": base.get("model")}
        found.append(Combination({**model, **values}, {**base, **values}))
    return found


def sweep(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Build every combination; a row each, in their order.

    Params: ``recipe``, ``axes`` {option: [values]}, and where wanted ``recipes``, ``evaluation`` (a
    dataset other than the calibration's to compare on), ``workers``, ``cluster`` {address,
    authority, certificate, key}.

    Returns:
        ``rows``: ``values``, ``state`` (done, failed), ``outputs`` (name, sqnr_db, cosine;
        simulated), ``bytes`` of the quantized graph, ``seconds`` (measured), ``error``;
        ``compared_on``: which samples the figures are over.

    Raises:
        UsageError: the axes do not fit, Dask is missing, or the cluster's address does not do.
        WorkerError: the cluster does not answer.
    """
    from engine.jobs.cluster import open_cluster

    recipe = params.get("recipe")
    if not isinstance(recipe, Mapping):
        raise UsageError("A sweep needs a recipe.")
    chosen = combinations(recipe, params.get("axes") or {}, params.get("recipes"))
    wanted = params.get("workers")
    workers = min(len(chosen), int(wanted) if wanted else len(os.sched_getaffinity(0)))
    rows: list[dict[str, Any] | None] = [None] * len(chosen)
    reporter.emit(StageStarted("sweep", f"Build {len(chosen)} combinations", 0, 1))
    begun = time.perf_counter()
    with open_cluster(_address(params.get("cluster")), max(1, workers)) as cluster:
        for batch in _batches(chosen):
            texts = {number: _task(chosen[number], params) for number in batch}
            for number, answer in cluster.run(run_combination, texts, reporter):
                row = {"values": dict(chosen[number].values), **_row(answer)}
                rows[number] = row
                done = sum(row is not None for row in rows)
                reporter.emit(Progress("sweep", done, len(rows)))
                reporter.emit(Partial("sweep.row", {"index": number, **row}))
            if reporter.finish_asked():
                break
    reporter.emit(StageFinished("sweep", round(time.perf_counter() - begun, 3)))
    kept = [row for row in rows if row is not None]
    return {
        "axes": params.get("axes") or {},
        "rows": kept,
        "left_out": len(rows) - len(kept),
        "compared_on": _compared_on(kept, bool(params.get("evaluation"))),
        "label": "simulated",
    }


def _compared_on(rows: list[dict[str, Any]], evaluation: bool) -> str:
    """Which samples the figures of rows are over."""
    if evaluation:
        return "evaluation dataset"
    from engine.report import samples_text

    told = dict.fromkeys(
        samples_text(output["samples"], row["samples"])
        for row in rows
        for output in row.get("outputs") or ()
    )
    return " or ".join(told).removeprefix("the ") or "calibration samples"


def _batches(chosen: list[Combination]) -> Iterator[list[int]]:
    """First one build of each kind that shares its first stages, then what finds them cached."""
    first: dict[str, int] = {}
    for number, combination in enumerate(chosen):
        first.setdefault(combination.shared, number)
    yield sorted(first.values())
    rest = [number for number in range(len(chosen)) if number not in set(first.values())]
    if rest:
        yield rest


def _address(given: Any) -> Any:
    from engine.jobs.cluster import ClusterAddress

    if not given:
        return None
    if not isinstance(given, Mapping) or not isinstance(given.get("address"), str):
        raise UsageError("cluster is an object with the address of a Dask scheduler.")
    files = (given.get(name) for name in ("authority", "certificate", "key"))
    return ClusterAddress(given["address"], *(None if f is None else Path(str(f)) for f in files))


def _task(combination: Combination, params: Mapping[str, Any]) -> str:
    return json.dumps(
        {
            "recipe": dict(combination.recipe),
            "evaluation": params.get("evaluation"),
            "folder": str(Path.cwd()),
            "allow_code": sorted(str(path) for path in allowed_code()),
        }
    )


def _row(answer: str | Exception) -> dict[str, Any]:
    if isinstance(answer, str):
        data: dict[str, Any] = json.loads(answer)
        return data
    if isinstance(answer, EngineError):
        return {"state": "failed", "error": answer.to_dict()}
    lost = WorkerError(
        f"The build ended with its process: {printable(str(answer), 200)}",
        cause="Native code crashed, or memory ran out.",
        remedy="Build this combination alone; its log tells more.",
    )
    return {"state": "failed", "error": lost.to_dict()}


def run_combination(text: str) -> str:
    """One task of a sweep, in a process of the cluster: JSON in, JSON out; it never raises."""
    task = json.loads(text)
    begun = time.perf_counter()
    try:
        with allowing(task["allow_code"]):
            found = _built(task)
    except EngineError as error:
        return json.dumps({"state": "failed", "error": error.to_dict()})
    except Exception as error:  # noqa: BLE001 - nobody else would tell the user
        mistake = resource_error(error) or InternalError(
            f"This program made a mistake: {type(error).__name__}: {printable(str(error), 200)}",
            cause="A case that was not thought of.",
            remedy="Build this combination alone; its log has the details.",
        )
        return json.dumps({"state": "failed", "error": mistake.to_dict()})
    seconds = round(time.perf_counter() - begun, 3)
    return json.dumps({"state": "done", **found, "seconds": seconds})


def _built(task: Mapping[str, Any]) -> dict[str, Any]:
    from engine.dataset import read_dataset
    from engine.jobs.evaluate import evaluate
    from engine.jobs.warm import pipeline_of
    from engine.recipe import Recipe

    recipe = Recipe.from_values(task["recipe"], Path(task["folder"]))
    pipeline = pipeline_of(recipe)
    if not pipeline.quantized_build:
        raise UsageError(
            "A build without quantization has nothing to compare.",
            remedy="Leave do_quantization at yes in a sweep.",
        )
    done = pipeline.quantized
    if task["evaluation"]:
        feeds = pipeline.feeds(read_dataset(Path(task["folder"]) / str(task["evaluation"])))
        outputs, _ = evaluate(
            pipeline.reference, done.graph.graph, feeds, NullReporter(), layers=False
        )
    else:
        outputs = pipeline.evaluation.outputs
    return {
        "outputs": [
            {
                "name": o.name,
                "sqnr_db": o.sqnr_db,
                "cosine": o.cosine,
                "samples": o.samples,
                "label": "simulated",
            }
            for o in outputs
        ],
        "samples": pipeline.calibration.samples,
        "bytes": len(done.graph.data),
        "findings": [f.to_dict() for f in pipeline.findings if f.severity != "info"],
    }
