"""An emitter that knows shapes: what it tells, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from engine.frontends.typed_emitter import MisfitError, ShapeProbe, TypedEmitter


@pytest.mark.parametrize("kind", [TypedEmitter, ShapeProbe])
def test_shapes_are_those_of_onnx_and_absurd_ones_are_refused(kind: type[TypedEmitter]) -> None:
    e = kind("graph")
    x = e.input("x", (1, 2, 3, 5))
    big = e.node("Expand", [e.scalar(1), e.ints(1 << 20, 1 << 11)])
    assert e.shape(big) == (1 << 20, 1 << 11)
    assert e.shape(e.enlarged(x, 2)) == (1, 2, 6, 10)
    assert e.dtype(e.node("Shape", [x])) == np.int64
    with pytest.raises(MisfitError, match="too large"):
        e.node("Expand", [e.scalar(1), e.ints(1 << 20, (1 << 11) + 1)])
    with pytest.raises(MisfitError, match="its inputs do not fit"):
        e.node("MatMul", [x, x])
    with pytest.raises(MisfitError, match="depends on data"):
        e.node("NonZero", [x])
