"""Failures of the vendor's toolkit by what it printed: the cause, and what helps.

A Python error of the toolkit says where it failed and seldom why. Each row below was seen with
toolkit 2.3.2 and tried out on small graphs, or is a report to the vendor with an answer; what no
row knows keeps the toolkit's own words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.base.errors import CompilerError


@dataclass(frozen=True)
class _Cause:
    """A kind of failure.

    Attributes:
        pattern: of the error's text or the end of the log.
        cause, remedy: for the user.
    """

    pattern: re.Pattern[str]
    cause: str
    remedy: str


_OTHER_FORM = "Name outputs before that layer (--outputs), or write the layer another way."
_NO_FLOAT = (
    "Build for a chip that has float16, or leave out what is not quantized there (rknntui check)."
)


def _cause(pattern: str, cause: str, remedy: str) -> _Cause:
    return _Cause(re.compile(pattern), cause, remedy)


_CAUSES: tuple[_Cause, ...] = (
    _cause(
        r"not supported '?(?:float16|float32)'? dtype at",
        "The layer would run in floating point, which this chip does not have: what it reads has "
        "no quantization, or the toolkit took it away while it rewrote the layer.",
        _NO_FLOAT,
    ),
    _cause(
        r"Invalid w_par\['dtype'\]",
        "The toolkit puts a layer with 8-bit weights into float16, as something beside it has no "
        "quantization that it can use.",
        _OTHER_FORM,
    ),
    _cause(
        r"Unsupport op_type \w+ for channel",
        "The toolkit has no form of this operator with a scale for each channel.",
        "Set quantized_method to layer, or leave the quantization to the toolkit "
        "(--quantizer vendor).",
    ),
    _cause(
        r"convert_exmatmul_to_conv|IndexError: list index out of range",
        "The toolkit makes a convolution of a product of matrices and of what is added to it, and "
        "does not find a scale for each number of that.",
        "Set optimization_level to 2, or quantized_method to layer.",
    ),
    _cause(
        r"All outputs .{0,200} of model are constants",
        "The outputs do not depend on an input: the model computes them of its constants alone.",
        "Leave these outputs out (--outputs).",
    ),
    _cause(
        r"(?:unsupport|Unsupport|not support)\w* (?:cpu )?op|register custom op",
        "An operator has no form on the NPU, and none on the CPU of the runtime.",
        "Name outputs before it (--outputs), or register it as a custom operator.",
    ),
    _cause(
        r"Unsupport onnx opset|opset_version|Opset \d+ is under development",
        "This version of the toolkit loads older versions of ONNX alone.",
        "Use toolkit 2.3.2 (rknntui vendor list).",
    ),
    _cause(
        r"ONNXRuntimeError",
        "The toolkit runs parts of the model in ONNX Runtime to fold constants, and one of them "
        "does not run there: it has rewritten the graph into one that does not fit together.",
        "Set optimization_level to 0, or name outputs before that layer (--outputs).",
    ),
    _cause(
        r"MemoryError|bad_alloc|Cannot allocate memory|invalid tensor malloc size",
        "The toolkit needs more memory than there is, or takes a tensor for one of no size.",
        "Free memory, compile a smaller input size, or cut the model (--outputs).",
    ),
    _cause(
        r"KeyError",
        "The toolkit lost a tensor while it rewrote the graph.",
        "Set optimization_level to 0, or cut the model before that layer (--outputs).",
    ),
    _cause(
        r"REGTASK: The bit width of field value exceeds",
        "A layer is larger than the NPU's registers can say (8,191 along a side, for instance).",
        "Compile a smaller input size, or reshape the layer so that no side is that long.",
    ),
)

_CRASHES: tuple[_Cause, ...] = (
    _cause(
        r"buffer overflow detected|stack smashing detected|double free|corrupted size",
        "The toolkit wrote beyond its own memory: a fault of its own with this model and dtype.",
        "Choose another dtype or chip, or cut the model before that layer (--outputs).",
    ),
    _cause(
        r"killed by SIG(?:SEGV|ABRT|FPE|ILL|BUS)",
        "The toolkit crashed: a fault of its own with a layer of this model.",
        "Set optimization_level lower, try --quantizer vendor, or cut the model before that layer "
        "(--outputs).",
    ),
)
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
        for known in _CRASHES if crashed else _CAUSES:
            if known.pattern.search(text):
                return type(error)(
                    error.what,
                    cause=known.cause,
                    remedy=f"{known.remedy} {error.remedy}".strip(),
                )
    return error
