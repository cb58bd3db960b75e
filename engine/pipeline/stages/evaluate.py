"""How far the simulated results are from the float ones, and which layers run in integers."""

from __future__ import annotations

from engine.pipeline.layers import quantized_of
from engine.pipeline.pipeline import Codec, Pipeline, Stage
from engine.pipeline.results import Evaluation

__all__ = ["EVALUATE"]


def _evaluate(pipeline: Pipeline, key: str) -> Evaluation:
    from engine.accuracy.evaluate import evaluate
    from engine.simulate import integer_coverage

    done = quantized_of(pipeline)
    outputs, layers = evaluate(done, pipeline.feeds(), pipeline.reporter)
    return Evaluation(key, outputs, layers, integer_coverage(done.graph, done.layers))


EVALUATE: Stage[Evaluation] = Stage(
    name="evaluate",
    title="Compare simulated with float",
    run=_evaluate,
    inputs=("quantize",),
    codec=Codec(Evaluation.to_files, lambda _, key, files: Evaluation.from_files(key, files)),
    quantized_only=True,
)
