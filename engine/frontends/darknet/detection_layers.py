"""Darknet's detection layers: raw, as the layer before gives them, or decoded to boxes and scores.

A decoded head is a table of one row per place and anchor (anchors of a place follow each other):
centre x and y, width and height as parts of the picture, objectness, then objectness times the
probability of each class. No threshold is applied and no box is left out.
"""

from __future__ import annotations

import numpy as np

from engine.frontends.darknet.files import Section
from engine.frontends.darknet.layers import Planner, Weights
from engine.frontends.darknet.plan import Build, Net, Plan
from engine.frontends.formula import Formula, apply, exp, sigmoid, where
from engine.frontends.typed_emitter import refuse

__all__ = ["HEADS"]

_MAX_ANCHORS = 1024
_MAX_CLASSES = 1 << 20


class _Head:
    """A head while it is decoded: its options and the parts of its input."""

    def __init__(self, layer: Section, net: Net, box: int) -> None:
        self.classes = layer.integer("classes", 20)
        total = layer.integer("num", 1)
        if not 0 <= box <= _MAX_CLASSES:
            refuse(f"its coords are {box}")
        listed = "mask" in layer.options and layer.type != "region"
        self.mask = layer.integers("mask") if listed else tuple(range(max(0, min(total, 4096))))
        self.shape = net.shape_of(net.before)
        self.image = net.shape[1:]
        self.box = box
        if not (1 <= total <= _MAX_ANCHORS and 1 <= self.classes <= _MAX_CLASSES and self.mask):
            refuse("its num, mask or classes are out of range")
        wanted = len(self.mask) * (box + 1 + self.classes)
        if self.shape[0] != wanted:
            refuse(
                f"it gets {self.shape[0]} channels and needs {wanted}: {len(self.mask)} anchors x "
                f"({box} + 1 + {self.classes} classes); filters= before it does not fit"
            )
        given = layer.reals("anchors")[: 2 * total]
        # anchors that are not given are 0.5 (make_yolo_layer, make_region_layer)
        pairs = np.array((*given, *[0.5] * (2 * total - len(given))), np.float64).reshape(-1, 2)
        beyond = any(not 0 <= anchor < total for anchor in self.mask)
        if beyond and net.decode:
            refuse(f"its mask names anchors beyond num={total}; take it raw")
        self.anchors = pairs[list(self.mask)] if not beyond else pairs[:0]

    def parts(self, build: Build, source: int, sizes: tuple[int, ...]) -> list[Formula]:
        """The input as [batch, anchors, entries, h, w], split along its entries."""
        shape = build.ints(0, len(self.mask), self.box + 1 + self.classes, *self.shape[1:])
        x = build.node("Reshape", [build.image(source), shape])
        outputs = [f"{build.name}_part{number}" for number in range(len(sizes))]
        return list(
            map(build.formula, build.nodes("Split", [x, build.ints(*sizes)], outputs, axis=2))
        )

    def place(self, build: Build, x: Formula, axis: int) -> Formula:
        """``(x + i) / n`` along the width (axis 4) or the height (axis 3)."""
        count = self.shape[axis - 2]
        shape = [1] * 5
        shape[axis] = count
        grid = np.arange(count, dtype=np.float32).reshape(shape)
        return (x + build.constant(grid, "grid")) / count

    def sized(self, build: Build, x: Formula, column: int, over: int, factor: float = 1) -> Formula:
        """``x`` times the anchors' width (column 0) or height (column 1) over ``over``."""
        sizes = (self.anchors[:, column] * factor / over).astype(np.float32)
        return x * build.constant(sizes.reshape(1, -1, 1, 1, 1), "anchors")

    def table(self, build: Build, parts: list[Formula]) -> str:
        """One row per place and anchor."""
        x = build.node("Concat", [part.written() for part in parts], axis=2)
        x = build.node("Transpose", [x], perm=(0, 3, 4, 1, 2))
        rows = len(self.mask) * self.shape[1] * self.shape[2]
        shape = (rows, 5 + self.classes)
        whole = shape if build.batch == 1 else (build.batch, *shape)
        return build.node("Reshape", [x, build.ints(*whole)], build.name)


def _scaled(x: Formula, scale: float) -> Formula:
    """As the heads call ``scal_add_cpu``."""
    return x if scale == 1 else x * scale - 0.5 * (scale - 1)


