"""The builds of the history as rows: what changed from one to the next, and what is known of each.

A record is data of an earlier run, and perhaps of another version: a value that is not what it
should be counts as absent.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.base.errors import EngineError
from engine.base.plain import Values
from engine.base.text import sanitize
from engine.jobs.history import JobRecord, read_result
from engine.options import OPTIONS, Option
from engine.report import sqnr_rank
from engine.wire.cost import COST_ESTIMATE, EstimateParams, Estimates, Interval
from engine.wire.formats import FIGURE, SHORT_MOMENT

if TYPE_CHECKING:
    from engine.wire.method import Ask, Method
    from engine.wire.sweep import Sweep

_MANY = 3
"""Layers that are named one by one; of more the number is told."""


@dataclass(frozen=True)
class BuildRow:
    """A build of the history.

    Attributes:
        record: its job.
        before: the build of the same model before it; None for the first.
        changes: what its recipe has that the one before had not, in words.
        promoted: layers with a dtype of their own.
        lowest: the lowest SQNR of its outputs in dB, simulated; infinite without noise.
        score: where labelled samples were scored.
        size: bytes of its container.
        time_ms, median_ms: of an inference: estimated, and measured on a board.
        mark: of the one that others are compared with.
    """

    record: JobRecord
    before: JobRecord | None = None
    changes: str = ""
    promoted: int | None = None
    lowest: float | None = None
    score: str | None = None
    size: int | None = None
    time_ms: float | None = None
    median_ms: float | None = None
    mark: str = ""

    @property
    def id(self) -> str:
        """That of its job."""
        return self.record.id

    @property
    def started(self) -> float:
        """When."""
        return self.record.started

    @property
    def state(self) -> str:
        """How it ended."""
        return self.record.state

    @property
    def note(self) -> str | None:
        """What the user wrote about it."""
        return self.record.note or None


def recipe_of(record: JobRecord) -> Values:
    """The recipe that a job is about; empty where it names none."""
    build = record.params.get("build")
    named = build if isinstance(build, Mapping) else record.params
    recipe = named.get("recipe") or record.params.get("recipe")
    return recipe if isinstance(recipe, Mapping) else {}


def result_of(record: JobRecord, method: Method[Any, Any]) -> Any:
    """The result of a job of the history; None where it is gone, or of another version."""
    try:
        result = read_result(record.id)
        return method.read(result) if result is not None else None
    except EngineError:
        return None


def results_of(
    records: Iterable[JobRecord], method: Method[Any, Any], recipe: Values
) -> Iterator[Any]:
    """The results of the finished jobs of a recipe, the newest first."""
    for record in records:
        done = record.method == method.name and record.state == "done"
        if done and recipe_of(record) == recipe:
            result = result_of(record, method)
            if result is not None:
                yield result


def build_rows(records: Sequence[JobRecord], model: object = None) -> list[BuildRow]:
    """The builds among jobs, newest first as these are.

    Args:
        records: of the history.
        model: whose builds; of all where it is none.
    """
    builds = [one for one in records if one.method == "build"]
    if model:
        builds = [one for one in builds if recipe_of(one).get("model") == model]
    scores = _first(records, "evaluate", _score)
    medians = _first(records, "devices.perf", _median)
    rows = []
    for at, record in enumerate(builds):
        recipe, summary = recipe_of(record), record.summary or {}
        done = (old for old in builds[at + 1 :] if old.state == "done")
        named = recipe.get("model")
        before = next((old for old in done if recipe_of(old).get("model") == named), None)
        same = _same(recipe)
        rows.append(
            BuildRow(
                record,
                before,
                _changed(record, before),
                len(_layers(recipe)),
                min(output_decibels(summary).values(), default=None),
                scores.get(same),
                number(summary.get("container_bytes")),
                median_ms=medians.get(same),
            )
        )
    return rows


def _same(recipe: Values) -> str:
    """Equal for equal recipes."""
    return repr(sorted(recipe.items()))


def _first(records: Iterable[JobRecord], method: str, figure: Any) -> dict[str, Any]:
    """Recipe -> the figure of the newest job of that method."""
    found: dict[str, Any] = {}
    for record in records:
        if record.method == method and record.state == "done":
            value = figure(record.summary or {})
            if value is not None:
                found.setdefault(_same(recipe_of(record)), value)
    return found


def dicts(value: object) -> list[Values]:
    """The mappings in a list of a record."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def number(value: object) -> Any:
    """A number of a record; None where it is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _score(summary: Values) -> str | None:
    for score in dicts(summary.get("scores")):
        value = number(score.get("simulated"))
        if value is not None:
            return f"{sanitize(str(score.get('name')), 20)} {FIGURE.text(value)}"
    return None


def _median(summary: Values) -> float | None:
    if summary.get("label") == "emulated":  # it stands beside measured ones
        return None
    medians = [number(point.get("median")) for point in dicts(summary.get("points"))]
    return min((value / 1000 for value in medians if value is not None), default=None)


def output_decibels(result: Values) -> dict[str, float]:
    """Output -> SQNR in dB of a build's result; infinite without noise."""
    outputs = dicts(result.get("outputs"))
    named = [(str(one.get("name")), one.get("sqnr_db")) for one in outputs if "sqnr_db" in one]
    known = [(name, math.inf if db is None else number(db)) for name, db in named]
    return {name: db for name, db in known if db is not None}


