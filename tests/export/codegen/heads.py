"""Outputs of detectors of each form, with a few objects in noise, made from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.export.codegen.project import Array

__all__ = ["FORMS", "ultraface_priors_count"]

HEIGHT, WIDTH = 96, 128
PICTURE = (1, HEIGHT, WIDTH, 3)
CLASSES = 7


def _grids() -> list[tuple[int, int]]:
    return [(HEIGHT // s, WIDTH // s) for s in (8, 16, 32)]


def _places() -> int:
    return sum(h * w for h, w in _grids())


def _sparse(source: np.random.Generator, shape: tuple[int, ...], share: float = 0.03) -> Array:
    """Scores as probabilities, few of them high."""
    low = source.random(shape, np.float32) * 0.2
    high = source.random(shape, np.float32) * 0.6 + 0.4
    return np.where(source.random(shape) < share, high, low).astype(np.float32)


def _logit(p: Array) -> Array:
    p = np.clip(p, 1e-4, 1 - 1e-4)
    return np.asarray(np.log(p / (1 - p)), np.float32)


def grid_planes(source: np.random.Generator, *, anchors: int, logits: bool) -> list[Array]:
    found = []
    for h, w in _grids():
        table = _sparse(source, (1, anchors, 5 + CLASSES, h, w), 0.1)
        table[:, :, :4] = source.random((1, anchors, 4, h, w))
        found.append((_logit(table) if logits else table).reshape(1, -1, h, w))
    return found


def grid_last(source: np.random.Generator) -> list[Array]:
    return [
        np.ascontiguousarray(a.reshape(1, 3, 5 + CLASSES, *a.shape[2:]).transpose(0, 1, 3, 4, 2))
        for a in grid_planes(source, anchors=3, logits=False)
    ]


def darknet(source: np.random.Generator) -> list[Array]:
    # of a network of two grids, the coarser first
    return grid_planes(source, anchors=3, logits=True)[:0:-1]


def yolox_planes(source: np.random.Generator) -> list[Array]:
    found = grid_planes(source, anchors=1, logits=False)
    for each in found:
        each[:, :4] = source.normal(0, 0.7, each[:, :4].shape)
    return found


def yolox_rows(source: np.random.Generator) -> list[Array]:
    planes = yolox_planes(source)
    rows = [each.reshape(5 + CLASSES, -1).T for each in planes]
    return [np.concatenate(rows)[np.newaxis].astype(np.float32)]


def placed_rows(source: np.random.Generator) -> list[Array]:
    table = _sparse(source, (1, 3 * _places(), 5 + CLASSES), 0.1)
    table[..., :4] = source.random((1, 3 * _places(), 4)) * 60 + 10
    return [table]


def sides(source: np.random.Generator, *, sums: bool, joined: bool) -> list[Array]:
    found: list[Array] = []
    for h, w in _grids():
        boxes = source.normal(0, 2, (1, 64, h, w)).astype(np.float32)
        classes = _sparse(source, (1, CLASSES, h, w), 0.02)
        if joined:
            found.append(np.concatenate([boxes, _logit(classes)], axis=1))
            continue
        found += [boxes, classes]
        if sums:
            found.append(classes.sum(axis=1, keepdims=True))
    return found


def columns(source: np.random.Generator) -> list[Array]:
    table = _sparse(source, (1, 4 + CLASSES, _places()), 0.02)
    table[:, :4] = source.random((1, 4, _places())) * 60 + 10
    return [table]


def ultraface_priors_count() -> int:
    levels = ((8, 3), (16, 2), (32, 2), (64, 3))
    return sum(-(-HEIGHT // s) * -(-WIDTH // s) * n for s, n in levels)


def ultraface(source: np.random.Generator) -> list[Array]:
    count = ultraface_priors_count()
    face = _sparse(source, (1, count, 1), 0.05)
    boxes = source.normal(0, 1, (1, count, 4)).astype(np.float32)
    return [np.concatenate([1 - face, face], axis=2), boxes]


def retinaface(source: np.random.Generator) -> list[Array]:
    count = sum(h * w for h, w in _grids()) * 2
    boxes = source.normal(0, 1, (1, count, 4)).astype(np.float32)
    scores = source.normal(0, 1, (1, count, 2)).astype(np.float32)
    marks = source.normal(0, 1, (1, count, 10)).astype(np.float32)
    return [boxes, scores, marks]


def ssd(source: np.random.Generator) -> list[Array]:
    boxes = source.normal(0, 1, (1, 1917, 1, 4)).astype(np.float32)
    return [boxes, _logit(_sparse(source, (1, 1917, 21), 0.005))]


def scores(source: np.random.Generator) -> list[Array]:
    return [source.normal(0, 3, (1, 50, 1, 1)).astype(np.float32)]


def maps(source: np.random.Generator) -> list[Array]:
    return [source.normal(0, 1, (1, 5, 24, 32)).astype(np.float32)]


def mask(source: np.random.Generator) -> list[Array]:
    return [source.random((1, 1, 24, 32), np.float32)]


FORMS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "yolov5": ("yolov5", lambda s: grid_planes(s, anchors=3, logits=False), {}),
    "yolov7-logits": ("yolov7", lambda s: grid_planes(s, anchors=3, logits=True), {}),
    "yolov5-last": ("yolov5", grid_last, {}),
    "yolov5-table": ("yolov5", placed_rows, {}),
    "darknet": ("darknet", darknet, {}),
    "yolox": ("yolox", yolox_planes, {}),
    "yolox-table": ("yolox", yolox_rows, {}),
    "yolov8": ("yolov8", lambda s: sides(s, sums=True, joined=False), {}),
    "yolov11-joined": ("yolov11", lambda s: sides(s, sums=False, joined=True), {}),
    "yolov8-table": ("yolov8", columns, {}),
    "ultraface": ("ultraface", ultraface, {}),
    "retinaface": ("retinaface", retinaface, {}),
    "ssd": ("ssd", ssd, {}),
    "classification": ("classification", scores, {"top": 8}),
    "segmentation": ("segmentation", maps, {}),
    "mask": ("segmentation", mask, {}),
}
"""Name -> task, what makes its outputs from a seed, details."""
