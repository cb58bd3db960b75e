"""A deployed net as data: its inputs, its layers, a name for every value, and where to cut it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from engine.base.errors import SourceModelError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize
from engine.frontends.caffe.prototxt import Fields


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
            f"The model has no blob or layer {sanitize(name)!r}, which {what} names.",
            remedy=did_you_mean(name, known) or "Look names up in the graph view.",
        )


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


_MOST_NAMES = 16


def cut_around(
    layers: Sequence[LayerSpec], refused: Collection[int], outputs: Iterable[str]
) -> str:
    """The remedy for layers that are not converted: outputs that keep all that can be.

    A detector may be refused for one layer of several that its last one reads (its priors): what
    the last one reads beside it is named, too, so that one cut is enough.

    Args:
        layers: of the net, in order, each reading what stands before it.
        refused: indices of those that are not converted.
        outputs: values that the net would give.
    """
    written: set[str] = set()
    lost: set[str] = set()
    ends: dict[str, None] = {}
    for index, spec in enumerate(layers):
        if index in refused or not lost.isdisjoint(spec.reads):
            lost.update(spec.makes)
            ends.update(dict.fromkeys(value for value in spec.reads if value in written))
        else:
            written.update(spec.makes)
    ends.update(dict.fromkeys(value for value in outputs if value in written))
    if not ends:
        return "No part of the net before it can be converted: name values behind it as 'inputs'."
    names = [repr(sanitize(value, 80)) for value in ends]
    shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    return (
        f"End the graph before it with outputs=[{shown}], and do its work on the CPU with what "
        "these give."
    )
