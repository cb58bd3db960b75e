"""A Caffe net as it is deployed: phase and stage chosen, inputs declared, one name per value.

Rules of phases: caffe/src/caffe/net.cpp, ``Net::FilterNet`` and ``StateMeetsRule``. A blob that a
layer overwrites in place (``bottom == top``) becomes several values: the last one has the blob's
name, as what Caffe's ``net.blobs`` holds after a run; earlier ones are named after their layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, printable
from engine.frontends.caffe.data_layers import input_shape_of
from engine.frontends.caffe.fields import Fields
from engine.frontends.caffe.prototxt import Message, Scalar
from engine.frontends.caffe.types import DATA, V1_TYPES, predictions_of

__all__ = ["LayerSpec", "Net", "NetInput", "needed_layers", "read_net"]

_MAX_LAYERS = 20_000
_PHASES = {0: "TRAIN", 1: "TEST"}


@dataclass(frozen=True)
class LayerSpec:
    """A layer of the deployed net.

    Attributes:
        name: as the file has it.
        type: its word, also for V1 layers.
        bottoms, tops: blobs as the file has them.
        reads, makes: the values that stand for them, unique in the net.
        fields: everything that the file says of it.
        path: file and layer, for errors.
        shared: for each blob the name by which layers share it; empty where it is the layer's own.
    """

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    fields: Fields
    path: str
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()


@dataclass(frozen=True)
class NetInput:
    """An input: its blob, the layer that declares it, its shape (None where the file has none)."""

    name: str
    layer: str
    shape: tuple[int, ...] | None


@dataclass
class Net:
    """The deployed net.

    Attributes:
        name: as the file has it.
        inputs: in the file's order.
        layers: in the file's order, each reading what stands before it.
        outputs: values that no layer reads, sorted as Caffe's own list of outputs is.
        blobs: blob -> the value that it holds in the end.
        findings: what was left out, changed or assumed.
        fields: of the whole file.
    """

    name: str
    inputs: list[NetInput]
    layers: list[LayerSpec]
    outputs: list[str] = field(default_factory=list)
    blobs: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    fields: Fields = field(default_factory=lambda: Fields(None, ""))

    def value_of(self, name: str, what: str) -> str:
        """The value that a user means by the name of a blob, of a value or of a layer.

        Raises:
            SourceModelError: there is none; with the nearest names.
        """
        if name in self.blobs:
            return self.blobs[name]
        values = {value for layer in self.layers for value in layer.makes}
        if name in values:
            return name
        for layer in self.layers:
            if layer.name == name and layer.makes:
                return layer.makes[0]
        known = [*self.blobs, *values, *(layer.name for layer in self.layers)]
        raise SourceModelError(
            f"The model has no blob or layer {printable(name)!r}, which {what} names.",
            remedy=did_you_mean(name, known) or "Look names up in the graph view.",
        )


def read_net(message: Message, source: str) -> Net:
    """The deployed net of a parsed prototxt.

    Raises:
        SourceModelError: no net, no layers, a bottom that nothing makes, a blob made twice.
        UnsupportedOperatorError: layers of the oldest kind (V0).
    """
    fields = Fields(message, printable(source))
    net = Net(fields.text("name"), _declared_inputs(fields), [], fields=fields)
    specs = _chosen(fields, net, source)
    if not specs:
        raise SourceModelError(
            f"{printable(source)} has no layers for the phase TEST.",
            cause="It is a solver, a part of a net, or a net for training only.",
            remedy="Give the prototxt of the net, usually called deploy.prototxt.",
        )
    specs, unneeded = _without_training(specs, net)
    specs = _take_inputs(specs, net, unneeded)
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
                where=printable(source),
                what=f"{left} of {len(messages)} layers belong to training and were left out.",
                cause="Their rules exclude them from the phase TEST.",
            )
        )
    return specs


def _meets(rule: Fields, stages: set[str], level: int) -> bool:
    phase = rule.choice("phase", _PHASES, "TEST")
    least, most = rule.integer("min_level", level), rule.integer("max_level", level)
    wanted, unwanted = set(rule.texts("stage")), set(rule.texts("not_stage"))
    fits = phase == "TEST" and least <= level <= most
    return fits and wanted <= stages and not unwanted & stages


_NOT_COMPUTED = (
    *("param", "loss_weight", "propagate_down", "blobs_lr", "weight_decay", "blob_share_mode"),
    *("transform_param", "phase", "blobs", "quantization_param"),
)


def _spec(layer: Fields, index: int, source: str) -> LayerSpec:
    if "layer" in layer:
        raise UnsupportedOperatorError(
            f"{printable(source)}, line {layer.line}: this net is of the oldest kind (V0 layers).",
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
        f"{printable(source)}, layer {printable(name, 100)!r} ({printable(kind, 60) or 'no type'})",
        shared=_shared(layer),
    )


def _shared(layer: Fields) -> tuple[str, ...]:
    """Names of shared blobs: of messages ``param``, in V1 layers of texts."""
    names = []
    for value in layer.source.all("param") if layer.source else ():
        given = value.all("name") if isinstance(value, Message) else [value]
        names.append(given[0].text if given and isinstance(given[0], Scalar) else "")
    return tuple(names)


def _without_training(specs: list[LayerSpec], net: Net) -> tuple[list[LayerSpec], set[str]]:
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
        if spec.type == "Input" or spec.type in DATA:
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
        names = ", ".join(printable(name, 60) for name in dropped[:8])
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
        where=printable(spec.name),
        what=f"The loss {printable(spec.name)!r} became its Softmax, with the output "
        f"{printable(top)!r}.",
        cause="The file is a net for training; a deployed net gives the probabilities.",
    )


def _take_inputs(specs: list[LayerSpec], net: Net, labels: set[str]) -> list[LayerSpec]:
    """Turn layers that bring data into inputs; those that nothing needs are left out."""
    read = _needed_blobs(specs, labels)
    kept = []
    declared = net.inputs
    for spec in specs:
        if spec.type != "Input" and spec.type not in DATA:
            kept.append(spec)
            continue
        for index, top in enumerate(spec.tops):
            if spec.type == "Input" or top in read:
                shape = input_shape_of(spec.type, spec.fields, index)
                declared.append(NetInput(top, spec.name, shape))
        if spec.type in DATA:
            net.findings.append(_data_finding(spec, read))
    unread = [value for value in declared if value.name not in read]
    net.inputs = [value for value in declared if value.name in read]
    for value in unread:
        net.findings.append(
            Finding(
                code="unused-input",
                severity="info" if value.name in labels else "warning",
                where=printable(value.name),
                what=f"No output needs the input {printable(value.name)!r}; it was left out.",
            )
        )
    return kept


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
    tops = ", ".join(printable(top, 60) for top in spec.tops if top in read) or "nothing"
    return Finding(
        code="data-layer-made-input",
        severity="info",
        where=printable(spec.name),
        what=f"The layer {printable(spec.name)!r} ({spec.type}) reads a dataset; inputs made of "
        f"it: {tops}.",
        cause="The file is a net for training.",
        remedy="Its mean, scale and crop belong into the preprocessing of the recipe.",
    )


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
                f"{spec.path} reads the blob {printable(missing[0])!r}, which nothing before it "
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
    net.outputs = sorted(value for value in open_values if value not in labels | silenced)


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
    made = {value.name for value in net.inputs}
    inputs = frozenset(made)
    for index, spec in enumerate(specs):
        for top in spec.tops:
            if top in made and top not in spec.bottoms:
                raise SourceModelError(
                    f"{spec.path} makes the blob {printable(top)!r}, which is made before it.",
                    cause="Two layers have the same top, or layers of training and test are mixed.",
                    remedy="Give one of them another top, or rules for its phase.",
                )
            made.add(top)
            if top not in inputs and not _changes_nothing(spec, top):
                last[top] = index
    return last


def _unique(name: str, taken: set[str]) -> str:
    number, wish = 1, name
    while name in taken:
        number += 1
        name = f"{wish}{number}"
    taken.add(name)
    return name


def needed_layers(
    layers: Iterable[LayerSpec], outputs: Iterable[str], stops: Iterable[str] = ()
) -> tuple[list[LayerSpec], set[str]]:
    """The layers that ``outputs`` need, back to ``stops``, and every value that they read."""
    needed, ends = set(outputs), set(stops)
    chosen = []
    for spec in reversed(list(layers)):
        if any(value in needed and value not in ends for value in spec.makes):
            chosen.append(spec)
            needed.update(spec.reads)
    return chosen[::-1], needed
