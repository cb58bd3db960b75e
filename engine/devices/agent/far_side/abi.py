"""The C interfaces of both generations of the runtime library, as ctypes structures.

Generation 2 is ``rknn_api.h`` of rknpu2 (``librknnrt.so``), generation 1 that of toolkit 1
(``librknn_runtime.so``, ``librknn_api.so``). Names of structures and fields are those of the
headers. ctypes lays them out for the pointers of the running Python; :func:`check_sizes` proves it.
Only what is called here is described: no matrix multiplication, no operators of one's own.
"""

import ctypes
from ctypes import c_char, c_float, c_int8, c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, Optional, Tuple

__all__ = [
    "ERRORS",
    "FLAG_COLLECT_PERF",
    "GENERATIONS",
    "LAYOUTS",
    "QUANTIZATIONS",
    "TYPES",
    "TYPE_BYTES",
    "Context",
    "Query",
    "check_sizes",
    "name_of",
]

MAX_DIMS = 16
MAX_NAME = 256
MAX_SHAPES = 512

POINTER_BITS = 8 * ctypes.sizeof(c_void_p)

Context = c_uint64 if POINTER_BITS == 64 else c_uint32  # type: Any
"""``rknn_context``: 32 bits on ARM of 32 bits, 64 elsewhere."""


class Query:
    """Commands of ``rknn_query``; number 6 is another thing in each generation."""

    IN_OUT_NUM = 0
    INPUT_ATTR = 1
    OUTPUT_ATTR = 2
    PERF_DETAIL = 3
    PERF_RUN = 4
    SDK_VERSION = 5
    MEM_SIZE = 6
    CUSTOM_STRING = 7
    NATIVE_INPUT_ATTR = 8
    NATIVE_OUTPUT_ATTR = 9
    NATIVE_NHWC_INPUT_ATTR = 10
    NATIVE_NHWC_OUTPUT_ATTR = 11


FLAG_COLLECT_PERF = 8

TYPES = (
    "FLOAT32",
    "FLOAT16",
    "INT8",
    "UINT8",
    "INT16",
    "UINT16",
    "INT32",
    "UINT32",
    "INT64",
    "BOOL",
    "INT4",
    "BFLOAT16",
)
"""Names of ``rknn_tensor_type`` without their prefix, by value; generation 1 ends at INT16."""

TYPE_BYTES = {
    "FLOAT32": 4,
    "FLOAT16": 2,
    "INT8": 1,
    "UINT8": 1,
    "INT16": 2,
    "UINT16": 2,
    "INT32": 4,
    "UINT32": 4,
    "INT64": 8,
    "BOOL": 1,
    "BFLOAT16": 2,
}
"""Bytes of an element; INT4 is packed and not in it."""

LAYOUTS = ("NCHW", "NHWC", "NC1HWC2", "UNDEFINED")
"""``rknn_tensor_format`` by value; generation 1 has the first two."""

QUANTIZATIONS = ("NONE", "DFP", "AFFINE")
"""``rknn_tensor_qnt_type`` by value."""

ERRORS = {
    -1: "RKNN_ERR_FAIL",
    -2: "RKNN_ERR_TIMEOUT",
    -3: "RKNN_ERR_DEVICE_UNAVAILABLE",
    -4: "RKNN_ERR_MALLOC_FAIL",
    -5: "RKNN_ERR_PARAM_INVALID",
    -6: "RKNN_ERR_MODEL_INVALID",
    -7: "RKNN_ERR_CTX_INVALID",
    -8: "RKNN_ERR_INPUT_INVALID",
    -9: "RKNN_ERR_OUTPUT_INVALID",
    -10: "RKNN_ERR_DEVICE_UNMATCH",
    -11: "RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL",
    -12: "RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION",
    -13: "RKNN_ERR_TARGET_PLATFORM_UNMATCH",
    -14: "RKNN_ERR_NON_PRE_COMPILED_MODEL_ON_MINI_DRIVER",
}
"""Names as the headers spell them; -14 is of generation 1 only."""


