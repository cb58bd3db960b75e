"""Reductions, searches along an axis, scatters, and resizing."""

from __future__ import annotations

import numpy as np

from engine.frontends.emit import element_type
from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.ops.shape_ops import placed
from engine.frontends.tflite.tensors import FIRST, LAST, checked_constant


def _axes(layer: Layer) -> tuple[list[int], list[int]]:
    """The axes that are reduced, and the shape that is left."""
    x = layer.input(0)
    axes = sorted({layer.axis(axis) for axis in layer.ints(1, "axes")})
    keep = layer.int_option("keep_dims")
    shape = [
        1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes
    ]
    return axes, shape


def _reduction(op: str) -> Handler:
    def handler(layer: Layer) -> None:
        axes, shape = _axes(layer)
        if not axes:
            layer.result("Identity", [layer.real(0)], shape)
            return
        keep = layer.int_option("keep_dims")
        rank = layer.input(0).rank
        # the axes that are left are in the same order only where the channels go or all stay
        inner = keep or (rank - 1) in axes or (len(axes) == rank - 2 and 0 not in axes)
        layout = layer.layout(0) if inner else LAST
        where = [placed(axis, rank, layout) for axis in axes]
        real = layer.real(0, layout)
        result_layout = layout if keep else LAST
        if op == "ReduceMean" and layer.input(0).dtype in ("int32", "int64"):
            count = int(np.prod([layer.input(0).shape[axis] for axis in axes]))
            total = layer.node("ReduceSum", [real, where], keepdims=keep)
            divisor = np.array(count, layer.input(0).dtype)
            layer.result("Div", [total, divisor], shape, layout=result_layout)
            return
        layer.result(op, [real, where], shape, layout=result_layout, keepdims=keep)

    return handler


def _logical(op: str) -> Handler:
    """REDUCE_ANY and REDUCE_ALL: the largest, the smallest of zeros and ones."""

    def handler(layer: Layer) -> None:
        axes, shape = _axes(layer)
        numbers = layer.node("Cast", [layer.stored(0)], to=element_type("int32"))
        keep = layer.int_option("keep_dims")
        if axes:
            numbers = layer.node(op, [numbers, axes], keepdims=keep)
        layer.result("Cast", [numbers], shape, to=element_type("bool"))

    return handler


def _arg(op: str) -> Handler:
    def handler(layer: Layer) -> None:
        x = layer.input(0)
        axis = layer.axis(layer.ints(1, "axis")[0])
        shape = [*x.shape[:axis], *x.shape[axis + 1 :]]
        # what is left keeps its order only where the channels go
        layout = layer.layout(0) if axis == x.rank - 1 else LAST
        where = placed(axis, x.rank, layout)
        index = layer.node(op, [layer.real(0, layout)], axis=where, keepdims=0)
        layer.result("Cast", [index], shape, to=element_type(layer.dtype()))

    return handler


def _top_k(layer: Layer) -> None:
    x = layer.input(0)
    count = layer.ints(1, "k")[0]
    if not 0 <= count <= x.shape[-1]:
        raise ValueError(f"the {count} largest of {x.shape[-1]}")
    shape = [*x.shape[:-1], count]
    values, places = layer.emit.nodes(
        "TopK",
        [layer.real(0), [count]],
        [f"{layer.name}_values", f"{layer.name}_places"],
        axis=-1,
    )
    layer.result("Identity", [values], shape)
    layer.result("Cast", [places], shape, index=1, to=element_type(layer.dtype(1)))


def _cumsum(layer: Layer) -> None:
    axis = layer.axis(layer.ints(1, "axis")[0])
    layer.result(
        "CumSum",
        [layer.real(0), np.array(axis, np.int64)],
        layer.input(0).shape,
        exclusive=layer.int_option("exclusive"),
        reverse=layer.int_option("reverse"),
    )


def _one_hot(layer: Layer) -> None:
    """ONE_HOT: ``on`` where the index is the place; an index that is none gives ``off``."""
    indices = layer.input(0)
    depth = layer.ints(1, "depth")[0]
    axis = layer.axis(layer.int_option("axis"), indices.rank + 1)
    shape = [*indices.shape[:axis], depth, *indices.shape[axis:]]
    checked_constant(depth)
    places = np.arange(depth, dtype=indices.dtype).reshape(
        [-1 if number == axis else 1 for number in range(len(shape))]
    )
    column = layer.node("Unsqueeze", [layer.stored(0), [axis]])
    hit = layer.node("Equal", [column, places])
    layer.result("Where", [hit, layer.real(2), layer.real(3)], shape)


