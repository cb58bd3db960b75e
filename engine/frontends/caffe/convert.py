"""From a net and its weights to a graph, layer by layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.events import NullReporter, Reporter
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize
from engine.frontends.caffe.layer import Layer, Tensor
from engine.frontends.caffe.layers import LAYERS, REFUSED
from engine.frontends.caffe.spec import LayerSpec, NetInput, cut_around
from engine.frontends.caffe.weights import Weights
from engine.frontends.typed_emitter import MisfitError, TypedEmitter


def trial(inputs: Sequence[NetInput], weights: Weights) -> Conversion:
    """A conversion that keeps nothing; inputs without a size are left out."""
    probe = TypedEmitter("probe", keeps=False)
    tensors = {
        value.name: Tensor(probe.input(value.name, value.shape), value.shape)
        for value in inputs
        if value.shape and min(value.shape) > 0
    }
    return Conversion(probe, weights, tensors)


@dataclass
class Conversion:
    """A conversion under way.

    Attributes:
        tensors: value of the net -> tensor of the graph.
        findings: what layers had to say.
    """

    writer: TypedEmitter
    weights: Weights
    tensors: dict[str, Tensor]
    findings: list[Finding] = field(default_factory=list)

    def convert(
        self,
        layers: Sequence[LayerSpec],
        outputs: Sequence[str],
        reporter: Reporter | None = None,
    ) -> None:
        """Convert layers in their order, which make ``outputs``; their inputs must be there.

        Raises:
            UnsupportedOperatorError: a layer that is not converted; names it, the reason, and where
                to end the net.
            SourceModelError: a layer that does not fit its inputs or its weights.
        """
        readers = readers_of(layers)
        for index, spec in enumerate(layers):
            (reporter or NullReporter()).check_cancelled()
            try:
                self.one(spec, readers)
            except UnsupportedOperatorError as error:
                if error.remedy:
                    raise
                refused = {i for i, other in enumerate(layers) if refusal_of(other)} | {index}
                raise UnsupportedOperatorError(
                    error.what, cause=error.cause, remedy=cut_around(layers, refused, outputs)
                ) from error

    def one(self, spec: LayerSpec, readers: Mapping[str, Counter[str]]) -> None:
        """Convert one layer; ``readers`` tells which types of layers read a value."""
        converter = LAYERS.get(spec.type)
        if converter is None:
            why = refusal_of(spec)
            raise UnsupportedOperatorError(
                f"{spec.path}, line {spec.fields.line}, cannot be converted: {why}.",
                remedy="",  # where to cut is known to who sees all layers
            )

        def only_feeds(top: int, kind: str) -> bool:
            return set(readers.get(spec.makes[top], ())) == {kind}

        self.writer.origin = sanitize(spec.name)
        inputs = [self.tensors[value] for value in spec.reads]
        masks = [index for index, x in enumerate(inputs) if x.plane is not None]
        if masks and (spec.type != "Upsample" or masks != [1]):
            raise SourceModelError(
                f"{spec.path} reads the mask of a pooling as numbers.",
                remedy="Cut the model before the layer that reads it (outputs).",
            )
        layer = Layer(spec, inputs, self.weights, self.writer, only_feeds)
        try:
            tops = converter(layer)
        except MisfitError as error:
            raise layer.fault(error.what) from error
        self._check_blobs(layer)
        self.tensors.update(zip(spec.makes, tops, strict=True))
        self.findings += layer.findings
        self._note_unread(spec)

    def _check_blobs(self, layer: Layer) -> None:
        stored = self.weights.stored(layer.spec)
        if stored is not None and stored > layer.blobs_used:
            raise layer.fault(
                f"the caffemodel has {stored} blobs for it, and it takes {layer.blobs_used}"
            )

    def _note_unread(self, spec: LayerSpec) -> None:
        spec.fields.ignore("name", "type", "bottom", "top", "include", "exclude")
        # how weights are made before training changes nothing here
        unread = [
            name
            for name in spec.fields.unread()
            if not any(part.endswith("filler") for part in name.split("."))
        ]
        if unread:
            names = ", ".join(sanitize(name, 60) for name in unread[:6])
            self.findings.append(
                Finding(
                    code="unknown-parameter",
                    severity="warning",
                    where=sanitize(spec.name),
                    what=f"Parameters of {sanitize(spec.name)!r} ({spec.type}) are not known "
                    f"here and make no difference: {names}.",
                    cause="They are of a fork of Caffe, or of another type of layer.",
                    remedy="Look up what they mean in the fork that trained the model.",
                )
            )


def readers_of(layers: Sequence[LayerSpec]) -> dict[str, Counter[str]]:
    """Value -> how many layers of each type read it."""
    readers: dict[str, Counter[str]] = {}
    for spec in layers:
        for value in spec.reads:
            readers.setdefault(value, Counter())[spec.type] += 1
    return readers


def refusal_of(spec: LayerSpec) -> str:
    """Why a layer's type is not converted; empty where it is."""
    if spec.type in LAYERS:
        return ""
    if spec.type in REFUSED:
        return REFUSED[spec.type]
    if not spec.type:
        return "it has no type"
    near = did_you_mean(spec.type, LAYERS)
    return f"the type {sanitize(spec.type, 60)!r} is not known" + (
        f" ({near[:-1]})" if near else ""
    )
