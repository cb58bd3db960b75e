"""Load and look at Darknet networks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.darknet.files import MAX_CFG, MAX_WEIGHTS, WeightsFile, read_cfg
from engine.frontends.darknet.network import INPUT_NAME, Network, plan_network
from engine.frontends.darknet.plan import INPUT, Build
from engine.frontends.ends import read_file
from engine.frontends.loaded import Loaded, SourceInfo
from engine.frontends.source import SourceModel
from engine.frontends.summary import SourceLayer, SourceSummary, SourceTensor

__all__ = ["inspect", "load"]


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
    name = sanitize(source.model.name, 100)
    data, digest = read_file(source.model, MAX_CFG, "a Darknet configuration")
    config = read_cfg(data, name)
    asked = source.options.outputs
    network = plan_network(config, source.options, name, strict=asked is None)
    ends = _ends(network, asked)
    needed = network.needed(ends)
    _refuse_unplanned(network, ends, needed)
    if source.weights is None:
        raise _no_weights(name)
    raw, weights_digest = read_file(source.weights, MAX_WEIGHTS, "a file of Darknet weights")
    weights = WeightsFile(raw, sanitize(source.weights.name, 100))
    arrays, findings = _take(network, weights, needed)
    reporter.check_cancelled()
    build = Build(source.model.stem, network.batch)
    tensors = _emit(network, build, arrays, needed)
    if asked is None:
        for tensor in dict.fromkeys(tensors[index] for index in ends):
            build.output(tensor)
    else:
        build.output(tensors[max(ends)])
    graph = build.finish(name, inputs=source.options.inputs, outputs=asked)
    _check_cut_sizes(source, [spec.shape for spec in graph.inputs])
    info = SourceInfo("darknet", f"Darknet, weights {weights.said}", (digest, weights_digest))
    return Loaded(graph, (*network.findings, *findings), info)


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
    found = [known[name] for name in asked if name in known]
    # inner tensors are named after their layer (conv_0_conv); other names the cut refuses
    found += [
        known[stem]
        for name in asked
        if name not in known and (stem := "_".join(name.split("_")[:2])) in known
    ]
    return found if len(found) == len(asked) else network.ends()


def _refuse_unplanned(network: Network, ends: Iterable[int], needed: set[int]) -> None:
    if network.refused and not needed.issuperset(ends):
        raise network.refused[min(network.refused)]


def _take(
    network: Network, weights: WeightsFile, needed: set[int]
) -> tuple[dict[int, dict[str, np.ndarray]], list[Finding]]:
    """The weights of every layer, in the file's order.

    A file that ends behind the last layer that is needed is taken (those for starting a training
    hold the first layers only), with a finding.
    """
    arrays: dict[int, dict[str, np.ndarray]] = {}
    last = max(needed, default=-1)
    for index, plan in enumerate(network.net.plans):
        if plan is None:
            return arrays, []  # behind a refused layer nobody knows what the file holds
        where = f"layer {index} ({network.names[index]})"
        if index > last and plan.blobs and not weights.left:
            what = (
                f"The weights end before {network.names[index]}, behind all that the outputs need."
            )
            return arrays, [Finding("weights-end-early", "info", weights.name, what)]
        taken = {blob.role: weights.take(blob, where) for blob in plan.blobs}
        if weights.transposed and plan.flat and "weights" in taken:
            array = taken["weights"]
            taken["weights"] = np.ascontiguousarray(array.reshape(array.shape[::-1]).T)
        arrays[index] = taken
    weights.refuse_rest(network.names[-1])
    return arrays, []


def _emit(
    network: Network,
    build: Build,
    arrays: dict[int, dict[str, np.ndarray]],
    needed: set[int],
) -> dict[int, str]:
    tensors = {INPUT: build.input(INPUT_NAME, network.input_shape)}
    build.put(INPUT, tensors[INPUT], network.net.shape, network.net.flat_input)
    for index in sorted(needed):
        plan = network.net.plans[index]
        if plan is None:
            continue
        build.index = index
        build.name = build.origin = network.names[index]
        tensors[index] = plan.emit(build, arrays[index])
        build.put(index, tensors[index], plan.shape, plan.flat)
    build.origin = ""
    return tensors


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
    name = sanitize(source.model.name, 100)
    data, digest = read_file(source.model, MAX_CFG, "a Darknet configuration")
    config = read_cfg(data, name)
    network = plan_network(config, source.options, name, strict=False)
    files = [digest]
    findings = list(network.findings)
    findings += [
        Finding.of_error("unsupported-operator", network.names[i], error)
        for i, error in network.refused.items()
    ]
    version: tuple[tuple[str, str, str], ...] = ()
    if source.weights is None:
        findings.append(Finding.of_error("no-weights", name, _no_weights(name)))
    else:
        raw, digest = read_file(source.weights, MAX_WEIGHTS, "a file of Darknet weights")
        files.append(digest)
        weights = WeightsFile(raw, sanitize(source.weights.name, 100))
        version = (("weights", weights.said, "0.1 and later"),)
        findings += _misfit(network, weights)
    layers = tuple(_row(network, index) for index in range(len(network.names)))
    count = sum(blob.count for plan in network.net.plans if plan for blob in plan.blobs)
    ends = [index for index in network.ends() if network.net.plans[index] is not None]
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


def _misfit(network: Network, weights: WeightsFile) -> list[Finding]:
    if network.refused:
        return []
    everything = set(range(len(network.names)))
    try:
        _take(network, weights, everything)
    except SourceModelError as error:
        return [Finding.of_error("weights-misfit", weights.name, error)]
    return []


def _shape(network: Network, index: int) -> tuple[int, ...] | None:
    plan = network.net.plans[index]
    if plan is None:
        return None
    return (network.batch, *(plan.shape[:1] if plan.flat else plan.shape))


def _output(network: Network, index: int) -> SourceTensor:
    """An output of the network: a raw head is what the layer before it gives."""
    plan = network.net.plans[index]
    if plan is not None and plan.kind == "head" and not network.net.decode:
        return SourceTensor(_name(network, plan.sources[0]), _shape(network, index), "float32")
    if plan is not None and plan.kind == "head":
        c, h, w = plan.shape
        section = network.net.sections[index]
        width = section.integer("classes", 20) + 5
        box = 8 if section.type == "Gaussian_yolo" else 4
        rows = h * w * c // (width - 4 + box)
        shape = (rows, width) if network.batch == 1 else (network.batch, rows, width)
        return SourceTensor(network.names[index], shape, "float32")
    return SourceTensor(network.names[index], _shape(network, index), "float32")


def _name(network: Network, index: int) -> str:
    return INPUT_NAME if index == INPUT else network.names[index]


def _row(network: Network, index: int) -> SourceLayer:
    plan, section = network.net.plans[index], network.net.sections[index]
    sources = plan.sources if plan is not None else (index - 1,)
    error = network.refused.get(index)
    return SourceLayer(
        name=network.names[index],
        op=section.type,
        inputs=tuple(_name(network, source) for source in sources),
        outputs=(network.names[index],),
        attributes=tuple(section.options.items()),
        shape=_shape(network, index),
        dtype="float32",
        refused=error.what if error is not None else "",
    )
