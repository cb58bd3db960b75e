"""A whole network of Darknet: every layer planned, named and checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize
from engine.frontends.darknet.detection_layers import HEADS
from engine.frontends.darknet.files import Config, Section, WeightsFile
from engine.frontends.darknet.layer import Layer, Net, UnknownShapeError, check_shape
from engine.frontends.darknet.layers import COMPUTING
from engine.frontends.darknet.routes import COMBINING
from engine.frontends.emit import TypedEmitter, refuse
from engine.frontends.ends import reached
from engine.frontends.facts import reasons
from engine.frontends.source import LoadOptions

INPUT_NAME = "data"
LAYERS = COMPUTING | COMBINING | HEADS
"""Layer type -> the function that plans it."""

# other words for a type (string_to_layer_type of parser.c)
_ALIASES = {
    "conv": "convolutional",
    "conn": "connected",
    "max": "maxpool",
    "local_avg": "local_avgpool",
    "avg": "avgpool",
    "soft": "softmax",
    "silence": "empty",
    "reorg_old": "reorg",
}
_SHORT = {"convolutional": "conv", "Gaussian_yolo": "gaussian_yolo"}
REFUSED_LAYERS = reasons(__package__, "refused_layers.toml")
_REFUSED_FLAGS = reasons(__package__, "refused_flags.toml")
_MAX_BATCH = 1024


@dataclass(frozen=True)
class Network:
    """Every layer of a file, converted.

    Attributes:
        net: the layers; None where one was refused.
        sections: of the file.
        names: of the layers, which are the names of their outputs too.
        input_shape: of the network's input, with the batch.
        refused: layer -> why.
        findings: what was noticed.
    """

    net: Net
    sections: tuple[Section, ...]
    names: tuple[str, ...]
    input_shape: tuple[int, ...]
    refused: dict[int, UnsupportedOperatorError]
    findings: tuple[Finding, ...]

    def shape(self, index: int) -> tuple[int, ...] | None:
        """Of a layer's output; None where it was refused."""
        layer = self.net.layers[index]
        return None if layer is None else self.net.e.shape(layer.tensor)

    def ends(self) -> list[int]:
        """The layers that the network's outputs are: heads, and the last layer if it is none."""
        layers = self.net.layers
        heads = [i for i, layer in enumerate(layers) if layer is not None and layer.kind == "head"]
        last = len(layers) - 1
        while last > 0 and (layer := layers[last]) is not None and layer.kind == "training":
            last -= 1
        return heads if last in heads else [*heads, last]

    def needed(self, ends: Sequence[int]) -> set[int]:
        """The layers that some layers need, themselves too."""
        layers = self.net.layers

        def converted(indices: Iterable[int | None]) -> list[int]:
            return [i for i in indices if i is not None and i >= 0 and layers[i] is not None]

        def sources(index: int) -> list[int]:
            layer = layers[index]
            return [] if layer is None else converted((*layer.sources, layer.owner))

        return set(reached(converted(ends), sources))

    def check_weights(self, needed: set[int]) -> list[Finding]:
        """Refuse weights that do not fit, as far as layers that are needed tell.

        A file that ends behind the last of them is taken (those for starting a training hold the
        first layers only), with a finding.

        Raises:
            SourceModelError: the file holds too little or too much.
            UnsupportedOperatorError: nobody knows where the weights of a layer begin: one before
                it is refused.
        """
        layers, weights = self.net.layers, self.net.weights
        known = layers.index(None) if None in layers else len(layers)
        for index in sorted(needed):
            if index > known and (layer := layers[index]) is not None and layer.blobs:
                raise self.refused[min(self.refused)]
        if weights is None:
            return []
        if weights.lacking is not None and weights.lacking[0] < known:
            index, error = weights.lacking
            if index <= max(needed, default=-1) or weights.left or weights.last == index:
                raise error
            what = f"The weights end before {self.names[index]}, behind all that the outputs need."
            return [Finding("weights-end-early", "info", weights.name, what)]
        if known == len(layers):
            weights.refuse_rest(self.names[-1])
        return []


def layer_name(section: Section, index: int) -> str:
    """``conv_0``: the type and the number of a layer, which also names its output."""
    kind = _ALIASES.get(section.type, section.type)
    return f"{_SHORT.get(kind, sanitize(kind, 60))}_{index}"


