"""A printed row as a graph of one layer: the formulas are checked without any lowering."""

from __future__ import annotations

from engine.cost.lowered import Lowered, LoweredLayer, LoweredTensor, Window
from tests.cost.against_compiler.facts import Build, Row
from tests.cost.support import dtype_of

__all__ = ["one_layer"]


def one_layer(build: Build, row: Row, family: str) -> tuple[LoweredLayer, Lowered]:
    """The layer, and the graph that it stands in."""
    kind, _, name = row.name.partition(":")
    convolution = kind in ("Conv", "ConvTranspose")
    features = [shape for shape in row.shapes if shape is not None]
    weight = features[1] if convolution else ()
    consts = [weight] if convolution else []
    if convolution:
        if len(features) > 2 and len(features[2]) == 1:
            consts.append(features[2])
        elif len(row.shapes) > 2 and row.shapes[2] is None and "_tile" not in name:
            consts.append((row.out[1],))  # of a layer in parts only the first has it
        residual = [row.out] if "Add" in row.op else []
        features = [features[0], *residual]
    elif kind == "exMatMul":
        consts, features = features[2:], features[:2]
    dtype = row.dtype.lower()
    tensors = {f"i{at}": LoweredTensor(f"i{at}", shape, dtype) for at, shape in enumerate(features)}
    tensors |= {
        f"c{at}": LoweredTensor(f"c{at}", shape, dtype, const=True)
        for at, shape in enumerate(consts)
    }
    tensors["o"] = LoweredTensor("o", row.out, dtype)
    inputs = tuple(f"i{at}" for at in range(len(features)))
    depthwise = (
        convolution
        and weight[0] == 1
        and weight[1] == row.out[1] == features[0][1]
        and row.out[1] > 1
    ) or (kind == "ConvTranspose" and weight[1] == 1 and weight[0] == row.out[1] > 1)
    layer = LoweredLayer(
        op=row.op,
        kind=kind,
        name=name,
        inputs=inputs,
        consts=tuple(f"c{at}" for at in range(len(consts))),
        outputs=("o",),
        dtype=dtype,
        window=Window((weight[2], weight[3]), _stride(row, features)) if convolution else None,
        depthwise=depthwise,
    )
    last = row.last or "ReduceSum" in name
    outputs = ("o",) if last else ()
    around = Lowered(
        family, dtype_of(build.quant), (layer,), tensors, ("i0",) if row.first else (), outputs
    )
    return layer, around


def _stride(row: Row, features: list[tuple[int, ...]]) -> tuple[int, int]:
    rows = features[0][2]
    return (row.out[2] // rows, row.out[2] // rows) if row.out[2] >= rows else (1, 1)
