"""Runs on memory that the NPU reads and writes itself: the only way of the smallest libraries.

``rknn_inputs_set`` and ``rknn_outputs_get`` of ``librknnmrt.so`` (RV1103, RV1106) only fail.
Outputs are the native ones in NHWC; floats are computed here.
"""

import array
import ctypes
import math
import struct
import time
from typing import Any, List

from engine.base.peers.far import Refused
from engine.devices.agent.far_side import abi
from engine.devices.agent.far_side.lanes import Given, Round
from engine.devices.agent.far_side.runtime import Library
from engine.devices.agent.far_side.words import KIND

__all__ = ["ZeroCopyLane", "dequantized"]

_FROM_DEVICE = 2
_CODES = {"INT8": "b", "UINT8": "B", "BOOL": "B", "INT16": "h", "UINT16": "H", "FLOAT32": "f"}


class ZeroCopyLane:
    """By ``rknn_create_mem`` and ``rknn_set_io_mem``; used as a ``CopyLane`` is.

    Args:
        library: the runtime library.
        context: of its own.
        n_output: how many outputs the model has.
    """

    def __init__(self, library: Library, context: Any, n_output: int) -> None:
        self._library = library
        self._context = context
        self._inputs = []  # type: List[Any]
        self._outputs = []  # type: List[Any]
        self._attrs = [library.attributes(context, "output", n) for n in range(n_output)]

    def set_inputs(self, given: List[Given]) -> None:
        """Copy the inputs into memory of the NPU, which every run from now on takes."""
        library = self._library
        for index, one in enumerate(given):
            attr = library.attributes(self._context, "input", index)
            rows = _rows(attr, abi.TYPE_BYTES.get(one.dtype, 0))
            if one.pass_through:
                attr.pass_through = 1
            else:
                attr.pass_through = 0
                attr.type = abi.TYPES.index(one.dtype)
                attr.fmt = abi.LAYOUTS.index(one.layout)
            content = one.content if one.pass_through else _spread(one.content, rows)
            memory = self._new(max(attr.size_with_stride, len(content)))
            self._inputs.append(memory)
            ctypes.memmove(memory.contents.virt_addr, content, len(content))
            library.call("rknn_set_io_mem", self._context, memory, ctypes.byref(attr))
        for attr in self._attrs:
            memory = self._new(max(attr.size_with_stride, attr.size))
            self._outputs.append(memory)
            library.call("rknn_set_io_mem", self._context, memory, ctypes.byref(attr))

    def _new(self, size: int) -> Any:
        memory = self._library.memory(self._context, size)
        if not memory or not memory.contents.virt_addr:
            what = "rknn_create_mem could not get {} bytes for the NPU.".format(size)
            remedy = "End other programs, or enlarge the memory that is reserved for the NPU."
            raise Refused(what, "The board has not enough of it.", remedy, kind=KIND)
        return memory

    def run(self, want_float: bool, want_outputs: bool, want_perf: bool) -> Round:
        """Run once; these libraries tell neither the time nor the layers."""
        begun = time.perf_counter()
        self._library.call("rknn_run", self._context, ctypes.c_void_p(None))
        result = Round(int((time.perf_counter() - begun) * 1e6))
        if want_outputs:
            for attr, memory in zip(self._attrs, self._outputs):
                if self._library.has("rknn_mem_sync"):
                    mode = ctypes.c_int32(_FROM_DEVICE)
                    self._library.call("rknn_mem_sync", self._context, memory, mode)
                size = max(attr.size_with_stride, attr.size)
                content = ctypes.string_at(memory.contents.virt_addr, size)
                dtype = abi.name_of(abi.TYPES, attr.type)
                content = _gathered(content, _rows(attr, abi.TYPE_BYTES.get(dtype, 0)), attr.size)
                result.outputs.append(dequantized(content, attr) if want_float else content)
        return result

    def close(self) -> None:
        """Free the memory."""
        memories, self._inputs, self._outputs = self._inputs + self._outputs, [], []
        for memory in memories:
            self._library.code("rknn_destroy_mem", self._context, memory)


def _rows(attr: Any, element: int) -> Any:
    """Bytes of a row of an image, and from one row to the next."""
    if attr.n_dims != 4 or attr.fmt != abi.LAYOUTS.index("NHWC"):
        return 0, 0
    pixel = attr.dims[3] * element
    return attr.dims[2] * pixel, (attr.w_stride or attr.dims[2]) * pixel


def _spread(content: bytes, rows: Any) -> bytes:
    """Rows at the distance that the NPU reads them at."""
    row, step = rows
    if row == step:
        return content
    gap = bytes(step - row)
    return b"".join(content[at : at + row] + gap for at in range(0, len(content), row))


def _gathered(content: bytes, rows: Any, size: int) -> bytes:
    """The rows without the gaps between them."""
    row, step = rows
    if row == step:
        return content[:size]
    return b"".join(content[at : at + row] for at in range(0, len(content), step))[:size]


def dequantized(content: bytes, attr: Any) -> bytes:
    """The values of a tensor as floats of 32 bits.

    Raises:
        Refused: its type is none that is known here.
    """
    dtype = abi.name_of(abi.TYPES, attr.type)
    if dtype == "FLOAT32":
        return content
    if dtype == "FLOAT16":
        values = [_from_half(half) for (half,) in struct.iter_unpack("<H", content)]
        return array.array("f", values).tobytes()
    if dtype not in _CODES:
        what = "An output of type {} cannot be had as floats here.".format(dtype)
        raise Refused(what, "", "Ask for it without want_float.", kind=KIND)
    whole = array.array(_CODES[dtype])
    whole.frombytes(content)
    zero, scale = 0, 1.0
    if attr.qnt_type == abi.QUANTIZATIONS.index("AFFINE"):
        zero, scale = attr.zp, attr.scale
    elif attr.qnt_type == abi.QUANTIZATIONS.index("DFP"):
        scale = 2.0**-attr.fl
    return array.array("f", [(value - zero) * scale for value in whole]).tobytes()


def _from_half(half: int) -> float:
    sign = -1.0 if half & 0x8000 else 1.0
    exponent, rest = half >> 10 & 31, half & 1023
    if exponent == 31:
        return math.nan if rest else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(rest, -24)
    return sign * math.ldexp(1024 + rest, exponent - 25)
