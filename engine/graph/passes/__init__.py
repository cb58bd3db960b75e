"""Graph rewrites by optimization level; safe on graphs with quantization of their own."""

from engine.graph.passes.base import NearMiss, NodePass, Pass, PassResult
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

__all__ = [
    "LEVELS",
    "PASSES",
    "PIPELINES",
    "Editor",
    "NearMiss",
    "NodePass",
    "Optimised",
    "Pass",
    "PassResult",
    "Pipeline",
    "optimise",
    "run_pipeline",
]
