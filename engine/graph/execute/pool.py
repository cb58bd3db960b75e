"""One pool of memory for sessions that run one after the other.

Every session of ONNX Runtime keeps what its tensors took, for its next run. Of a graph in ten parts
that is ten times the memory of one of them; from one pool it is that of the largest.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import onnx

from engine.graph.execute.runtime import ort

__all__ = ["release_pool", "share_pool"]

_SHARED = "session.use_env_allocators"
_AS_REQUESTED = 1  # how the pool grows; by powers of two it takes up to twice as much


def share_pool(options: ort.SessionOptions) -> None:
    """Let a session take its memory from the process's pool."""
    _registered()
    options.add_session_config_entry(_SHARED, "1")


def release_pool() -> None:
    """Give back what nobody holds of the pool; arrays that a session gave out hold theirs."""
    if not _registered.cache_info().currsize:
        return
    shrinking = ort.RunOptions()
    shrinking.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    # a tensor without values: one with values would hold the piece that it lies in
    _keeper().run(None, {"x": np.zeros(0, np.float32)}, shrinking)


@lru_cache(maxsize=1)
def _registered() -> bool:
    kind, memory = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, ort.OrtMemType.DEFAULT
    ort.create_and_register_allocator(
        ort.OrtMemoryInfo("Cpu", kind, 0, memory), ort.OrtArenaCfg(0, _AS_REQUESTED, -1, -1)
    )
    return True


@lru_cache(maxsize=1)
def _keeper() -> ort.InferenceSession:
    """A session of no size, as only a run can shrink a pool."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "nothing",
        [helper.make_tensor_value_info("x", kind, [0])],
        [helper.make_tensor_value_info("y", kind, [0])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    share_pool(options)
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
