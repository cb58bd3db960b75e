"""Graph rewrites by optimization level; safe on graphs with quantization of their own."""

from engine.graph.passes.base import NearMiss, NodePass, Pass, PassResult
from engine.graph.passes.batch import set_batch_size
from engine.graph.passes.editor import Editor
from engine.graph.passes.every_shape import for_every_shape, rebind_input_shapes
from engine.graph.passes.manager import (
    LEVELS,
    PASSES,
    PIPELINES,
    Optimised,
    Pipeline,
    optimise,
    run_pipeline,
    with_closed_shapes,
)
from engine.graph.passes.optional_passes import OPTIONAL, AppliedPasses, apply_requested

__all__ = [
    "LEVELS",
    "OPTIONAL",
    "PASSES",
    "PIPELINES",
    "AppliedPasses",
    "Editor",
    "NearMiss",
    "NodePass",
    "Optimised",
    "Pass",
    "PassResult",
    "Pipeline",
    "apply_requested",
    "for_every_shape",
    "optimise",
    "rebind_input_shapes",
    "run_pipeline",
    "set_batch_size",
    "with_closed_shapes",
]
