"""Load and look at Darknet networks."""

from __future__ import annotations

from collections.abc import Sequence

from engine.base.errors import SourceModelError
from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.darknet.files import MAX_CFG, MAX_WEIGHTS, Config, WeightsFile, read_cfg
from engine.frontends.darknet.layer import INPUT
from engine.frontends.darknet.network import INPUT_NAME, Network, read_network
from engine.frontends.emit import TypedEmitter
from engine.frontends.loaded import Loaded, SourceInfo, read_file
from engine.frontends.source import SourceLayer, SourceModel, SourceSummary, SourceTensor


def load(source: SourceModel, reporter: Reporter) -> Loaded:
    """The graph of a ``.cfg`` and its ``.weights``.

    Args:
        source: the files, and the options ``input_size_list``, ``inputs``, ``outputs``,
            ``darknet_epsilon`` and ``darknet_decode``.
        reporter: asked whether to stop.

    Returns:
        A graph with the input ``data``, float32 NCHW. Its outputs are what the heads get (or, with
        ``darknet_decode``, the tables that :mod:`engine.frontends.darknet.detection_layers`
        describes), and the last layer where that is no head. Tensors are named by type and number:
        ``conv_0``.

    Raises:
        SourceModelError: damaged, incomplete, or weights that do not fit; says where.
        UnsupportedOperatorError: names the layer, its line and the reason.
    """
    name, config, digest = _config(source)
    asked = source.options.outputs
    weights: WeightsFile | SourceModelError
    try:
        weights, weights_digest = _weights(source)
    except SourceModelError as error:  # what is refused of the network is told first
        weights = error
    file = weights if isinstance(weights, WeightsFile) else None
    e = TypedEmitter(source.model.stem, keeps=file is not None)
    network = read_network(config, source.options, name, e, file, strict=asked is None)
    ends = _ends(network, asked)
    needed = network.needed(ends)
    if network.refused and not needed.issuperset(ends):
        raise network.refused[min(network.refused)]
    if isinstance(weights, SourceModelError):
        raise weights
    findings = network.check_weights(needed)
    reporter.check_cancelled()
    layers = network.net.layers
    if len(needed) < len(layers):
        e.keep_only({network.names[index] for index in needed})
    tensors = [layer.tensor for layer in map(layers.__getitem__, sorted(ends)) if layer]
    for tensor in dict.fromkeys(tensors) if asked is None else tensors[-1:]:
        e.output(tensor)
    graph = e.finish(name, inputs=source.options.inputs, outputs=asked)
    _check_cut_sizes(source, [spec.shape for spec in graph.inputs])
    info = SourceInfo("darknet", f"Darknet, weights {weights.said}", (digest, weights_digest))
    return Loaded(graph, (*network.findings, *findings), info)


def _config(source: SourceModel) -> tuple[str, Config, tuple[str, str]]:
    """The name of the configuration for errors, what it says, and its file's name with SHA-256."""
    name = sanitize(source.model.name, 100)
    data, digest = read_file(source.model, MAX_CFG, "a Darknet configuration")
    return name, read_cfg(data, name), digest


def _weights(source: SourceModel) -> tuple[WeightsFile, tuple[str, str]]:
    """The weights, and the name and SHA-256 of their file.

    Raises:
        SourceModelError: there are none, or they cannot be read.
    """
    if source.weights is None:
        raise _no_weights(sanitize(source.model.name, 100))
    data, digest = read_file(source.weights, MAX_WEIGHTS, "a file of Darknet weights")
    return WeightsFile(data, sanitize(source.weights.name, 100)), digest


def _no_weights(name: str) -> SourceModelError:
    return SourceModelError(
        f"{name} describes the layers of a network; its weights are missing.",
        cause="There is no .weights file beside it, or several that could be it.",
        remedy="Name the .weights file that was trained with it.",
    )


