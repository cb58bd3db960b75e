"""Where a layer runs, and what to do about it; remedies are offered where the graph shows help.

To end the model before a layer helps only where nothing behind it multiplies: an attention's
Softmax cannot be left to the program, a detector's last one can. Cut there, a model keeps its
array layers and loses the layer; so the cut is tried on the graph without estimating it again.
Changes of an operator are tried in :mod:`engine.cost.trials`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.cost.lowered import Lowered, LoweredLayer, Target
from engine.facts.limits import operator

END_BEFORE = "End the model before it, and do it in the program."
"""The remedy that :func:`with_tried_remedies` tries."""

IN_FLOAT16 = "Compute this layer in float16."
"""The remedy of a layer that the NPU has in float16; :mod:`engine.cost.trials` tries it."""

NOTHING_HELPS = "No remedy was found: layers that multiply read its result."

MULTIPLIES = ("Conv", "ConvTranspose", "GRU", "LSTM", "exMatMul", "exSDPAttention")
"""Kinds of layers that a program does not do in the NPU's place."""


_BY_PARAMETER = {
    "dtype": "The NPU has it in another dtype: hybrid quantization gives a layer its own.",
    **dict.fromkeys(
        ("kernel_h", "kernel_w"), "Several 3x3 in a row see as much as one large kernel."
    ),
    "kernel": "A 1x1 convolution does the same; a pool of 1x1 only copies or drops pixels.",
    **dict.fromkeys(("stride_h", "stride_w"), "Two layers can share the stride."),
    **dict.fromkeys(("dilation_h", "dilation_w"), "A larger kernel of dilation 1 sees as much."),
    **dict.fromkeys(
        ("pad_top", "pad_left", "pad_bottom", "pad_right"), "A Pad layer before it does the same."
    ),
    "width": "Narrower inputs, or tiles of them, are within the limit.",
    "height": "Lower inputs, or tiles of them, are within the limit.",
    "channel": "Fewer channels, or two layers of them, are within the limit.",
    "group": "Group 1, or as many groups as channels, is within the limit.",
    "k": "The product can be split along its inner dimension, and the parts added.",
    "scale": "Whole factors from 2 to 8 are within the limit.",
}
"""What is within a limit: words for the reader, as nothing of it is tried on the graph."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a layer runs.

    Attributes:
        target: NPU, CPU, or ``none``: refused.
        reason: the rule with the number that breaks it, a sentence; empty where all is well.
        remedy: what to do, a sentence.
    """

    target: Target
    reason: str = ""
    remedy: str = ""


def remedy_for(op: str, parameter: str = "") -> str:
    """What to do about an operator that breaks a limit.

    Args:
        op: as in the tables.
        parameter: of the limit; empty or ``npu_support`` where the operator as such is concerned.
    """
    return _BY_PARAMETER.get(parameter) or operator(op).remedy or END_BEFORE


def with_tried_remedies(lowered: Lowered) -> Lowered:
    """The layers, with :data:`END_BEFORE` only where the model can end before them."""
    needed: set[str] = set()
    layers: list[LoweredLayer] = []
    for layer in reversed(lowered.layers):
        behind = any(name in needed for name in layer.outputs)
        if behind or layer.kind in MULTIPLIES:
            needed.update(layer.inputs)
        if behind and END_BEFORE in layer.remedy:
            rest = layer.remedy.replace(END_BEFORE, "").strip()
            layers.append(replace(layer, remedy=rest or NOTHING_HELPS))
        else:
            layers.append(layer)
    return replace(lowered, layers=tuple(reversed(layers)))
