"""The vendor's simulator beside ours and float, on calibration samples; all is simulated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from engine.base.findings import Finding
from engine.compile.rockchip.agreement import Agreement
from engine.graph.execute import FUSING_LEVEL, Session, as_compiled, fused_roundings
from engine.wire.compile import OutputAgreement

if TYPE_CHECKING:
    from engine.compile.rockchip.compiler import CompilerRun
    from engine.pipeline.compile_sources import HandedModel

__all__ = ["fused_findings", "second_opinion"]


def second_opinion(
    run: CompilerRun, handed: HandedModel, count: int
) -> tuple[OutputAgreement, ...]:
    """How near the two simulators are on each output.

    Ours computes what is compiled: without the roundings that the compiler leaves out at the
    recipe's level.

    Args:
        run: a compilation that is done.
        handed: what was compiled.
        count: samples at most; of 0 nothing is run.

    Raises:
        CompilerError: the vendor's simulator does not run the model.
        DatasetError, RecipeError: there are no samples.
    """
    if not count:
        return ()
    pipeline = handed.pipeline
    quantized = pipeline.quantized if pipeline.quantized_build else None
    wanted = pipeline.optimised.graph.graph
    graph = quantized.graph.graph if quantized else wanted
    ours, true = Session(as_compiled(graph) if _fuses(handed) else graph), Session(wanted)
    rows = []
    for spec in wanted.outputs:
        params = None if quantized is None else quantized.table.get(spec.name)
        integer = params is not None and params.dtype.startswith(("int", "uint"))
        rows.append(Agreement(spec.name, params.scale[0] if integer and params else None))
    batch = pipeline.recipe.quantization.rknn_batch_size or 1
    feeds = pipeline.feeds(pipeline.dataset.first(count))
    for raw, feed in zip(handed.raw_samples(count), feeds, strict=False):
        pipeline.reporter.check_cancelled()
        # a compiled batch of several is given the sample as often, and the first of them counts
        theirs = run.simulate([np.repeat(array, batch, axis=0) for array in raw])
        simulated, float_ = ours.run(feed), true.run(feed)
        for row, output in zip(rows, theirs, strict=True):
            first = output.reshape(batch, -1)[0] if batch > 1 else output
            row.add(first, simulated[row.name], float_[row.name])
    return tuple(row.told() for row in rows)


def _fuses(handed: HandedModel) -> bool:
    level = handed.pipeline.recipe.quantization.optimization_level
    return handed.by == "ours" and level >= FUSING_LEVEL


def fused_findings(handed: HandedModel) -> Iterator[Finding]:
    """That the compiler leaves roundings out, where it does."""
    count = len(fused_roundings(handed.graph)) if _fuses(handed) else 0
    if count:
        yield Finding(
            "roundings-fused",
            "info",
            "optimization_level",
            f"The compiler leaves out {count} of the build's roundings to 8 bits at this level: "
            "what runs is a little nearer to float than the build's simulation.",
            "It hands the sum of a convolution to what is behind it unrounded. The comparison with "
            "its simulator here leaves them out too.",
            "Set optimization_level to 2 where the model is to compute the build's integers.",
        )
