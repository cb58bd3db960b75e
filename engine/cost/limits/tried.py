"""Remedies are offered where the graph shows that they help.

To end the model before a layer helps only where nothing behind it multiplies: an attention's
Softmax cannot be left to the program, a detector's last one can. Cut there, a model keeps its
array layers and loses the layer; so the cut is tried on the graph without estimating it again.
Changes of an operator are tried in :mod:`engine.cost.trials`.
"""

from __future__ import annotations

from dataclasses import replace

from engine.cost.lowered import Lowered, LoweredLayer

__all__ = ["END_BEFORE", "IN_FLOAT16", "MULTIPLIES", "NOTHING_HELPS", "with_tried_remedies"]

END_BEFORE = "End the model before it, and do it in the program."
"""The remedy that :func:`with_tried_remedies` tries."""

IN_FLOAT16 = "Compute this layer in float16."
"""The remedy of a layer that the NPU has in float16; :mod:`engine.cost.trials` tries it."""

NOTHING_HELPS = "No remedy was found: layers that multiply read its result."

MULTIPLIES = ("Conv", "ConvTranspose", "GRU", "LSTM", "exMatMul", "exSDPAttention")
"""Kinds of layers that a program does not do in the NPU's place."""


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
