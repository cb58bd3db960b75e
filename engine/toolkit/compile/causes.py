"""Failures of the vendor's toolkit by what it printed: the cause, and what helps.

A Python error of the toolkit says where it failed and seldom why. Each row below was seen with
toolkit 2.3.2 and tried out on small graphs, or is a report to the vendor with an answer; what no
row knows keeps the toolkit's own words.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.base.errors import CompilerError


class _Cause(NamedTuple):
    """Of a kind of failure, for the user."""

    cause: str
    remedy: str


_OTHER_FORM = "Name outputs before that layer (--outputs), or write the layer another way."
_NO_FLOAT = (
    "Build for a chip that has float16, or leave out what is not quantized there (rknntui check)."
)


_CAUSES: dict[str, _Cause] = {
    r"not supported '?(?:float16|float32)'? dtype at": _Cause(
        "The layer would run in floating point, which this chip does not have: what it reads has "
        "no quantization, or the toolkit took it away while it rewrote the layer.",
        _NO_FLOAT,
    ),
    r"Invalid w_par\['dtype'\]": _Cause(
        "The toolkit puts a layer with 8-bit weights into float16, as something beside it has no "
        "quantization that it can use.",
        _OTHER_FORM,
    ),
    r"Unsupport op_type \w+ for channel": _Cause(
        "The toolkit has no form of this operator with a scale for each channel.",
        "Set quantized_method to layer, or leave the quantization to the toolkit "
        "(--quantizer vendor).",
    ),
    r"convert_exmatmul_to_conv|IndexError: list index out of range": _Cause(
        "The toolkit makes a convolution of a product of matrices and of what is added to it, and "
        "does not find a scale for each number of that.",
        "Set optimization_level to 2, or quantized_method to layer.",
    ),
    r"All outputs .{0,200} of model are constants": _Cause(
        "The outputs do not depend on an input: the model computes them of its constants alone.",
        "Leave these outputs out (--outputs).",
    ),
    r"(?:unsupport|Unsupport|not support)\w* (?:cpu )?op|register custom op": _Cause(
        "An operator has no form on the NPU, and none on the CPU of the runtime.",
        "Name outputs before it (--outputs), or register it as a custom operator.",
    ),
    r"Unsupport onnx opset|opset_version|Opset \d+ is under development": _Cause(
        "This version of the toolkit loads older versions of ONNX alone.",
        "Use toolkit 2.3.2 (rknntui vendor list).",
    ),
    r"ONNXRuntimeError": _Cause(
        "The toolkit runs parts of the model in ONNX Runtime to fold constants, and one of them "
        "does not run there: it has rewritten the graph into one that does not fit together.",
        "Set optimization_level to 0, or name outputs before that layer (--outputs).",
    ),
    r"MemoryError|bad_alloc|Cannot allocate memory|invalid tensor malloc size": _Cause(
        "The toolkit needs more memory than there is, or takes a tensor for one of no size.",
        "Free memory, compile a smaller input size, or cut the model (--outputs).",
    ),
    r"KeyError": _Cause(
        "The toolkit lost a tensor while it rewrote the graph.",
        "Set optimization_level to 0, or cut the model before that layer (--outputs).",
    ),
    r"REGTASK: The bit width of field value exceeds": _Cause(
        "A layer is larger than the NPU's registers can say (8,191 along a side, for instance).",
        "Compile a smaller input size, or reshape the layer so that no side is that long.",
    ),
}
"""Pattern of the error's text or the end of the log -> the cause, and what helps."""

_CRASHES: dict[str, _Cause] = {
    r"buffer overflow detected|stack smashing detected|double free|corrupted size": _Cause(
        "The toolkit wrote beyond its own memory: a fault of its own with this model and dtype.",
        "Choose another dtype or chip, or cut the model before that layer (--outputs).",
    ),
    r"killed by SIG(?:SEGV|ABRT|FPE|ILL|BUS)": _Cause(
        "The toolkit crashed: a fault of its own with a layer of this model.",
        "Set optimization_level lower, try --quantizer vendor, or cut the model before that layer "
        "(--outputs).",
    ),
}
_LOOKED = 20_000
"""Characters at the end of a log."""
_AROUND = ("The disk of", "Its environment")
"""How a cause begins that lies outside the model."""


def explained(error: CompilerError, log: str) -> CompilerError:
    """The error with the cause that is known of it; itself where none is.

    Args:
        error: of a toolkit.
        log: what it printed.
    """
    if error.cause.startswith(_AROUND):
        return error
    # the error itself says most; the end of the log is looked through where it says nothing
    crashed = "killed by SIG" in error.what
    for text in (log[-_LOOKED:] + error.what,) if crashed else (error.what, log[-_LOOKED:]):
        for pattern, known in (_CRASHES if crashed else _CAUSES).items():
            if re.search(pattern, text):
                remedy = f"{known.remedy} {error.remedy}".strip()
                return type(error)(error.what, cause=known.cause, remedy=remedy)
    return error
