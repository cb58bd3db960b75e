"""A graph that runs in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from engine.graph.execute.runtime import ort
from engine.graph.ir.graph import Graph
from engine.graph.ir.spec import TensorSpec

__all__ = ["Session"]


class Session:
    """Minimal first form."""

    def __init__(
        self,
        model: Graph | bytes,
        *,
        outputs: Sequence[str] | None = None,
        threads: int = 1,
        optimised_model: Path | None = None,
        level: str = "extended",
    ) -> None:
        if outputs and isinstance(model, bytes):
            model = Graph.from_bytes(model)
        if isinstance(model, Graph):
            if outputs:
                model = model.copy()
                have = {v.name for v in model.model.graph.outputs}
                for name in outputs:
                    if name not in have:
                        model.model.graph.outputs.append(model.value(name))
            data = model.to_bytes()
        else:
            data = model
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = {
            "disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
            "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
            "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
            "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
        }[level]
        options.add_session_config_entry("session.x64quantprecision", "1")
        if optimised_model is not None:
            options.optimized_model_filepath = str(optimised_model)
        self._session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Inputs."""
        return tuple(_spec(arg) for arg in self._session.get_inputs())

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Outputs."""
        return tuple(_spec(arg) for arg in self._session.get_outputs())

    def run(
        self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None
    ) -> dict[str, np.ndarray]:
        """Run."""
        names = list(outputs) if outputs else [spec.name for spec in self.outputs]
        return dict(zip(names, self._session.run(names, dict(feeds)), strict=True))


_DTYPES = {"float": "float32", "double": "float64"}


def _spec(arg: ort.NodeArg) -> TensorSpec:
    dtype = arg.type.removeprefix("tensor(").removesuffix(")")
    shape = tuple(d if isinstance(d, int) else -1 for d in arg.shape)
    return TensorSpec(arg.name, shape, _DTYPES.get(dtype, dtype))
