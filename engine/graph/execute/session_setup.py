"""How sessions of ONNX Runtime are set up: exact integer sums, and one pool of memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx

from engine.base.errors import UsageError
from engine.base.text import did_you_mean, sanitize, shape_text
from engine.graph.execute.runtime import cpu_session, ort, session_options
from engine.graph.ir.spec import TensorSpec

# Does this processor need ONNX Runtime's precision mode for exact integer sums?

_MODE = "session.x64quantprecision"
_OPSET, _IR = 17, 8
_ROWS, _CHANNELS = 8, 256
_STEP, _MIDDLE = 8192, 128
"""Scale and zero point of the convolution's result."""


def keep_sums_exact(options: ort.SessionOptions) -> None:
    """Switch the precision mode on where integer sums would be wrong without it.

    The mode turns int8 weights into uint8, whose kernels sum in 32 bits and take up to twice the
    time. With VNNI it changes no number.
    """
    if kernels_saturate():
        options.add_session_config_entry(_MODE, "1")


@lru_cache(maxsize=1)
def kernels_saturate() -> bool:
    """Whether U8S8 kernels are wrong here, as they run by default; tried once a process.

    x86 processors without VNNI add pairs of 8-bit products in 16 bits that saturate. A convolution
    and a product of matrices whose pairs are as large as they get are compared with sums in int64.
    """
    signs = opposing_signs()
    pixels = np.full((1, _CHANNELS, 4, 4), 255, np.uint8)
    rows = np.full((5, _CHANNELS), 255, np.uint8)
    conv, product = _probe().run(None, {"pixels": pixels, "rows": rows})
    sums = 255 * np.sign(signs).astype(np.int64).sum(axis=1)
    rounded = np.rint(sums * 127 / _STEP) + _MIDDLE  # far from halves, and from 0 and 255
    return not (
        np.array_equal(conv[0].reshape(_ROWS, -1).T, np.broadcast_to(rounded, (16, _ROWS)))
        and np.array_equal(product, np.broadcast_to(127 * sums, (5, _ROWS)))
    )


def opposing_signs() -> np.ndarray:
    """Weights (8, 256) int8 of 127 and -127 in runs of 2 to 16.

    Neighbours of one sign overflow 16 bits while the whole sum stays small.
    """
    signs = np.ones((_ROWS, _CHANNELS), dtype=np.int8)
    for row in range(_ROWS):
        run = 2 << (row % 4)
        signs[row] = np.where(np.arange(_CHANNELS) // run % 2, -127, 127)
        signs[row, : 2 * row] = 127
    return signs


def _probe() -> Any:
    """A convolution and a product of uint8 with constant int8; without the precision mode."""
    helper, kinds = onnx.helper, onnx.TensorProto
    signs = opposing_signs()
    arrays: dict[str, np.ndarray] = {
        "kernel": signs.reshape(_ROWS, _CHANNELS, 1, 1),
        "matrix": np.ascontiguousarray(signs.T),
        "one": np.array(1.0, np.float32),
        "pixel zero": np.array(0, np.uint8),
        "kernel zero": np.array(0, np.int8),
        "step": np.array(_STEP, np.float32),
        "middle": np.array(_MIDDLE, np.uint8),
    }
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    read = ["pixels", "one", "pixel zero", "kernel", "one", "kernel zero", "step", "middle"]
    nodes = [
        helper.make_node("QLinearConv", read, ["conv"]),
        helper.make_node("MatMulInteger", ["rows", "matrix"], ["product"]),
    ]
    inputs = [
        helper.make_tensor_value_info("pixels", kinds.UINT8, [1, _CHANNELS, 4, 4]),
        helper.make_tensor_value_info("rows", kinds.UINT8, [5, _CHANNELS]),
    ]
    outputs = [
        helper.make_tensor_value_info("conv", kinds.UINT8, [1, _ROWS, 4, 4]),
        helper.make_tensor_value_info("product", kinds.INT32, [5, _ROWS]),
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "saturation", inputs, outputs, weights),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR,
    )
    return cpu_session(model.SerializeToString(), session_options())


# One pool of memory for sessions that run one after the other.
#
# Every session of ONNX Runtime keeps what its tensors took, for its next run. Of a graph in ten
# parts that is ten times the memory of one of them; from one pool it is that of the largest.

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
def _keeper() -> Any:
    """A session of no size, as only a run can shrink a pool."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "nothing",
        [helper.make_tensor_value_info("x", kind, [0])],
        [helper.make_tensor_value_info("y", kind, [0])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = session_options()
    share_pool(options)
    return cpu_session(model.SerializeToString(), options)


# What a session is fed, checked before ONNX Runtime sees it.


def check_feeds(
    feeds: Mapping[str, np.ndarray], inputs: Sequence[TensorSpec]
) -> dict[str, np.ndarray]:
    """The feeds as contiguous arrays, in the order of the inputs.

    Raises:
        UsageError: a missing or unknown name, or an array of another shape or dtype.
    """
    names = [spec.name for spec in inputs]
    for name in feeds:
        if name not in names:
            listed = ", ".join(sanitize(n, 60) for n in names[:8])
            raise UsageError(
                f"The graph has no input {sanitize(str(name))!r}; it has {listed}.",
                remedy=did_you_mean(str(name), names) or "Feed the inputs that the model has.",
            )
    checked = {}
    for spec in inputs:
        if spec.name not in feeds:
            raise UsageError(
                f"Input {sanitize(spec.name)!r} ({spec.dtype}, {shape_text(spec.shape)}) was not "
                "fed.",
                remedy="Feed an array for every input.",
            )
        array = np.asarray(feeds[spec.name])
        if array.dtype.name != spec.dtype:
            raise UsageError(
                f"Input {sanitize(spec.name)!r} takes {spec.dtype}; it was fed {array.dtype.name}.",
                remedy=f"Convert the array to {spec.dtype} first.",
            )
        if not spec.accepts(array.shape):
            raise UsageError(
                f"Input {sanitize(spec.name)!r} has the shape {shape_text(spec.shape)}; it was "
                f"fed {shape_text(array.shape)}.",
                remedy="Give the array the model's layout, with the batch.",
            )
        checked[spec.name] = np.ascontiguousarray(array).reshape(array.shape)
    return checked