def _raw(net: Net) -> Plan:
    source = net.before
    return Plan(net.shape_of(source), lambda build, _: build.raw(source), (source,), kind="head")


# ------------------------------------------------------------------------------- yolo_layer.c
def _yolo(layer: Section, net: Net) -> Plan:
    head, source = _Head(layer, net, box=4), net.before
    scale, new = layer.real("scale_x_y", 1), layer.flag("new_coords")
    if not net.decode:
        return _raw(net)

    def emit(build: Build, _: Weights) -> str:
        x, y, w, h, objectness, classes = head.parts(build, source, (1, 1, 1, 1, 1, head.classes))
        if new:
            # the layer before is logistic already; sizes are (2 p)² anchors
            w, h = w * w, h * h
        else:
            x, y, objectness, classes = map(sigmoid, (x, y, objectness, classes))
            w, h = exp(w), exp(h)
        factor = 4 if new else 1
        parts = [
            head.place(build, _scaled(x, scale), 4),
            head.place(build, _scaled(y, scale), 3),
            head.sized(build, w, 0, head.image[1], factor),
            head.sized(build, h, 1, head.image[0], factor),
            objectness,
            classes * objectness,
        ]
        return head.table(build, parts)

    return Plan(head.shape, emit, (source,), kind="head")


# ---------------------------------------------------------------------- gaussian_yolo_layer.c
def _gaussian_yolo(layer: Section, net: Net) -> Plan:
    """Each of x, y, w, h has an uncertainty beside it; their mean lowers the classes."""
    head, source = _Head(layer, net, box=8), net.before
    scale = layer.real("scale_x_y", 1)
    shifts = {"left_top": 0.5, "right_bottom": -0.5}
    shift = shifts.get(layer.text("yolo_point", "center"), 0.0)
    if not net.decode:
        return _raw(net)

    def emit(build: Build, _: Weights) -> str:
        x, x_doubt, y, y_doubt, w, w_doubt, h, h_doubt, objectness, classes = head.parts(
            build, source, (*[1] * 9, head.classes)
        )
        doubt = apply("Sum", *map(sigmoid, (x_doubt, y_doubt, w_doubt, h_doubt))) * 0.25
        x, y, objectness, classes = map(sigmoid, (x, y, objectness, classes))
        x, y = head.place(build, _scaled(x, scale), 4), head.place(build, _scaled(y, scale), 3)
        w = head.sized(build, exp(w), 0, head.image[1])
        h = head.sized(build, exp(h), 1, head.image[0])
        if shift:
            x, y = x + w * shift, y + h * shift
        return head.table(build, [x, y, w, h, objectness, classes * objectness * (1 - doubt)])

    return Plan(head.shape, emit, (source,), kind="head")


# ----------------------------------------------------------------------------- region_layer.c
def _region(layer: Section, net: Net) -> Plan:
    coords = layer.integer("coords", 4)
    head, source = _Head(layer, net, box=coords), net.before
    if not net.decode:
        return _raw(net)
    if coords != 4:
        refuse("its coords are not 4; take it raw")
    if "tree" in layer.options:
        refuse("its classes are a tree (tree=), which needs a second file; take it raw")
    if not layer.flag("softmax"):
        refuse("without softmax=1 versions of darknet decode it differently; take it raw")
    cut = layer.integer("classfix", 0) == -1

    def emit(build: Build, _: Weights) -> str:
        x, y, w, h, objectness, classes = head.parts(build, source, (1, 1, 1, 1, 1, head.classes))
        x, y, objectness = map(sigmoid, (x, y, objectness))
        if cut:
            objectness = where(apply("Less", objectness, 0.5), 0, objectness)
        parts = [
            head.place(build, x, 4),
            head.place(build, y, 3),
            head.sized(build, exp(w), 0, head.shape[2]),
            head.sized(build, exp(h), 1, head.shape[1]),
            objectness,
            apply("Softmax", classes, axis=2) * objectness,
        ]
        return head.table(build, parts)

    return Plan(head.shape, emit, (source,), kind="head")


HEADS: dict[str, Planner] = {"yolo": _yolo, "Gaussian_yolo": _gaussian_yolo, "region": _region}
