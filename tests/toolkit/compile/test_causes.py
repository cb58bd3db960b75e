"""What an error of the toolkit means, by what it printed."""

from __future__ import annotations

import pytest

from engine.base.errors import CompilerError
from engine.toolkit.compile.causes import explained

RAISED = "build of the toolkit raised ValueError: "


@pytest.mark.parametrize(
    ("what", "log", "cause", "remedy"),
    [
        (
            RAISED + "The Conv('stem_split') not supported 'float16' dtype at rv1103/rv1106!",
            "",
            "floating point",
            "float16",
        ),
        (RAISED + "Invalid w_par['dtype'] = float16 for w2!", "", "8-bit weights", "--outputs"),
        (RAISED + "IndexError: list index out of range", "", "product of matrices", "level to 2"),
        (RAISED + "KeyError: 'bias__0'", "", "lost a tensor", "level to 0"),
        (
            "The process of rknn-toolkit2 2.3.2 was killed by SIGSEGV during build.",
            "D RKNN: start: OpEmit\n",
            "crashed",
            "--quantizer vendor",
        ),
        (
            "build of the toolkit failed and returned -1.",
            "E build: All outputs ['tl', 'br'] of model are constants, The model is invalid!",
            "constants alone",
            "--outputs",
        ),
        (
            "build of the toolkit failed and returned -1.",
            "E RKNN: [01:23] unsupport cpu MyOp op, op name: x, please try to register custom op",
            "no form on the NPU",
            "custom operator",
        ),
        (
            "The process of rknn-toolkit2 2.3.2 was killed by SIGABRT during build.",
            "*** buffer overflow detected ***: terminated",
            "wrote beyond its own memory",
            "dtype",
        ),
    ],
)
def test_known_failures_have_a_cause(what: str, log: str, cause: str, remedy: str) -> None:
    said = "It said last: E build: Traceback (most recent call last):"
    error = explained(CompilerError(what, cause=said, remedy="The log is in x.log."), log)
    assert error.what == what
    assert cause in error.cause
    assert "Traceback" not in error.cause
    assert remedy in error.remedy
    assert error.remedy.endswith("The log is in x.log.")


def test_what_is_not_known_and_what_lies_around_it_stay() -> None:
    for error in (
        CompilerError("It failed.", cause="It said last: E build: hm", remedy="Look."),
        CompilerError(RAISED + "KeyError: 'x'", cause="The disk of /tmp is full.", remedy="Look."),
    ):
        assert explained(error, "E build: hm") is error
