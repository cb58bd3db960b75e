"""What a session is fed, checked before ONNX Runtime sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.base.errors import UsageError
from engine.base.text import did_you_mean, sanitize, shape_text
from engine.graph.ir.spec import TensorSpec


def check_feeds(
    feeds: Mapping[str, np.ndarray], inputs: Sequence[TensorSpec]
) -> dict[str, np.ndarray]:
    """The feeds as contiguous arrays, in the order of the inputs.

    Raises:
        UsageError: a missing or unknown name, or an array of another shape or dtype.
    """
    names = [spec.name for spec in inputs]
    for name in feeds:
        if name not in names:
            listed = ", ".join(sanitize(n, 60) for n in names[:8])
            raise UsageError(
                f"The graph has no input {sanitize(str(name))!r}; it has {listed}.",
                remedy=did_you_mean(str(name), names) or "Feed the inputs that the model has.",
            )
    checked = {}
    for spec in inputs:
        if spec.name not in feeds:
            raise UsageError(
                f"Input {sanitize(spec.name)!r} ({spec.dtype}, {shape_text(spec.shape)}) was not "
                "fed.",
                remedy="Feed an array for every input.",
            )
        array = np.asarray(feeds[spec.name])
        if array.dtype.name != spec.dtype:
            raise UsageError(
                f"Input {sanitize(spec.name)!r} takes {spec.dtype}; it was fed {array.dtype.name}.",
                remedy=f"Convert the array to {spec.dtype} first.",
            )
        if not spec.accepts(array.shape):
            raise UsageError(
                f"Input {sanitize(spec.name)!r} has the shape {shape_text(spec.shape)}; it was "
                f"fed {shape_text(array.shape)}.",
                remedy="Give the array the model's layout, with the batch.",
            )
        checked[spec.name] = np.ascontiguousarray(array).reshape(array.shape)
    return checked