def name_of(names: Tuple[str, ...], number: int) -> str:
    """The name of an enumerated value; the number as text where it is newer than this list."""
    return names[number] if 0 <= number < len(names) else str(number)


class rknn_input_output_num(ctypes.Structure):  # noqa: N801 - the name of the header
    """How many inputs and outputs a model has."""

    _fields_ = [("n_input", c_uint32), ("n_output", c_uint32)]


_ATTR = [
    ("index", c_uint32),
    ("n_dims", c_uint32),
    ("dims", c_uint32 * MAX_DIMS),
    ("name", c_char * MAX_NAME),
    ("n_elems", c_uint32),
    ("size", c_uint32),
    ("fmt", c_int32),
    ("type", c_int32),
    ("qnt_type", c_int32),
    ("fl", c_int8),
]  # type: Any


class rknn_tensor_attr(ctypes.Structure):  # noqa: N801
    """An input or output, generation 2; its dimensions are in the order of its layout."""

    _fields_ = [
        *_ATTR,
        ("zp", c_int32),
        ("scale", c_float),
        ("w_stride", c_uint32),
        ("size_with_stride", c_uint32),
        ("pass_through", c_uint8),
        ("h_stride", c_uint32),
    ]


class rknn_tensor_attr_1(ctypes.Structure):  # noqa: N801
    """An input or output, generation 1; its dimensions come in reverse."""

    _fields_ = [*_ATTR, ("zp", c_uint32), ("scale", c_float)]


class rknn_input_range(ctypes.Structure):  # noqa: N801
    """The shapes that an input of a dynamic model may have, generation 2."""

    _fields_ = [
        ("index", c_uint32),
        ("shape_number", c_uint32),
        ("fmt", c_int32),
        ("name", c_char * MAX_NAME),
        ("dyn_range", (c_uint32 * MAX_DIMS) * MAX_SHAPES),
        ("n_dims", c_uint32),
    ]


class rknn_perf_detail(ctypes.Structure):  # noqa: N801
    """The performance text, which the library owns."""

    _fields_ = [("perf_data", c_void_p), ("data_len", c_uint64)]


class rknn_perf_run(ctypes.Structure):  # noqa: N801
    """How long the last run took, in microseconds."""

    _fields_ = [("run_duration", c_int64)]


class rknn_sdk_version(ctypes.Structure):  # noqa: N801
    """Versions of the library and of the driver (generation 1: of the server)."""

    _fields_ = [("api_version", c_char * 256), ("drv_version", c_char * 256)]


class rknn_mem_size(ctypes.Structure):  # noqa: N801
    """What a context takes of the NPU's memory, in bytes, generation 2."""

    _fields_ = [
        ("total_weight_size", c_uint32),
        ("total_internal_size", c_uint32),
        ("total_dma_allocated_size", c_uint64),
        ("total_sram_size", c_uint32),
        ("free_sram_size", c_uint32),
        ("reserved", c_uint32 * 10),
    ]


class rknn_custom_string(ctypes.Structure):  # noqa: N801
    """What the builder of the model has written into it, generation 2."""

    _fields_ = [("string", c_char * 1024)]


class rknn_tensor_mem(ctypes.Structure):  # noqa: N801
    """Memory that the NPU reads and writes itself, generation 2."""

    _fields_ = [
        ("virt_addr", c_void_p),
        ("phys_addr", c_uint64),
        ("fd", c_int32),
        ("offset", c_int32),
        ("size", c_uint32),
        ("flags", c_uint32),
        ("priv_data", c_void_p),
    ]


class rknn_tensor_mem_1(ctypes.Structure):  # noqa: N801
    """The same of generation 1."""

    _fields_ = [
        ("logical_addr", c_void_p),
        ("physical_addr", c_uint64),
        ("fd", c_int32),
        ("size", c_uint32),
        ("handle", c_uint32),
        ("priv_data", c_void_p),
        ("reserved_flag", c_uint64),
    ]


class rknn_input(ctypes.Structure):  # noqa: N801
    """The bytes of an input, and what they are."""

    _fields_ = [
        ("index", c_uint32),
        ("buf", c_void_p),
        ("size", c_uint32),
        ("pass_through", c_uint8),
        ("type", c_int32),
        ("fmt", c_int32),
    ]