# Error against time.


class Tried(NamedTuple):
    """A build or a variant with its lowest SQNR; ``name``: what it is, in words."""

    id: str
    recipe: Values
    lowest: float
    name: str
    variant: bool = False


Priced = tuple[float, Tried]
"""Estimated milliseconds of it on one chip."""


def tried(rows: Iterable[BuildRow], recipe: Values, sweep: Sweep | None) -> list[Tried]:
    """The builds that are done, and the variants of a recipe."""
    found = [
        Tried(row.id, recipe_of(row.record), row.lowest, f"{when}: {row.changes}")
        for row in rows
        if row.state == "done" and row.lowest is not None
        for when in [SHORT_MOMENT.text(row.started)]
    ]
    for at, one in enumerate(sweep.rows if sweep is not None else ()):
        if one.outputs:
            lowest = min(sqnr_rank(out.sqnr_db) for out in one.outputs)
            values = {**recipe, **one.values}
            name = ", ".join(change_words(recipe, values)) or "the recipe"
            found.append(Tried(f"{at} {one.values}", values, lowest, f"variant: {name}", True))
    return found


def pareto_front(points: Iterable[Priced]) -> list[Priced]:
    """The undominated ones by time: nothing that is as fast has a higher SQNR."""
    best: list[Priced] = []
    for point in sorted(points, key=lambda one: (one[0], -one[1].lowest)):
        if not best or point[1].lowest > best[-1][1].lowest:
            best.append(point)
    return best


async def build_times(
    ask: Ask, builds: Iterable[tuple[str, Values]], chip: str | None = None
) -> AsyncIterator[tuple[str, float | None]]:
    """The estimated milliseconds of an inference of builds, one after the other.

    Args:
        ask: answers a query, as that of :func:`engine.gather_report`.
        builds: what each is called, and its recipe.
        chip: that it is estimated for; None: each recipe's own.

    Yields:
        what it is called, and its time; None where there is no estimate.
    """
    for name, recipe in builds:
        time: Interval | None = None
        if target := chip or recipe.get("target_platform"):
            params = EstimateParams(recipe=dict(recipe), chips=(str(target),), layers=False)
            with contextlib.suppress(EngineError):  # its model is gone
                answer: Estimates | None = await ask(COST_ESTIMATE, params)
                time = answer.chips[0].time_ms if answer is not None and answer.chips else None
        yield name, None if time is None else time.value


# What changed between two recipes, in words.


def _changed(record: JobRecord, before: JobRecord | None) -> str:
    anew = ["without the cache"] if record.params.get("refresh") else []
    if before is None:
        return ", ".join(["first build", *anew])
    words = change_words(recipe_of(before), recipe_of(record))
    return ", ".join([*words, *anew]) or "nothing"


def changed_options(before: Values, after: Values) -> Iterator[tuple[Option, Any, Any]]:
    """Every option that differs between two recipes, with both values."""
    for option in OPTIONS:
        old, new = (side.get(option.name, option.default) for side in (before, after))
        if old != new:
            yield option, old, new


def changed_entries(old: Any, new: Any) -> list[str] | None:
    """The keys of two values that differ; None where these are no mappings."""
    a, b = old or {}, new or {}
    if not isinstance(a, Mapping) or not isinstance(b, Mapping):
        return None
    return [name for name in {**a, **b} if a.get(name) != b.get(name)]


def change_words(before: Values, after: Values) -> list[str]:
    """Every option that differs, in the order of the options: ``quantized_algorithm mmse``."""
    words = []
    for option, old, new in changed_options(before, after):
        if option.name == "quantized_layers":
            words += _promotions(_layers(before), _layers(after))
        elif (names := changed_entries(old, new)) is not None:
            words.append(f"{option.name} of {_named(names)}")
        elif isinstance(new, bool):
            words.append(f"{option.name} {'on' if new else 'off'}")
        else:
            words.append(f"{option.name} {value_text(option, old)} → {value_text(option, new)}")
    return words


def value_text(option: Option, value: Any) -> str:
    """A value of an option; of a path its last part."""
    if value is None:
        return "none"
    try:
        text = sanitize(option.render(value), 300)
    except (TypeError, ValueError, AttributeError):  # of another version
        text = sanitize(str(value), 300)
    return text.rsplit("/", 1)[-1] if "path" in str(option.kind) else text


def _layers(recipe: Values) -> Values:
    layers = recipe.get("quantized_layers")
    return layers if isinstance(layers, Mapping) else {}


def _promotions(before: Values, after: Values) -> list[str]:
    words = []
    for dtype in sorted({str(value) for value in after.values()}):
        names = [n for n, value in after.items() if str(value) == dtype and before.get(n) != value]
        if names:
            words.append(f"{_named(names)} to {dtype}")
    gone = [name for name in before if name not in after]
    return [*words, f"{_named(gone)} as the model again"] if gone else words


def _named(names: Sequence[str]) -> str:
    if len(names) > _MANY:
        return f"{len(names)} layers"
    return " and ".join(sanitize(str(name), 300) for name in names)
