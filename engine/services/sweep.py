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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.accuracy.evaluate import evaluate
from engine.base.errors import EngineError, UsageError, WorkerError, internal_error
from engine.base.events import (
    NullReporter,
    Progress,
    Reporter,
    StageFinished,
    StageStarted,
)
from engine.base.resources import resource_error
from engine.base.text import did_you_mean, sanitize
from engine.base.trust import trusted_code, trusting
from engine.dataset import read_dataset, require_files
from engine.jobs.cluster import ClusterAddress, open_cluster
from engine.options import OPTIONS, Values
from engine.pipeline.layers import quantized_of
from engine.pipeline.pipeline import reported_stages
from engine.pipeline.stages import STAGES
from engine.recipe import Recipe
from engine.report import samples_text
from engine.services.registry import runs
from engine.services.state import get_pipeline
from engine.wire.codec import encode, typed
from engine.wire.record import record
from engine.wire.sweep import ROW, SWEEP, Cluster, IndexedRow, Output, Row, Sweep, SweepParams

COMBINATIONS_LIMIT = 1000
"""Most builds of one sweep."""


@dataclass(frozen=True)
class Combination:
    """One build of a sweep: the values of its axes, and its whole recipe."""

    values: Values
    recipe: Values

    @property
    def shared(self) -> str:
        """The same for combinations whose first stages are the same."""
        shared = reported_stages(STAGES, "calibrate")
        stage = {option.name: option.stage for option in OPTIONS}
        first = {k: v for k, v in self.recipe.items() if stage.get(k, "load") in shared}
        return json.dumps(first, sort_keys=True)


def combinations(
    recipe: Values, axes: Mapping[str, Sequence[Any]], recipes: Sequence[Values] | None = None
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
                f"There is no option {sanitize(name, 60)}.", remedy=did_you_mean(name, known)
            )
        if not values:
            raise UsageError(f"The axis {name} has no values.", remedy="Give a list of values.")
        for value in values:
            known[name].check(value)
    bases = [recipe] if recipes is None else list(recipes)
    total = len(bases)
    for values in axes.values():
        total *= len(values)
    if total > COMBINATIONS_LIMIT:
        raise UsageError(
            f"The sweep has {total} combinations.",
            cause=f"At most {COMBINATIONS_LIMIT} are built at a time.",
            remedy="Leave out axes or values.",
        )
    rows = []
    for base, chosen in itertools.product(bases, itertools.product(*axes.values())):
        own = dict(zip(axes, chosen, strict=True))
        model = {} if recipes is None else {"model": base.get("model")}
        rows.append(Combination({**model, **own}, {**base, **own}))
    return rows


@runs(SWEEP)
def sweep(params: SweepParams, reporter: Reporter) -> Sweep:
    """Build every combination; a row each, in their order.

    Raises:
        UsageError: the axes do not fit, Dask is missing, or the cluster's address does not do.
        DatasetError: the dataset of the comparison, or a file of it, is missing or unreadable.
        WorkerError: the cluster does not answer.
    """
    if params.evaluation:  # else every combination would be built, and then fail for it
        require_files(read_dataset(Path(params.evaluation), reporter=reporter), reporter)
    axes = params.axes or {}
    chosen = combinations(params.recipe, axes, params.recipes)
    workers = min(len(chosen), params.workers or len(os.sched_getaffinity(0)))
    rows: list[Row | None] = [None] * len(chosen)
    reporter.emit(StageStarted("sweep", f"Build {len(chosen)} combinations", 0, 1))
    begun = time.perf_counter()
    with open_cluster(_address(params.cluster), max(1, workers)) as cluster:
        for batch in _batches(chosen):
            texts = {number: _task(chosen[number], params.evaluation) for number in batch}
            for number, answer in cluster.run(run_combination, texts, reporter):
                rows[number] = row = _row(chosen[number].values, answer)
                done = sum(row is not None for row in rows)
                reporter.emit(Progress("sweep", done, len(rows)))
                reporter.emit(ROW.event(IndexedRow(index=number, **vars(row))))
            if reporter.finish_requested():
                break
    reporter.emit(StageFinished("sweep", round(time.perf_counter() - begun, 3)))
    kept = tuple(row for row in rows if row is not None)
    return Sweep(
        axes=axes,
        rows=kept,
        left_out=len(rows) - len(kept),
        compared_on=_compared_on(kept, bool(params.evaluation)),
        label="simulated",
    )


