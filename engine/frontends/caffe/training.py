"""What of a net only training needs: losses, measures, labels, and layers that read datasets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.caffe.prototxt import Fields
from engine.frontends.caffe.spec import LayerSpec, Net, NetInput
from engine.frontends.facts import facts, words

__all__ = [
    "DATA",
    "V1_TYPES",
    "input_shape_of",
    "predictions_of",
    "take_inputs",
    "without_training",
]

V1_TYPES = facts(__package__, "v1_types.toml")
"""Type of a V1 layer -> its present name."""

DATA = words(
    "AnnotatedData Data DenseImageData DummyData HDF5Data ImageData ImageSegData MemoryData "
    "VideoData WindowData"
)
"""Layers that read a dataset: their tops that the net needs become inputs."""

_PREDICTIONS = {"ContrastiveLoss": 2, "HDF5Output": 2, "MultiBoxLoss": 3}
_TRAINING = ("Loss", "Accuracy")
_ALSO_TRAINING = words("DetectionEvaluate HDF5Output WarpCTC")


def predictions_of(kind: str) -> int:
    """How many bottoms of a layer of training (a loss, a measure) are predictions; 0 for others.

    Forks have losses of their own; all that are known end in ``Loss`` or ``Accuracy``.
    """
    if kind.endswith(_TRAINING) or kind in _ALSO_TRAINING:
        return _PREDICTIONS.get(kind, 1)
    return 0


Shape = tuple[int, ...] | None


def input_shape_of(kind: str, fields: Fields, index: int) -> Shape:
    """The shape of one top of a layer of the type ``kind``; None where the file does not tell."""
    return _SHAPES.get(kind, _cropped)(fields, index)


def _listed(fields: Fields, name: str, index: int) -> Shape:
    """One ``shape`` for each top, or one for all."""
    shapes = [tuple(shape.integers("dim")) for shape in fields.message(name).messages("shape")]
    if not shapes:
        return None
    return shapes[index] if index < len(shapes) else shapes[0]


def _input(fields: Fields, index: int) -> Shape:
    return _listed(fields, "input_param", index)


def _dummy(fields: Fields, index: int) -> Shape:
    param = fields.message("dummy_data_param")
    sides = [param.integers(name) for name in ("num", "channels", "height", "width")]
    if not all(sides):
        return _listed(fields, "dummy_data_param", index)
    return tuple(side[index] if index < len(side) else side[0] for side in sides)


def _memory(fields: Fields, index: int) -> Shape:
    param = fields.message("memory_data_param")
    sides = [param.integer(name, 0) for name in ("channels", "height", "width")]
    return (1, *sides) if index == 0 and all(sides) else None


def _cropped(fields: Fields, index: int) -> Shape:
    """Pictures of a dataset: only a crop or a resize tells their size; batches are training's."""
    transform = fields.message("transform_param")
    side = transform.integer("crop_size", 0)
    height = width = side
    if not side and "resize_param" in transform:
        resize = transform.message("resize_param")
        height, width = resize.integer("height", 0), resize.integer("width", 0)
    if index or not height or not width:
        return None
    return (1, 1 if transform.flag("force_gray", False) else 3, height, width)


_SHAPES: dict[str, Callable[[Fields, int], Shape]] = {
    "DummyData": _dummy,
    "Input": _input,
    "MemoryData": _memory,
}