def _matrix_diag(layer: Layer) -> None:
    x = layer.input(0)
    size = x.shape[-1]
    row = layer.node("Unsqueeze", [layer.real(0), [-1]])
    checked_constant(size * size)
    zero = layer.emit.scalar(0, "float32" if x.quant is not None else x.dtype)
    layer.result("Where", [np.eye(size, dtype=bool), row, zero], [*x.shape, size])


def _matrix_set_diag(layer: Layer) -> None:
    x, diagonal = layer.input(0), layer.input(1)
    rows, columns = x.shape[-2:]
    if diagonal.shape != (*x.shape[:-2], min(rows, columns)):
        raise ValueError(f"a diagonal of {diagonal.shape} for {x.shape}")
    checked_constant(rows * columns)
    # along the longer side, the short diagonal is only read where it is
    axis = -1 if columns <= rows else -2
    line = layer.node("Unsqueeze", [layer.real(1), [-2 if axis == -1 else -1]])
    layer.result("Where", [np.eye(rows, columns, dtype=bool), line, layer.real(0)], x.shape)


def _zeros(layer: Layer, shape: list[int], value: float, kind: str) -> str:
    number = layer.emit.scalar(value, kind)
    return layer.node("Expand", [number, shape])


def _scatter_nd(layer: Layer) -> None:
    """SCATTER_ND: updates to the same place are added."""
    updates, shape = layer.input(1), layer.ints(2, "shape")
    places = layer.node("Cast", [layer.stored(0)], to=element_type("int64"))
    start = _zeros(layer, shape, 0, updates.dtype)
    layer.result("ScatterND", [start, places, layer.stored(1)], shape, reduction="add")


def _segments(reduction: str, start: float | str) -> Handler:
    """Rows by constant segment numbers, joined by ``reduction`` from ``start``."""

    def handler(layer: Layer) -> None:
        x = layer.input(0)
        ids = layer.array(1, "list of segments").astype(np.int64)
        if ids.ndim != 1 or ids.size != x.shape[0] or ids.min() < 0:
            raise layer.refusal("its segments are no plain list of row numbers")
        sorted_ids = layer.operator.type == "SEGMENT_SUM"
        count = int(ids.max()) + 1 if sorted_ids else layer.ints(2, "number of segments")[0]
        if ids.max() >= count:
            raise ValueError(f"segment {ids.max()} of {count}")
        shape = [count, *x.shape[1:]]
        info = np.finfo(x.dtype) if x.dtype.startswith("float") else np.iinfo(x.dtype)
        value = {"low": info.min, "high": info.max}.get(str(start), start)
        base = _zeros(layer, shape, value, x.dtype)  # type: ignore[arg-type]
        layer.result("ScatterND", [base, ids[:, None], layer.real(0)], shape, reduction=reduction)

    return handler


