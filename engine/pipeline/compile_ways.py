"""Other ways to a compiled model, for a toolkit that fails on the one that was asked for.

They go from what costs least: a lower level of its optimizer (the numbers stay ours, some layers
are not merged), one scale for all channels of a weight, its own quantization by the same recipe and
samples. There are no more than these, so that a model that cannot be compiled is told soon.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.base.errors import EngineError
from engine.base.findings import Finding
from engine.base.plain import JsonValue
from engine.graph.execute import Session
from engine.graph.metrics import ErrorSums, error_sums
from engine.pipeline.compile_sources import HandedModel

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline
    from engine.wire.compile import Compiled

_LOWER_LEVELS = (2, 0)


@dataclass(frozen=True)
class Way:
    """A way to compile a model.

    Attributes:
        handed: what the toolkit is given.
        words: what is different from what was asked for; empty where nothing is.
        remedy: how to have it at once.
    """

    handed: HandedModel
    words: str = ""
    remedy: str = ""


def ways(asked: HandedModel, quantizer: str | None) -> Iterator[Way]:
    """The way that was asked for, then others.

    Args:
        asked: the model as it was asked for.
        quantizer: that the user named; no other is tried then.
    """
    yield Way(asked)
    if asked.generation == 1:
        return
    recipe = asked.pipeline.recipe
    part = recipe.quantization

    def changed(words: str, **values: object) -> Way:
        pipeline = asked.pipeline.with_recipe(recipe.with_values(**values))
        pipeline.reporter = asked.pipeline.reporter
        return Way(
            replace(asked, pipeline=pipeline), words, f"Set {words} in the recipe to have it so."
        )

    for level in _LOWER_LEVELS:
        if level < part.optimization_level:
            yield changed(f"optimization_level {level}", optimization_level=level)
    if asked.by != "ours" or not asked.pipeline.quantized_build:
        return
    if part.quantized_method == "channel":
        yield changed("quantized_method layer", quantized_method="layer")
    if quantizer is None:
        yield vendors_way(asked)


def vendors_way(asked: HandedModel, *, ours: bool = True) -> Way:
    """The toolkit's own quantization by the same recipe.

    Args:
        asked: the model as it was asked for.
        ours: whether there is a quantized build of ours beside it.
    """
    pipeline = asked.pipeline
    if not ours:
        pipeline = pipeline.with_recipe(pipeline.recipe.with_values(do_quantization=False))
        pipeline.reporter = asked.pipeline.reporter
    return Way(
        replace(asked, by="vendor", pipeline=pipeline),
        "the toolkit's own quantization",
        "Name --quantizer vendor to have it so, or --quantizer ours to have none.",
    )


def changes(asked: Pipeline, taken: Pipeline) -> dict[str, JsonValue]:
    """Options that a way has otherwise than what was asked for."""
    names = ("optimization_level", "quantized_method")
    values = {name: taken.recipe.value(name) for name in names}
    return {name: value for name, value in values.items() if value != asked.recipe.value(name)}


def another_way_finding(
    way: Way, asked: HandedModel, error: EngineError, found: Compiled, planned: int | None
) -> Finding:
    """That a model was compiled another way than it was asked for, and what that costs.

    Args:
        way: that was taken.
        asked: what was asked for.
        error: why that was not compiled.
        found: the compiled model.
        planned: cycles of what was asked for, by the plan.
    """
    costs = []
    if found.total_cycles and planned:
        more = 100 * (found.total_cycles / planned - 1)
        costs.append(
            f"It takes {found.total_cycles:,} cycles by the compiler ({more:+.0f} % against the "
            f"plan of what was asked for, {planned:,})."
        )
    before = None if way.handed.pipeline is asked.pipeline else _sqnr(asked.pipeline)
    after = None if before is None else _sqnr(way.handed.pipeline)
    theirs = [row.sqnr_db for row in found.outputs if row.sqnr_db is not None]
    if before is not None and after is not None and way.handed.by == "ours":
        costs.append(
            f"The lowest SQNR of an output is {after:.1f} dB against {before:.1f} dB (simulated, "
            "one sample)."
        )
    elif way.handed.by == "vendor" and theirs:
        ours = _sqnr(asked.pipeline)
        against = "" if ours is None else f" against {ours:.1f} dB of ours (one sample)"
        costs.append(
            f"The lowest SQNR of an output is {min(theirs):.1f} dB in its simulator{against}."
        )
    return Finding(
        "compiled-another-way",
        "warning",
        found.chip,
        f"The model as asked for fails, and was compiled with {way.words}. " + " ".join(costs),
        f"{error.what} {error.cause}".strip(),
        way.remedy,
    )


def failed_ways(error: EngineError, tried: list[str]) -> EngineError:
    """The first error, with the ways that failed as well."""
    if not tried:
        return error
    return type(error)(
        error.what,
        cause=error.cause,
        remedy=f"Tried as well, in vain: {', '.join(tried)}. {error.remedy}",
    )


def _sqnr(pipeline: Pipeline) -> float | None:
    """The lowest SQNR of an output on the first calibration sample, in dB; None: not known."""
    try:
        build, float_graph = pipeline.quantized.graph.graph, pipeline.optimised.graph.graph
        feed = next(iter(pipeline.feeds(pipeline.dataset.first(1))), None)
        if feed is None:
            return None
        simulated, true = Session(build).run(feed), Session(float_graph).run(feed)
    except EngineError:
        return None
    levels = []
    for spec in float_graph.outputs:
        sums = ErrorSums() + error_sums(true[spec.name], simulated[spec.name])[0]
        if sums.sqnr is not None:
            levels.append(sums.sqnr)
    return min(levels, default=None)
