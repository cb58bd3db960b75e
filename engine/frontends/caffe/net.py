"""A Caffe net as it is deployed: phase and stage chosen, inputs declared, one name per value.

Rules of phases: caffe/src/caffe/net.cpp, ``Net::FilterNet`` and ``StateMeetsRule``. A blob that a
layer overwrites in place (``bottom == top``) becomes several values: the last one has the blob's
name, as what Caffe's ``net.blobs`` holds after a run; earlier ones are named after their layer.
"""

from __future__ import annotations

from dataclasses import replace

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize
from engine.frontends.caffe.prototxt import Fields, Message, Scalar
from engine.frontends.caffe.spec import LayerSpec, Net, NetInput
from engine.frontends.caffe.training import V1_TYPES, take_inputs, without_training

__all__ = ["read_net"]

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
        given = value.all("name") if isinstance(value, Message) else [value]
        names.append(given[0].text if given and isinstance(given[0], Scalar) else "")
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
    made = {value.name for value in net.inputs}
    inputs = frozenset(made)
    for index, spec in enumerate(specs):
        for top in spec.tops:
            if top in made and top not in spec.bottoms:
                raise SourceModelError(
                    f"{spec.path} makes the blob {sanitize(top)!r}, which is made before it.",
                    cause="Two layers have the same top, or layers of training and test are mixed.",
                    remedy="Give one of them another top, or rules for its phase.",
                )
            made.add(top)
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