def _sparse_to_dense(layer: Layer) -> None:
    """SPARSE_TO_DENSE: values at places of a tensor filled with a default."""
    places, values = layer.input(0), layer.input(2)
    shape = layer.ints(1, "shape")
    rows = values.count if values.rank == 0 and places.rank < 2 else None
    indices = layer.part(places, [places.count // len(shape), len(shape)])
    column = layer.node("Cast", [layer.tensors.stored(indices)], to=element_type("int64"))
    base = layer.node("Expand", [layer.tensors.stored(layer.part(layer.input(3), [])), shape])
    count = indices.shape[0]
    stored = layer.stored(2)
    if values.count != count or rows is not None or values.rank != 1:
        one = layer.tensors.stored(layer.part(values, [values.count]))
        stored = layer.node("Expand", [one, [count]])
    layer.result("ScatterND", [base, column, stored], shape)


# ------------------------------------------------------------------------------------ resizing


def _resized(layer: Layer) -> list[int]:
    batch, height, width, depth = layer.input(0).shape
    sizes = layer.ints(1, "new size")
    if len(sizes) != 2 or min(*sizes, height, width) < 1:
        raise ValueError(f"{height}x{width} to {sizes}")
    return [batch, *sizes, depth]


def _mode(layer: Layer) -> str:
    aligned, half = layer.int_option("align_corners"), layer.int_option("half_pixel_centers")
    if aligned and half:
        raise layer.refusal("it asks for align_corners and half_pixel_centers at once")
    return "align_corners" if aligned else "half_pixel" if half else "asymmetric"


def _resize(layer: Layer, shape: list[int], mode: str, nearest: str | None = None) -> None:
    layer.result(
        "Resize",
        [layer.real(0, FIRST), "", "", [shape[0], shape[3], *shape[1:3]]],
        shape,
        layout=FIRST,
        mode=mode,
        coordinate_transformation_mode=_mode(layer),
        nearest_mode=nearest,
    )


def _resize_bilinear(layer: Layer) -> None:
    _resize(layer, _resized(layer), "linear")


def nearest_places(size: int, wanted: int, mode: str) -> np.ndarray:
    """The source element of each result (resize_nearest_neighbor.h), in TFLite's float32."""
    aligned = mode == "align_corners" and wanted > 1
    scale = (
        np.float32(size - 1) / np.float32(wanted - 1)
        if aligned
        else (np.float32(size) / np.float32(wanted))
    )
    offset = np.float32(0.5) if mode == "half_pixel" else np.float32(0)
    exact = (np.arange(wanted, dtype=np.float32) + offset) * scale
    places = np.floor(exact + np.float32(0.5)) if mode == "align_corners" else np.floor(exact)
    nearest: np.ndarray = np.clip(places, 0, size - 1).astype(np.int64)
    return nearest


def _onnx_places(size: int, new_size: int, mode: str) -> np.ndarray:
    """What ONNX Runtime's Resize takes, in its float32 (``upsamplebase.h``)."""
    scale = np.float32(new_size) / np.float32(size)
    steps = np.arange(new_size, dtype=np.float32)
    if mode == "align_corners":
        step = np.float32(size - 1)
        exact = steps * step / np.float32(new_size - 1) if new_size > 1 else steps * 0
    elif mode == "half_pixel":
        exact = (steps + np.float32(0.5)) / scale - np.float32(0.5)
    else:
        exact = steps / scale
    rounded: np.ndarray = np.floor(exact if mode == "asymmetric" else exact + np.float32(0.5))
    places: np.ndarray = np.clip(rounded, 0, size - 1).astype(np.int64)
    return places


def _resize_nearest(layer: Layer) -> None:
    """RESIZE_NEAREST_NEIGHBOR; two gathers where ONNX's arithmetic takes another element."""
    shape, mode = _resized(layer), _mode(layer)
    checked_constant(max(shape))
    pairs = list(zip(layer.input(0).shape[1:3], shape[1:3], strict=True))
    places = [nearest_places(size, new_size, mode) for size, new_size in pairs]
    onnx = [_onnx_places(size, new_size, mode) for size, new_size in pairs]
    if all(np.array_equal(ours, theirs) for ours, theirs in zip(places, onnx, strict=True)):
        rule = "floor" if mode == "asymmetric" else "round_prefer_ceil"
        _resize(layer, shape, "nearest", rule)
        return
    rows = layer.node("Gather", [layer.real(0, FIRST), places[0]], axis=2)
    layer.result("Gather", [rows, places[1]], shape, layout=FIRST, axis=3)


HANDLERS: dict[str, Handler] = {
    "ARG_MAX": _arg("ArgMax"),
    "ARG_MIN": _arg("ArgMin"),
    "CUMSUM": _cumsum,
    "MATRIX_DIAG": _matrix_diag,
    "MATRIX_SET_DIAG": _matrix_set_diag,
    "MEAN": _reduction("ReduceMean"),
    "ONE_HOT": _one_hot,
    "REDUCE_ALL": _logical("ReduceMin"),
    "REDUCE_ANY": _logical("ReduceMax"),
    "REDUCE_MAX": _reduction("ReduceMax"),
    "REDUCE_MIN": _reduction("ReduceMin"),
    "REDUCE_PROD": _reduction("ReduceProd"),
    "RESIZE_BILINEAR": _resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": _resize_nearest,
    "SCATTER_ND": _scatter_nd,
    "SEGMENT_SUM": _segments("add", 0),
    "SPARSE_TO_DENSE": _sparse_to_dense,
    "SUM": _reduction("ReduceSum"),
    "TOPK_V2": _top_k,
    "UNSORTED_SEGMENT_MAX": _segments("max", "low"),
    "UNSORTED_SEGMENT_MIN": _segments("min", "high"),
    "UNSORTED_SEGMENT_PROD": _segments("mul", 1),
    "UNSORTED_SEGMENT_SUM": _segments("add", 0),
}