def _compared_on(rows: Sequence[Row], evaluation: bool) -> str:
    """Which samples the figures of rows are over."""
    if evaluation:
        return "evaluation dataset"

    samples = dict.fromkeys(
        samples_text(output.samples, row.samples or 0)
        for row in rows
        for output in row.outputs or ()
    )
    return " or ".join(samples).removeprefix("the ") or "calibration samples"


def _batches(chosen: list[Combination]) -> Iterator[list[int]]:
    """First one build of each kind that shares its first stages, then what finds them cached."""
    first: dict[str, int] = {}
    for number, combination in enumerate(chosen):
        first.setdefault(combination.shared, number)
    yield sorted(first.values())
    rest = [number for number in range(len(chosen)) if number not in set(first.values())]
    if rest:
        yield rest


def _address(cluster: Cluster | None) -> ClusterAddress | None:
    if cluster is None:
        return None
    files = (cluster.authority, cluster.certificate, cluster.key)
    return ClusterAddress(cluster.address, *(None if f is None else Path(f) for f in files))


@record
class _Task:
    """A combination as a process of the cluster gets it."""

    values: Values
    recipe: Values
    evaluation: str | None
    folder: str
    allow_code: tuple[str, ...]


def _task(combination: Combination, evaluation: str | None) -> str:
    code = tuple(sorted(str(path) for path in trusted_code()))
    values, recipe = combination.values, combination.recipe
    return json.dumps(encode(_Task(values, recipe, evaluation, str(Path.cwd()), code)))


def _row(values: Values, answer: str | Exception) -> Row:
    if isinstance(answer, str):
        return typed(Row, json.loads(answer))
    if not isinstance(answer, EngineError):
        answer = WorkerError(
            f"The build ended with its process: {sanitize(str(answer), 200)}",
            cause="Native code crashed, or memory ran out.",
            remedy="Build this combination alone; its log says more.",
        )
    return Row(values=values, state="failed", error=answer.to_dict())


def run_combination(text: str) -> str:
    """One task of a sweep, in a process of the cluster: JSON in, JSON out; it never raises."""
    task = typed(_Task, json.loads(text))
    begun = time.perf_counter()
    try:
        with trusting(list(task.allow_code)):
            row = _built(task)
    except EngineError as error:
        row = _row(task.values, error)
    except Exception as error:  # noqa: BLE001 - nobody else would tell the user
        mistake = resource_error(error) or internal_error(
            error, "Build this combination alone; its log has the details."
        )
        row = _row(task.values, mistake)
    else:
        row = replace(row, seconds=round(time.perf_counter() - begun, 3))
    return json.dumps(encode(row))


def _built(task: _Task) -> Row:
    recipe = Recipe.from_values(task.recipe, Path(task.folder))
    pipeline = get_pipeline(recipe)
    if not pipeline.quantized_build:
        raise UsageError(
            "A build without quantization has nothing to compare.",
            remedy="Leave do_quantization at yes in a sweep.",
        )
    done = pipeline.quantized
    if task.evaluation:
        feeds = pipeline.feeds(read_dataset(Path(task.folder) / task.evaluation))
        outputs, _ = evaluate(quantized_of(pipeline), feeds, NullReporter(), layers=False)
    else:
        outputs = pipeline.evaluation.outputs
    return Row(
        values=task.values,
        state="done",
        outputs=tuple(
            Output(output.name, output.sqnr_db, output.cosine, output.samples, "simulated")
            for output in outputs
        ),
        samples=pipeline.calibration.samples,
        bytes=len(done.graph.data),
        findings=tuple(finding for finding in pipeline.findings if finding.severity != "info"),
    )