def read_network(
    config: Config,
    options: LoadOptions,
    name: str,
    e: TypedEmitter,
    weights: WeightsFile | None,
    *,
    strict: bool,
) -> Network:
    """Convert every layer.

    Args:
        config: the sections.
        options: of the load: sizes, epsilon, whether heads are decoded.
        name: of the file, for errors.
        e: writes the graph, of the layers that get their weights.
        weights: of the layers; None for the shapes alone.
        strict: whether the first layer that is refused ends it.

    Raises:
        SourceModelError: no size of the input, or a layer whose text is faulty.
        UnsupportedOperatorError: ``strict``, and a layer is refused.
    """
    shape, size = _input(config.net, options, name)
    data, keeps = e.input(INPUT_NAME, shape), e.keeps
    net = Net(e, data, options.darknet_epsilon, options.darknet_decode, size, weights)
    names = tuple(layer_name(section, index) for index, section in enumerate(config.layers))
    refused: dict[int, UnsupportedOperatorError] = {}
    for index, section in enumerate(config.layers):
        layer: Layer | None = None
        e.origin, e.keeps = names[index], keeps
        try:
            layer = _converted(section, net)
        except UnknownShapeError:
            pass
        except UnsupportedOperatorError as error:
            refused[index] = _named(section, index, error, name)
            if strict:
                raise refused[index] from error
        except SourceModelError as error:
            raise SourceModelError(
                f"{name}: {error.what}", cause=error.cause, remedy=error.remedy
            ) from error
        net.layers.append(layer)
    e.origin = ""
    findings = (*config.findings, *_notes(config.net, name))
    return Network(net, config.layers, names, shape, refused, findings)


def _converted(section: Section, net: Net) -> Layer:
    kind = _ALIASES.get(section.type, section.type)
    convert, index = LAYERS.get(kind), len(net.layers)
    if convert is None:
        why = REFUSED_LAYERS.get(kind)
        refuse(why or f"the type is unknown. {did_you_mean(kind, LAYERS)}".rstrip())
    for key in filter(section.options.__contains__, _REFUSED_FLAGS):
        if section.flag(key):
            refuse(_REFUSED_FLAGS[key])
    layer = Layer(**vars(section), net=net, index=index, name=layer_name(section, index))
    if kind in HEADS:
        layer.kind = "head"
    layer.tensor = convert(layer)
    if layer.kind == "layer":
        check_shape(net.e.shape(layer.tensor)[1:])
    return layer


def _named(
    section: Section, index: int, error: UnsupportedOperatorError, name: str
) -> UnsupportedOperatorError:
    where = f"layer {index} [{sanitize(section.type, 60)}], line {section.line} of {name}"
    remedy = (
        f"Cut the network before it: outputs: ['{INPUT_NAME}']."
        if index == 0
        else "Cut the network before it with 'outputs', naming layers such as conv_"
        f"{index - 1} (type and number)."
    )
    return UnsupportedOperatorError(
        f"Operator {sanitize(section.type, 60)} ({where}) is not supported: {error.what}.",
        remedy=remedy if index else "Take another network.",
    )


def _input(
    net: Section, options: LoadOptions, name: str
) -> tuple[tuple[int, ...], tuple[int, int]]:
    """The shape of the input with the batch, and its height and width (1x1 where it has none)."""
    if options.input_initial_val is not None and any(
        value is not None for value in options.input_initial_val
    ):
        raise SourceModelError(
            "A Darknet network has one input, which cannot become a constant.",
            remedy="Leave 'input_initial_val' out.",
        )
    sizes = options.input_size_list
    cut = options.inputs is not None and options.inputs != (INPUT_NAME,)
    if sizes is not None and not cut:
        return _given(sizes)
    c, h, w = (net.integer(key, 0) for key in ("channels", "height", "width"))
    inputs = net.integer("inputs", 0)
    if inputs > 0 and not (c and h and w):
        check_shape((inputs,))
        return (1, inputs), (1, 1)
    missing = [key for key, value in (("channels", c), ("height", h), ("width", w)) if value < 1]
    if missing:
        raise SourceModelError(
            f"[net] of {name} gives no {' and no '.join(missing)}.",
            cause="Darknet does not run such a file either; it was shortened, or is of another "
            "program.",
            remedy="Add it (images have channels=3), or give 'input_size_list', for example "
            "[[1, 3, 416, 416]].",
        )
    check_shape((c, h, w))
    return (1, c, h, w), (h, w)


def _given(sizes: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[int, int]]:
    numbers = [int(n) for n in sizes[0]] if len(sizes) == 1 and sizes[0] is not None else []
    if len(numbers) == 3:
        numbers = [1, *numbers]
    if len(numbers) not in (2, 4) or min(numbers) < 1 or numbers[0] > _MAX_BATCH:
        raise SourceModelError(
            f"The input_size_list {[list(size) for size in sizes][:4]} does not fit a Darknet "
            "network.",
            cause="It has one input: batch, channels, height, width.",
            remedy="Write it as [[1, 3, 416, 416]].",
        )
    check_shape(numbers[1:])
    _, _, *size = numbers
    return tuple(numbers), (size[0], size[1]) if size else (1, 1)


def _notes(net: Section, name: str) -> list[Finding]:
    if not net.flag("letter_box"):
        return []
    return [
        Finding(
            code="letter-box",
            severity="info",
            where=f"{name}, [net]",
            what="The network was trained on letterboxed images (letter_box=1).",
            cause="Darknet then fits images into the input with their proportions, and fills "
            "the rest with grey (0.5).",
            remedy="Prepare images the same way ('fit' in the preprocessing).",
        )
    ]
