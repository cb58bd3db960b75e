"""Which operators of TensorFlow are taken, and why others are not.

The list (``operators.toml``) is one of what is allowed, not of what is forbidden: TensorFlow runs
the graph to compare numbers, and a graph may hold operators that read and write files or run code.
tf2onnx converts more than stands there; what is left out draws random numbers, holds state, or has
no tensor of numbers.
"""

from __future__ import annotations

from engine.frontends.facts import facts, words

__all__ = ["CONTROL_FLOW", "DROPPED", "SUPPORTED", "refusal_of"]

_LISTS = {name: words(text) for name, text in facts(__package__, "operators.toml").items()}

DROPPED = frozenset({"Assert", "NoOp"})
"""Without a value: they only say in which order things happen, or stop a run."""

CONTROL_FLOW = _LISTS["control_flow"]
"""What a loop or a condition is after TensorFlow lowered it."""

SUPPORTED = DROPPED.union(*_LISTS.values())

_CUT = "Cut the graph with 'inputs' or 'outputs' so that it is left out."
_REASONS = {
    why: tuple(starts.split()) for why, starts in facts(__package__, "refusals.toml").items()
}


def refusal_of(op: str, functions: frozenset[str] | set[str] | dict[str, object]) -> str:
    """Why an operator is refused; empty where it is taken.

    Args:
        functions: names of the graph's own functions, which are operators too.
    """
    if op in SUPPORTED or op in functions:
        return ""
    for why, starts in _REASONS.items():
        if op.startswith(starts):
            return f"{why}. {_CUT}"
    return f"no conversion of it to ONNX is known. {_CUT}"
