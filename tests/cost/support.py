"""A model as the compiler would lay it out: what most tests of costs begin with."""

from __future__ import annotations

from pathlib import Path

import onnx

from engine.cost.lowered import Lowered
from engine.cost.lowering import lower, read_graph
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.memory import plan_memory
from engine.facts.npu import NpuDtype, NpuProfile, npu_profile
from engine.frontends.load import find_source, load_source
from engine.wire.cost import MemoryCost

__all__ = ["laid_out", "npu_of", "planned", "read_file", "read_model"]


def npu_of(chip: str) -> NpuProfile:
    """The family of a chip that has one."""
    npu = npu_profile(chip)
    assert npu is not None, chip
    return npu


def read_file(path: Path) -> LoweringGraph:
    """A file as the lowering reads it."""
    return read_graph(load_source(find_source(path)).graph)


def read_model(model: onnx.ModelProto, folder: Path) -> LoweringGraph:
    """A model, by way of a file."""
    onnx.save(model, path := folder / "model.onnx")
    return read_file(path)


def laid_out(graph: LoweringGraph, chip: str, dtype: str) -> Lowered:
    """The layers; ``i8`` is int8 too, and everything else float16."""
    kind: NpuDtype = "int8" if dtype in ("int8", "i8") else "float16"
    return lower(graph, npu_of(chip), kind)


def planned(graph: LoweringGraph, chip: str, dtype: str) -> MemoryCost:
    """The memory of a graph."""
    return plan_memory(laid_out(graph, chip, dtype), npu_of(chip))
