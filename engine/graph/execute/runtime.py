"""ONNX Runtime, imported the one way that leaves nothing behind: no telemetry, no log lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

# Without this, importing onnxruntime 1.31 writes a device id and a database into the home folder.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as _state

# 4: fatal only; anything else is raised as well and would be written over the screen
ort.set_default_logger_severity(4)

# Its errors have no base class of their own. It raises RuntimeError and ValueError from Python.
RUNTIME_ERRORS: tuple[type[Exception], ...] = (
    _state.Fail,
    _state.InvalidArgument,
    _state.InvalidGraph,
    _state.InvalidProtobuf,
    _state.EPFail,
    _state.EngineError,
    _state.ModelRequiresCompilation,
    _state.NoModel,
    _state.NoSuchFile,
    _state.NotFound,
    _state.NotImplemented,
    _state.RuntimeException,
    RuntimeError,
    ValueError,
)

# Pad_Fusion of ONNX Runtime 1.31 moves a Pad with zeros into MaxPool, which pads with the lowest
# number: other results wherever a window at the edge holds negative numbers alone (ResNet V2).
#
# WeightBiasQuantization rounds float weights to int8 wherever the input of their layer was
# dequantized: also those that are float on purpose, between tensors of 16 bits.
WRONG_FUSIONS = ["Pad_Fusion", "WeightBiasQuantization"]

_SHORTAGES = ("bad_alloc", "Failed to allocate memory", "Cannot allocate memory", "bad allocation")


def refuse_shortage(error: BaseException) -> None:
    """Raise what means that memory ran out as such: it says nothing of the graph.

    Where a graph that does not run is left as it is, a shortage would otherwise give another
    result, which a cache then keeps.

    Raises:
        MemoryError: ``error`` is one, or ONNX Runtime's way to say so.
    """
    if isinstance(error, MemoryError) or any(mark in str(error) for mark in _SHORTAGES):
        raise MemoryError(str(error)[:200]) from error


def session_options(threads: int = 1) -> Any:
    """What all sessions have in common: operators run one after the other, and nothing is logged.

    Args:
        threads: of one operator.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    return options


def cpu_session(model: bytes, options: Any, without: Sequence[str] = ()) -> Any:
    """A session of a serialized ModelProto on the CPU; ``without`` these rewrites, by name.

    Raises:
        Exception: one of ``RUNTIME_ERRORS``; ONNX Runtime does not take the model.
    """
    providers = ["CPUExecutionProvider"]
    return ort.InferenceSession(model, options, providers=providers, disabled_optimizers=without)


def plain_session(model: bytes, configure: Callable[[Any], None] | None = None) -> Any:
    """A session of one thread that runs a model node by node as it is written.

    Args:
        model: a serialized ModelProto.
        configure: may change the options before the session is made.

    Raises:
        Exception: one of ``RUNTIME_ERRORS``; ONNX Runtime does not take the model.
    """
    options = session_options()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if configure is not None:
        configure(options)
    return cpu_session(model, options)


__all__ = [
    "RUNTIME_ERRORS",
    "WRONG_FUSIONS",
    "cpu_session",
    "ort",
    "plain_session",
    "refuse_shortage",
    "session_options",
]
