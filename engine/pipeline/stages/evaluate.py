"""How far the simulated results are from the float ones, over the calibration samples."""

from __future__ import annotations

from engine.pipeline.layers import quantized_of
from engine.pipeline.pipeline import Codec, Pipeline, Stage
from engine.pipeline.results import Evaluation

__all__ = ["EVALUATE"]


def _evaluate(pipeline: Pipeline, key: str) -> Evaluation:
    from engine.accuracy.evaluate import evaluate

    outputs, layers = evaluate(quantized_of(pipeline), pipeline.feeds(), pipeline.reporter)
    return Evaluation(key, outputs, layers)


EVALUATE: Stage[Evaluation] = Stage(
    name="evaluate",
    title="Compare simulated with float",
    run=_evaluate,
    inputs=("quantize",),
    codec=Codec(Evaluation.to_files, lambda _, key, files: Evaluation.from_files(key, files)),
    quantized_only=True,
)
