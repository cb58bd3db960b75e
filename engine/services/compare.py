"""The job ``compare.board``: a build compared three ways, on a board too."""

from __future__ import annotations

from pathlib import Path

from engine.base.events import Reporter
from engine.services.registry import runs
from engine.services.state import get_pipeline, recipe_at
from engine.wire.compare import COMPARE_BOARD, CompareParams, Comparison


@runs(COMPARE_BOARD)
def board(params: CompareParams, reporter: Reporter) -> Comparison:
    """Compare golden, simulator and board on one sample; tensors are written where asked.

    Raises:
        UsageError: the build is not quantized, or the compiled model is of another one.
        DeviceError: the board cannot be reached or used.
        OutputExistsError: the folder is not empty.
    """
    from engine.pipeline.analysis import compare_build
    from engine.pipeline.board import BoardChoice

    pipeline = get_pipeline(recipe_at(params), reporter, last="quantize", then=("board",))
    compiled = None if params.compiled is None else Path(params.compiled)
    comparison, files = compare_build(
        pipeline,
        BoardChoice(params.device, compiled=compiled),
        None if params.inputs is None else [Path(path) for path in params.inputs],
        None if params.output_dir is None else Path(params.output_dir),
        layers=params.layers,
        force=params.force,
        rounding=params.rounding,
    )
    return comparison.told(files)