def without_training(specs: list[LayerSpec], net: Net) -> tuple[list[LayerSpec], set[str]]:
    """Leave losses and measures out; a loss over Softmax becomes the Softmax.

    Returns:
        The layers that stay, and the blobs (labels) that only training needs.
    """
    kept: list[LayerSpec] = []
    labels: Counter[str] = Counter()
    dropped: list[str] = []
    softmaxes = sum(spec.type == "SoftmaxWithLoss" for spec in specs)
    taken = {blob for spec in specs for blob in spec.tops}
    brought = {value.name for value in net.inputs}
    for spec in specs:
        if spec.type == "Input" or _reads_dataset(spec):
            brought.update(spec.tops)
        if spec.type == "SoftmaxWithLoss" and spec.bottoms:
            plain = "prob" if softmaxes == 1 and "prob" not in taken else f"{spec.name}/prob"
            top = spec.tops[1] if len(spec.tops) > 1 else plain
            spec.fields.ignore("loss_param")
            kept.append(replace(spec, type="Softmax", bottoms=spec.bottoms[:1], tops=(top,)))
            labels.update(spec.bottoms[1:])
            net.findings.append(_loss_finding(spec, top))
        elif predictions_of(spec.type):
            dropped.append(spec.name)
            labels.update(_labels_of(spec, brought))
        else:
            kept.append(spec)
    if dropped:
        names = ", ".join(sanitize(name, 60) for name in dropped[:8])
        net.findings.append(
            Finding(
                code="training-layers-left-out",
                severity="info",
                where=names,
                what=f"Layers that only training needs were left out: {names}.",
            )
        )
    return kept, set(labels)


def _labels_of(spec: LayerSpec, brought: set[str]) -> list[str]:
    """The bottoms of a loss that are no predictions; some nets name the label first."""
    predictions = spec.bottoms[: predictions_of(spec.type)]
    if brought.intersection(predictions):
        predictions = tuple(blob for blob in spec.bottoms if blob not in brought)
    return [blob for blob in spec.bottoms if blob not in predictions]


def _loss_finding(spec: LayerSpec, top: str) -> Finding:
    return Finding(
        code="loss-made-softmax",
        severity="info",
        where=sanitize(spec.name),
        what=f"The loss {sanitize(spec.name)!r} became its Softmax, with the output "
        f"{sanitize(top)!r}.",
        cause="The file is a net for training; a deployed net gives the probabilities.",
    )


def take_inputs(specs: list[LayerSpec], net: Net, labels: set[str]) -> list[LayerSpec]:
    """Turn layers that bring data into inputs; those that nothing needs are left out."""
    read = _needed_blobs(specs, labels)
    kept = []
    declared = net.inputs
    for spec in specs:
        if spec.type != "Input" and not _reads_dataset(spec):
            kept.append(spec)
            continue
        for index, top in enumerate(spec.tops):
            if spec.type == "Input" or top in read:
                shape = input_shape_of(spec.type, spec.fields, index)
                declared.append(NetInput(top, spec.name, shape))
        if spec.type != "Input":
            net.findings.append(_data_finding(spec, read))
    unread = [value for value in declared if value.name not in read]
    net.inputs = [value for value in declared if value.name in read]
    for value in unread:
        net.findings.append(
            Finding(
                code="unused-input",
                severity="info" if value.name in labels else "warning",
                where=sanitize(value.name),
                what=f"No output needs the input {sanitize(value.name)!r}; it was left out.",
            )
        )
    return kept


def _reads_dataset(spec: LayerSpec) -> bool:
    """Whether a layer brings data; Python code that reads no blob does so, as in FCN's nets."""
    return spec.type in DATA or (spec.type == "Python" and not spec.bottoms)


def _needed_blobs(specs: list[LayerSpec], labels: set[str]) -> set[str]:
    """Blobs that are read on a way to an output; what feeds labels or Silence alone is not."""
    needed: set[str] = set()
    read: set[str] = set()
    for spec in reversed(specs):
        if spec.type == "Silence":
            continue
        ends = [top for top in spec.tops if top not in read and top not in labels]
        if ends or needed.intersection(spec.tops) or not spec.tops:
            needed.update(spec.bottoms)
        read.update(spec.bottoms)
    return needed


def _data_finding(spec: LayerSpec, read: set[str]) -> Finding:
    tops = ", ".join(sanitize(top, 60) for top in spec.tops if top in read) or "nothing"
    return Finding(
        code="data-layer-made-input",
        severity="info",
        where=sanitize(spec.name),
        what=f"The layer {sanitize(spec.name)!r} ({spec.type}) reads a dataset; inputs made of "
        f"it: {tops}.",
        cause="The file is a net for training.",
        remedy="Its mean, scale and crop belong into the preprocessing of the recipe.",
    )
