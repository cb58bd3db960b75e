"""What of a net only training needs: losses, measures, labels, and layers that read datasets."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.caffe.data_layers import input_shape_of
from engine.frontends.caffe.spec import LayerSpec, Net, NetInput
from engine.frontends.caffe.types import DATA, predictions_of

__all__ = ["take_inputs", "without_training"]


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
