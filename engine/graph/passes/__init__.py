"""Graph rewrites by optimization level; safe on graphs with quantization of their own."""

from engine.graph.passes.base import NearMiss, NodePass, Pass, PassResult
from engine.graph.passes.batch import widen_batch
from engine.graph.passes.editor import Editor
from engine.graph.passes.manager import (
    LEVELS,
    PASSES,
    PIPELINES,
    Optimised,
    Pipeline,
    optimise,
    run_pipeline,
)
from engine.graph.passes.retarget import for_other_shapes
from engine.graph.passes.wishes import WISHED, Rewritten, rewrite_as_wished

__all__ = [
    "LEVELS",
    "PASSES",
    "PIPELINES",
    "WISHED",
    "Editor",
    "NearMiss",
    "NodePass",
    "Optimised",
    "Pass",
    "PassResult",
    "Pipeline",
    "Rewritten",
    "for_other_shapes",
    "optimise",
    "rewrite_as_wished",
    "run_pipeline",
    "widen_batch",
]
