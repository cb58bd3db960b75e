"""A context of a model with its inputs set: run after run, each with its time."""

import ctypes
import time
from typing import Any, List, Optional

from engine.devices.agent.far_side import abi
from engine.devices.agent.far_side.runtime import Library

__all__ = ["CopyLane", "Given", "Round"]

PERF_LIMIT = 16 << 20


class Given:
    """The bytes of an input, and what they are."""

    def __init__(self, content: bytes, dtype: str, layout: str, pass_through: bool) -> None:
        self.content = content
        self.dtype = dtype
        self.layout = layout
        self.pass_through = pass_through


class Round:
    """What one run has brought.

    Attributes:
        wall_us: time around ``rknn_run``.
        run_us: the time that the library tells; None where it tells none.
        outputs: bytes of each output, where they were asked for.
        perf: the performance text, where it was asked for.
    """

    def __init__(self, wall_us: int) -> None:
        self.wall_us = wall_us
        self.run_us = None  # type: Optional[int]
        self.outputs = []  # type: List[bytes]
        self.perf = None  # type: Optional[str]


class CopyLane:
    """By ``rknn_inputs_set`` and ``rknn_outputs_get``, which copy and convert.

    Args:
        library: the runtime library.
        context: of its own: one context is not for two threads at a time.
        n_output: how many outputs the model has.
    """

    def __init__(self, library: Library, context: Any, n_output: int) -> None:
        self._library = library
        self._context = context
        self._n_output = n_output

    def set_inputs(self, given: List[Given]) -> None:
        """Hand over the inputs, which every run from now on takes."""
        inputs = self._library.array("rknn_input", len(given))
        for index, (slot, one) in enumerate(zip(inputs, given)):
            slot.index = index
            slot.buf = ctypes.cast(ctypes.c_char_p(one.content), ctypes.c_void_p)
            slot.size = len(one.content)
            slot.pass_through = int(one.pass_through)
            slot.type = abi.TYPES.index(one.dtype)
            slot.fmt = abi.LAYOUTS.index(one.layout)
        self._library.call("rknn_inputs_set", self._context, ctypes.c_uint32(len(given)), inputs)

    def run(self, want_float: bool, want_outputs: bool, want_perf: bool) -> Round:
        """Run once; the outputs are copied before the library frees them."""
        begun = time.perf_counter()
        self._library.call("rknn_run", self._context, ctypes.c_void_p(None))
        result = Round(int((time.perf_counter() - begun) * 1e6))
        count = ctypes.c_uint32(self._n_output)
        outputs = self._library.array("rknn_output", self._n_output)
        for index, slot in enumerate(outputs):
            slot.index = index
            slot.want_float = int(want_float and want_outputs)
        nothing = ctypes.c_void_p(None)
        self._library.call("rknn_outputs_get", self._context, count, outputs, nothing)
        try:
            self._ask_times(result, want_perf)
            if want_outputs:
                result.outputs = [ctypes.string_at(slot.buf, slot.size) for slot in outputs]
        finally:
            self._library.code("rknn_outputs_release", self._context, count, outputs)
        return result

    def _ask_times(self, result: Round, want_perf: bool) -> None:
        times = self._library.new("rknn_perf_run")
        if self._library.asked(self._context, abi.Query.PERF_RUN, times) is not None:
            result.run_us = int(times.run_duration)
        if want_perf:
            text = self._library.new("rknn_perf_detail")
            self._library.query(self._context, abi.Query.PERF_DETAIL, text)
            data = b""
            if text.perf_data:
                data = ctypes.string_at(text.perf_data, min(text.data_len, PERF_LIMIT))
            result.perf = data.partition(b"\0")[0].decode("utf-8", "replace")

    def close(self) -> None:
        """Nothing of its own is left: the context is the session's."""