class rknn_output(ctypes.Structure):  # noqa: N801
    """The bytes of an output, which the library owns until they are released."""

    _fields_ = [
        ("want_float", c_uint8),
        ("is_prealloc", c_uint8),
        ("index", c_uint32),
        ("buf", c_void_p),
        ("size", c_uint32),
    ]


class rknn_init_extend(ctypes.Structure):  # noqa: N801
    """More arguments of ``rknn_init``, generation 2."""

    _fields_ = [
        ("ctx", Context),
        ("real_model_offset", c_int32),
        ("real_model_size", c_uint32),
        ("model_buffer_fd", c_int32),
        ("model_buffer_flags", c_uint32),
        ("reserved", c_uint8 * 112),
    ]


class rknn_run_extend(ctypes.Structure):  # noqa: N801
    """More arguments of ``rknn_run``, generation 2."""

    _fields_ = [
        ("frame_id", c_uint64),
        ("non_block", c_int32),
        ("timeout_ms", c_int32),
        ("fence_fd", c_int32),
    ]


class rknn_run_extend_1(ctypes.Structure):  # noqa: N801
    """The same of generation 1."""

    _fields_ = [("frame_id", c_uint64)]


class rknn_output_extend(ctypes.Structure):  # noqa: N801
    """More results of ``rknn_outputs_get``."""

    _fields_ = [("frame_id", c_uint64)]


class rknn_precompile(ctypes.Structure):  # noqa: N801
    """A model compiled on the board, generation 1."""

    _fields_ = [("model_data", c_void_p), ("data_len", c_uint32)]


GENERATIONS = {
    1: {
        "rknn_input_output_num": (rknn_input_output_num, 8, 8),
        "rknn_tensor_attr": (rknn_tensor_attr_1, 360, 360),
        "rknn_perf_detail": (rknn_perf_detail, 16, 16),
        "rknn_perf_run": (rknn_perf_run, 8, 8),
        "rknn_sdk_version": (rknn_sdk_version, 512, 512),
        "rknn_tensor_mem": (rknn_tensor_mem_1, 48, 40),
        "rknn_input": (rknn_input, 32, 24),
        "rknn_output": (rknn_output, 24, 16),
        "rknn_run_extend": (rknn_run_extend_1, 8, 8),
        "rknn_output_extend": (rknn_output_extend, 8, 8),
        "rknn_precompile": (rknn_precompile, 16, 8),
    },
    2: {
        "rknn_input_output_num": (rknn_input_output_num, 8, 8),
        "rknn_tensor_attr": (rknn_tensor_attr, 376, 376),
        "rknn_input_range": (rknn_input_range, 33040, 33040),
        "rknn_perf_detail": (rknn_perf_detail, 16, 16),
        "rknn_perf_run": (rknn_perf_run, 8, 8),
        "rknn_sdk_version": (rknn_sdk_version, 512, 512),
        "rknn_mem_size": (rknn_mem_size, 64, 64),
        "rknn_custom_string": (rknn_custom_string, 1024, 1024),
        "rknn_tensor_mem": (rknn_tensor_mem, 40, 40),
        "rknn_input": (rknn_input, 32, 24),
        "rknn_output": (rknn_output, 24, 16),
        "rknn_init_extend": (rknn_init_extend, 136, 132),
        "rknn_run_extend": (rknn_run_extend, 24, 24),
        "rknn_output_extend": (rknn_output_extend, 8, 8),
    },
}  # type: Dict[int, Dict[str, Tuple[Any, int, int]]]
"""By generation and name of the header: the structure, its bytes with 64 and with 32 bit pointers.

The 32 bit ones are those of the ARM EABI, where 64 bit members are aligned to 8 bytes.
"""


def check_sizes() -> Optional[str]:
    """The name of a structure that is not laid out here as in the library; None where all are."""
    for structures in GENERATIONS.values():
        for name, (structure, wide, narrow) in sorted(structures.items()):
            if ctypes.sizeof(structure) != (wide if POINTER_BITS == 64 else narrow):
                return name
    return None
