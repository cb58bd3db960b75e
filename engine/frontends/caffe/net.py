"""A Caffe net as it is deployed: without training, inputs declared, one name per value.

Rules of phases: caffe/src/caffe/net.cpp, ``Net::FilterNet`` and ``StateMeetsRule``. Losses,
measures, labels and layers that read datasets go. A blob that a layer overwrites in place
(``bottom == top``) becomes several values: the last one has the blob's name, as what Caffe's
``net.blobs`` holds after a run; earlier ones are named after their layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize
from engine.frontends.caffe.prototxt import Fields, Message, Scalar
from engine.frontends.caffe.spec import LayerSpec, Net, NetInput
from engine.frontends.facts import facts, words

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


_MAX_LAYERS = 20_000
_PHASES = {0: "TRAIN", 1: "TEST"}


def read_net(message: Message, source: str) -> Net:
    """The deployed net of a parsed prototxt.

    Raises:
        SourceModelError: no net, no layers, a bottom that nothing makes, a blob made twice.
        UnsupportedOperatorError: layers of the oldest kind (V0).
    """
    fields = Fields(message, sanitize(source))
    net = Net(fields.text("name"), _declared_inputs(fields), [], fields=fields)
    specs = _chosen(fields, net, source)
    if not specs:
        raise SourceModelError(
            f"{sanitize(source)} has no layers for the phase TEST.",
            cause="It is a solver, a part of a net, or a net for training only.",
            remedy="Give the prototxt of the net, usually called deploy.prototxt.",
        )
    specs, unneeded = without_training(specs, net)
    specs = take_inputs(specs, net, unneeded)
    _name_values(specs, net, unneeded, source)
    return net


def _declared_inputs(fields: Fields) -> list[NetInput]:
    """``input``, ``input_shape`` and ``input_dim`` at the top of old files."""
    names = fields.texts("input")
    shapes = [tuple(shape.integers("dim")) for shape in fields.messages("input_shape")]
    dims = fields.integers("input_dim")
    if dims and not shapes:
        if len(dims) != 4 * len(names):
            raise fields.fault(
                f"input_dim is given {len(dims)} times for {len(names)} inputs, not 4 for each"
            )
        shapes = [tuple(dims[i : i + 4]) for i in range(0, len(dims), 4)]
    if shapes and len(shapes) != len(names):
        raise fields.fault(f"there are {len(names)} inputs and {len(shapes)} shapes")
    padded = [*shapes, *[None] * (len(names) - len(shapes))]
    return [NetInput(name, name, shape) for name, shape in zip(names, padded, strict=True)]


def _chosen(fields: Fields, net: Net, source: str) -> list[LayerSpec]:
    """The layers of phase TEST, with the stage ``deploy`` where the file has one."""
    state = fields.message("state")
    state.ignore("phase", "level")
    stages = set(state.texts("stage"))
    messages = [*fields.messages("layer"), *fields.messages("layers")]
    if len(messages) > _MAX_LAYERS:
        raise fields.fault(f"there are more than {_MAX_LAYERS} layers")
    messages.sort(key=lambda layer: layer.line)
    rules = [layer.messages("include") for layer in messages]
    if any("deploy" in rule.texts("stage") for layer in rules for rule in layer):
        stages.add("deploy")
    level = state.integer("level", 0)
    specs = []
    for index, (layer, includes) in enumerate(zip(messages, rules, strict=True)):
        excludes = layer.messages("exclude")
        if includes and excludes:
            raise layer.fault("a layer has either include or exclude rules")
        met = [_meets(rule, stages, level) for rule in (includes or excludes)]
        if any(met) if includes else not any(met):
            specs.append(_spec(layer, index, source))
    left = len(messages) - len(specs)
    if left:
        net.findings.append(
            Finding(
                code="phase-chosen",
                severity="info",
                where=sanitize(source),
                what=f"{left} of {len(messages)} layers belong to training and were left out.",
                cause="Their rules exclude them from the phase TEST.",
            )
        )
    return specs


def _meets(rule: Fields, stages: set[str], level: int) -> bool:
    phase = rule.choice("phase", _PHASES, "TEST")
    least, most = rule.integer("min_level", level), rule.integer("max_level", level)
    required, unwanted = set(rule.texts("stage")), set(rule.texts("not_stage"))
    fits = phase == "TEST" and least <= level <= most
    return fits and required <= stages and not unwanted & stages


_NOT_COMPUTED = (
    *("param", "loss_weight", "propagate_down", "blobs_lr", "weight_decay", "blob_share_mode"),
    *("transform_param", "phase", "blobs", "quantization_param"),
)


def _spec(layer: Fields, index: int, source: str) -> LayerSpec:
    if "layer" in layer:
        raise UnsupportedOperatorError(
            f"{sanitize(source)}, line {layer.line}: this net is of the oldest kind (V0 layers).",
            cause="It was written before 2014.",
            remedy="Bring it up to date with Caffe's upgrade_net_proto_text and "
            "upgrade_net_proto_binary.",
        )
    name = layer.text("name") or f"layer{index}"
    kind = layer.text("type")
    layer.ignore(*_NOT_COMPUTED)
    return LayerSpec(
        name,
        V1_TYPES.get(kind, kind),
        tuple(layer.texts("bottom")),
        tuple(layer.texts("top")),
        layer,
        f"{sanitize(source)}, layer {sanitize(name, 100)!r} ({sanitize(kind, 60) or 'no type'})",
        shared=_shared(layer),
    )


def _shared(layer: Fields) -> tuple[str, ...]:
    """Names of shared blobs: of messages ``param``, in V1 layers of texts."""
    names = []
    for value in layer.source.all("param") if layer.source else ():
        values = value.all("name") if isinstance(value, Message) else [value]
        names.append(values[0].text if values and isinstance(values[0], Scalar) else "")
    return tuple(names)


def _name_values(specs: list[LayerSpec], net: Net, labels: set[str], source: str) -> None:
    """Give every value its name, and find the outputs."""
    last = _last_writers(specs, net, source)
    current = {value.name: value.name for value in net.inputs}
    taken = set(last) | set(current)
    open_values: dict[str, None] = {}
    silenced: set[str] = set()
    for index, spec in enumerate(specs):
        missing = [blob for blob in spec.bottoms if blob not in current]
        if missing and not _feeds_training_only(spec, labels):
            raise SourceModelError(
                f"{spec.path} reads the blob {sanitize(missing[0])!r}, which nothing before it "
                "makes.",
                cause="The prototxt was edited, or a layer stands in the wrong order.",
                remedy=did_you_mean(missing[0], current) or "Correct the name of the bottom.",
            )
        if missing:
            continue
        reads = tuple(current[blob] for blob in spec.bottoms)
        for value in reads:
            open_values.pop(value, None)
        makes = []
        for top in spec.tops:
            if _changes_nothing(spec, top):
                name = current[top]
            elif last.get(top) == index:
                name = top
            else:
                name = _unique(f"{top}/{spec.name}", taken)
            current[top] = name
            makes.append(name)
            open_values[name] = None
        if spec.type == "Silence":
            silenced.update(reads)
            continue
        net.layers.append(replace(spec, reads=reads, makes=tuple(makes)))
    net.blobs = current
    # in the order of the layers that make them, as the vendor's toolkits give them
    net.outputs = [value for value in open_values if value not in labels | silenced]


def _changes_nothing(spec: LayerSpec, top: str) -> bool:
    """Whether a layer only passes a blob on in place, so that it makes no value of its own."""
    return spec.type == "Dropout" and top in spec.bottoms


def _feeds_training_only(spec: LayerSpec, labels: set[str]) -> bool:
    return spec.type == "Silence" or (bool(spec.tops) and labels.issuperset(spec.tops))


def _last_writers(specs: list[LayerSpec], net: Net, source: str) -> dict[str, int]:
    """Blob -> index of the layer that writes it last; inputs keep their names for themselves.

    Raises:
        SourceModelError: a blob is made twice and not in place, which Caffe refuses as well.
    """
    last: dict[str, int] = {}
    blobs = {value.name for value in net.inputs}
    inputs = frozenset(blobs)
    for index, spec in enumerate(specs):
        for top in spec.tops:
            if top in blobs and top not in spec.bottoms:
                raise SourceModelError(
                    f"{spec.path} makes the blob {sanitize(top)!r}, which is made before it.",
                    cause="Two layers have the same top, or layers of training and test are mixed.",
                    remedy="Give one of them another top, or rules for its phase.",
                )
            blobs.add(top)
            if top not in inputs and not _changes_nothing(spec, top):
                last[top] = index
    return last


def _unique(name: str, taken: set[str]) -> str:
    number, hint = 1, name
    while name in taken:
        number += 1
        name = f"{hint}{number}"
    taken.add(name)
    return name
