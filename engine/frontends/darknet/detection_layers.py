"""Darknet's detection layers: raw, as the layer before gives them, or decoded to boxes and scores.

A decoded head is a table of one row per place and anchor (anchors of a place follow each other):
centre x and y, width and height as parts of the picture, objectness, then objectness times the
probability of each class. No threshold is applied and no box is left out.
"""

from __future__ import annotations

import numpy as np

from engine.frontends.darknet.layer import Converter, Layer
from engine.frontends.emit import refuse
from engine.frontends.formula import Formula, apply, exp, sigmoid, where

_MAX_ANCHORS = 1024
_MAX_CLASSES = 1 << 20


class _Head:
    """A head while it is decoded: its options and the parts of its input."""

    def __init__(self, at: Layer, box: int) -> None:
        self.at = at
        self.classes = at.integer("classes", 20)
        total = at.integer("num", 1)
        if not 0 <= box <= _MAX_CLASSES:
            refuse(f"its coords are {box}")
        listed = "mask" in at.options and at.type != "region"
        self.mask = at.integers("mask") if listed else tuple(range(max(0, min(total, 4096))))
        self.shape = at.shape()
        self.box = box
        if not (1 <= total <= _MAX_ANCHORS and 1 <= self.classes <= _MAX_CLASSES and self.mask):
            refuse("its num, mask or classes are out of range")
        needed = len(self.mask) * (box + 1 + self.classes)
        if self.shape[0] != needed:
            refuse(
                f"it gets {self.shape[0]} channels and needs {needed}: {len(self.mask)} anchors x "
                f"({box} + 1 + {self.classes} classes); filters= before it does not fit"
            )
        listed_anchors = at.reals("anchors")[: 2 * total]
        # anchors that are not given are 0.5 (make_yolo_layer, make_region_layer)
        pairs = np.array(
            (*listed_anchors, *[0.5] * (2 * total - len(listed_anchors))), np.float64
        ).reshape(-1, 2)
        beyond = any(not 0 <= anchor < total for anchor in self.mask)
        if beyond and at.net.decode:
            refuse(f"its mask names anchors beyond num={total}; take it raw")
        self.anchors = pairs[list(self.mask)] if not beyond else pairs[:0]

    def parts(self, *sizes: int) -> list[Formula]:
        """The input as [batch, anchors, entries, h, w], split along its entries."""
        at, e = self.at, self.at.e
        shape = e.ints(0, len(self.mask), self.box + 1 + self.classes, *self.shape[1:])
        x = e.node("Reshape", [at.image(), shape])
        outputs = [f"{at.name}_part{number}" for number in range(len(sizes))]
        return [e.formula(part) for part in e.nodes("Split", [x, e.ints(*sizes)], outputs, axis=2)]

    def place(self, x: Formula, axis: int) -> Formula:
        """``(x + i) / n`` along the width (axis 4) or the height (axis 3)."""
        count = self.shape[axis - 2]
        shape = [1] * 5
        shape[axis] = count
        grid = np.arange(count, dtype=np.float32).reshape(shape)
        return (x + self.at.e.constant(grid, "grid")) / count

    def sized(self, x: Formula, column: int, over: int, factor: float = 1) -> Formula:
        """``x`` times the anchors' width (column 0) or height (column 1) over ``over``."""
        sizes = (self.anchors[:, column] * factor / over).astype(np.float32)
        return x * self.at.e.constant(sizes.reshape(1, -1, 1, 1, 1), "anchors")

    def table(self, parts: list[Formula]) -> str:
        """One row per place and anchor."""
        at, e = self.at, self.at.e
        x = e.node("Concat", [part.written() for part in parts], axis=2)
        x = e.node("Transpose", [x], perm=(0, 3, 4, 1, 2))
        rows = len(self.mask) * self.shape[1] * self.shape[2]
        shape = (rows, 5 + self.classes)
        return at.node("Reshape", [x, e.ints(*(shape if at.batch == 1 else (at.batch, *shape)))])


def _scaled(x: Formula, scale: float) -> Formula:
    """As the heads call ``scal_add_cpu``."""
    return x if scale == 1 else x * scale - 0.5 * (scale - 1)


# ------------------------------------------------------------------------------- yolo_layer.c
def _yolo(at: Layer) -> str:
    head, (height, width) = _Head(at, box=4), at.net.size
    scale, new = at.real("scale_x_y", 1), at.flag("new_coords")
    if not at.net.decode:
        return at.raw()
    x, y, w, h, objectness, classes = head.parts(1, 1, 1, 1, 1, head.classes)
    if new:
        # the layer before is logistic already; sizes are (2 p)² anchors
        w, h = w * w, h * h
    else:
        x, y, objectness, classes = map(sigmoid, (x, y, objectness, classes))
        w, h = exp(w), exp(h)
    factor = 4 if new else 1
    return head.table(
        [
            head.place(_scaled(x, scale), 4),
            head.place(_scaled(y, scale), 3),
            head.sized(w, 0, width, factor),
            head.sized(h, 1, height, factor),
            objectness,
            classes * objectness,
        ]
    )


# ---------------------------------------------------------------------- gaussian_yolo_layer.c
def _gaussian_yolo(at: Layer) -> str:
    """Each of x, y, w, h has an uncertainty beside it; their mean lowers the classes."""
    head, (height, width) = _Head(at, box=8), at.net.size
    scale = at.real("scale_x_y", 1)
    shifts = {"left_top": 0.5, "right_bottom": -0.5}
    shift = shifts.get(at.text("yolo_point", "center"), 0.0)
    if not at.net.decode:
        return at.raw()
    x, x_doubt, y, y_doubt, w, w_doubt, h, h_doubt, objectness, classes = head.parts(
        *[1] * 9, head.classes
    )
    doubt = apply("Sum", *map(sigmoid, (x_doubt, y_doubt, w_doubt, h_doubt))) * 0.25
    x, y, objectness, classes = map(sigmoid, (x, y, objectness, classes))
    x, y = head.place(_scaled(x, scale), 4), head.place(_scaled(y, scale), 3)
    w, h = head.sized(exp(w), 0, width), head.sized(exp(h), 1, height)
    if shift:
        x, y = x + w * shift, y + h * shift
    return head.table([x, y, w, h, objectness, classes * objectness * (1 - doubt)])


# ----------------------------------------------------------------------------- region_layer.c
def _region(at: Layer) -> str:
    coords = at.integer("coords", 4)
    head = _Head(at, box=coords)
    if not at.net.decode:
        return at.raw()
    if coords != 4:
        refuse("its coords are not 4; take it raw")
    if "tree" in at.options:
        refuse("its classes are a tree (tree=), which needs a second file; take it raw")
    if not at.flag("softmax"):
        refuse("without softmax=1 versions of darknet decode it differently; take it raw")
    x, y, w, h, objectness, classes = head.parts(1, 1, 1, 1, 1, head.classes)
    x, y, objectness = map(sigmoid, (x, y, objectness))
    if at.integer("classfix", 0) == -1:
        objectness = where(apply("Less", objectness, 0.5), 0, objectness)
    return head.table(
        [
            head.place(x, 4),
            head.place(y, 3),
            head.sized(exp(w), 0, head.shape[2]),
            head.sized(exp(h), 1, head.shape[1]),
            objectness,
            apply("Softmax", classes, axis=2) * objectness,
        ]
    )


HEADS: dict[str, Converter] = {"yolo": _yolo, "Gaussian_yolo": _gaussian_yolo, "region": _region}