def _ends(network: Network, asked: Sequence[str] | None) -> list[int]:
    """The layers that must be computed: those asked for, as far as names tell, else the heads."""
    if asked is None:
        return network.ends()
    known = {name: index for index, name in enumerate(network.names)}
    layers = [known[name] for name in asked if name in known]
    # inner tensors are named after their layer (conv_0_conv); other names the cut refuses
    layers += [
        known[stem]
        for name in asked
        if name not in known and (stem := "_".join(name.split("_")[:2])) in known
    ]
    return layers if len(layers) == len(asked) else network.ends()


def _check_cut_sizes(source: SourceModel, shapes: Sequence[tuple[int, ...]]) -> None:
    """Where the network is cut at inner tensors, sizes that were given must be theirs."""
    sizes, names = source.options.input_size_list, source.options.inputs
    if sizes is None or names is None or names == (INPUT_NAME,):
        return
    for name, shape, size in zip(names, shapes, sizes, strict=False):
        if tuple(size) not in (shape, shape[1:]):
            raise SourceModelError(
                f"The size {list(size)} of input {sanitize(name, 80)!r} is not that of the "
                f"layer, {list(shape)}.",
                remedy="Leave 'input_size_list' out where the network is cut at its layers.",
            )


# ------------------------------------------------------------------------------------- look
def inspect(source: SourceModel) -> SourceSummary:
    """What a ``.cfg`` holds: layers with shapes, heads, weights, and what a load would refuse.

    Raises:
        SourceModelError: it cannot be read, or its text is faulty.
    """
    name, config, digest = _config(source)
    weights, files = None, [digest]
    version: tuple[tuple[str, str, str], ...] = ()
    if source.weights is not None:
        weights, digest = _weights(source)
        files.append(digest)
        version = (("weights", weights.said, "0.1 and later"),)
    e = TypedEmitter("probe", keeps=False)
    network = read_network(config, source.options, name, e, weights, strict=False)
    findings = list(network.findings)
    findings += [
        Finding.of_error("unsupported-operator", network.names[i], error)
        for i, error in network.refused.items()
    ]
    if weights is None:
        findings.append(Finding.of_error("no-weights", name, _no_weights(name)))
    elif not network.refused:
        try:
            network.check_weights(set(range(len(network.names))))
        except SourceModelError as error:
            findings.append(Finding.of_error("weights-misfit", weights.name, error))
    layers = tuple(_row(network, index) for index in range(len(network.names)))
    count = sum(blob.floats for layer in network.net.layers if layer for blob in layer.blobs)
    ends = [index for index in network.ends() if network.net.layers[index] is not None]
    outputs = tuple(_output(network, index) for index in ends)
    return SourceSummary(
        framework="darknet",
        format="Darknet configuration",
        version=version,
        files=tuple(files),
        inputs=(SourceTensor(INPUT_NAME, network.input_shape, "float32"),),
        outputs=outputs,
        layers=layers,
        candidates=((INPUT_NAME,), tuple(tensor.name for tensor in outputs)),
        findings=tuple(findings),
        parameters=count,
        weights_bytes=4 * count,
    )


def _output(network: Network, index: int) -> SourceTensor:
    """An output of the network: a raw head is what the layer before it gives."""
    layer = network.net.layers[index]
    raw = layer is not None and layer.kind == "head" and not network.net.decode
    name = _name(network, layer.sources[0]) if layer is not None and raw else network.names[index]
    return SourceTensor(name, network.shape(index), "float32")


def _name(network: Network, index: int) -> str:
    return INPUT_NAME if index == INPUT else network.names[index]


def _row(network: Network, index: int) -> SourceLayer:
    layer, section = network.net.layers[index], network.sections[index]
    sources = layer.sources if layer is not None else [index - 1]
    error = network.refused.get(index)
    return SourceLayer(
        name=network.names[index],
        op=section.type,
        inputs=tuple(_name(network, source) for source in sources),
        outputs=(network.names[index],),
        attributes=tuple(section.options.items()),
        shape=network.shape(index),
        dtype="float32",
        refused=error.what if error is not None else "",
    )
