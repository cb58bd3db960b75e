"""Typed functions of the cost on chips (estimated): ``estimate``, ``check``, ``ways_to_rate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.api.typed import pipeline_of
from engine.base.events import Reporter
from engine.cost.chips import chips_named
from engine.pipeline.costs import check as checked
from engine.pipeline.costs import estimates, resized
from engine.pipeline.goals import ways_to_rate as ways
from engine.recipe import Recipe
from engine.wire.cost import CheckAnswer, Estimates, WhatIf
from engine.wire.goal import Ways


def estimate(
    model: Recipe | Path | str,
    chips: Sequence[str] = (),
    *,
    dtype: str | None = None,
    input_sizes: Sequence[str] = (),
    batch: int | None = None,
    cores: int = 1,
    npu_mhz: float | None = None,
    reporter: Reporter | None = None,
    use_cache: bool = True,
    allow_code: Sequence[Path] = (),
) -> Estimates:
    """What a model costs on each chip: placement, cycles, time and memory, layer by layer.

    Args:
        model: a recipe, or the file of a source model.
        chips: names; all of both generations where empty.
        dtype: ``int8`` or ``float16``; None: as the recipe, float16 where a chip has no int8.
        input_sizes: ``NAME=1,3,640,640`` for each input that is to have another shape, or
            ``640x640`` of an image.
        batch: inferences at once; None: the recipe's ``rknn_batch_size``, else 1.
        cores: NPU cores that share an inference; a chip with fewer takes all that it has.
        npu_mhz: clock of the NPU; None: the highest.
        reporter: told of stages and progress, asked whether to stop.
        use_cache: whether results of stages are taken from the user's cache and kept there.
        allow_code: the Python files of ``custom_ops`` that may run.

    Returns:
        One estimate a chip; a chip that cannot have the model has a ``problem``. Every figure is
        estimated.

    Raises:
        UsageError: a chip or dtype is not known, or a shape is not fixed.
        EngineError: the model cannot be loaded.
    """
    if batch is not None and not 1 <= batch <= 1024:
        raise ValueError("batch is a whole number from 1 to 1024")
    if not 1 <= cores <= 8:
        raise ValueError("cores is a whole number from 1 to 8")
    if npu_mhz is not None and not 1 <= npu_mhz <= 10_000:  # NaN is not, either
        raise ValueError("npu_mhz is a number from 1 to 10000")
    pipeline = resized(
        pipeline_of(_recipe(model), reporter, use_cache, allow_code, "estimate"), input_sizes
    )
    names = tuple(chip.name for chip in chips_named(chips))
    what_if = WhatIf(names, dtype, batch=batch, npu_mhz=npu_mhz, cores=cores)
    return estimates(pipeline, what_if, spans=True)


def check(
    model: Recipe | Path | str,
    chips: Sequence[str] = (),
    *,
    dtype: str | None = None,
    reporter: Reporter | None = None,
    use_cache: bool = True,
    allow_code: Sequence[Path] = (),
) -> CheckAnswer:
    """Which layers do not run on the NPU of each chip, why, and what to do; as :func:`estimate`."""
    pipeline = pipeline_of(_recipe(model), reporter, use_cache, allow_code, "estimate")
    return checked(pipeline, tuple(chip.name for chip in chips_named(chips)), dtype)


def ways_to_rate(
    model: Recipe | Path | str,
    fps: float,
    chips: Sequence[str] = (),
    *,
    dtype: str | None = None,
    input_sizes: Sequence[str] = (),
    reporter: Reporter | None = None,
    use_cache: bool = True,
    allow_code: Sequence[Path] = (),
) -> Ways:
    """What the chips need that do not reach a frame rate for sure: tips of the manuals, a smaller
    input; the arguments are those of :func:`estimate`.

    Args:
        model: a recipe, or the file of a source model.
        fps: frames a second to reach.
        chips, dtype, input_sizes, reporter, use_cache, allow_code: as of :func:`estimate`.
    """
    if not fps > 0:
        raise ValueError("fps is a number above 0")
    pipeline = resized(
        pipeline_of(_recipe(model), reporter, use_cache, allow_code, "estimate"), input_sizes
    )
    names = tuple(chip.name for chip in chips_named(chips))
    return ways(pipeline, WhatIf(names, dtype, tuple(input_sizes)), fps)


def _recipe(model: Recipe | Path | str) -> Recipe:
    if isinstance(model, Recipe):
        return model
    return Recipe.from_values({"model": str(model)}, Path.cwd())
