"""Load and look at MXNet networks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.errors import GraphError, SourceModelError
from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.emit import TypedEmitter
from engine.frontends.ends import left_out, reached, refuse_no_input, require_once
from engine.frontends.loaded import Loaded, SourceInfo, read_file
from engine.frontends.mxnet.convert import (
    Conversion,
    NetworkInput,
    Reference,
    network_inputs,
    output_name,
    read_inputs,
    resolve,
    unknown_operator,
)
from engine.frontends.mxnet.files import (
    MAX_PARAMS,
    MAX_SYMBOL,
    Node,
    Params,
    Symbol,
    read_params,
    read_symbol,
)
from engine.frontends.mxnet.operators import WEIGHT_INPUTS
from engine.frontends.source import SourceLayer, SourceModel, SourceSummary, SourceTensor
from engine.graph.ir import Graph

_WEIGHT_NAMES = ("_weight", "_bias", "_gamma", "_beta", "_moving_mean", "_moving_var")


@dataclass(frozen=True)
class _Files:
    """Both files of a network, read.

    Attributes:
        symbol: the layers.
        params: the arrays; None where there is no file of them.
        arrays: of ``params``, all float ones in float32.
        digests: (file name, SHA-256) of each.
        findings: about the arrays.
    """

    symbol: Symbol
    params: Params | None
    arrays: dict[str, np.ndarray]
    digests: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]


def load(source: SourceModel, reporter: Reporter) -> Loaded:
    """The graph of a symbol file and its ``.params``.

    Args:
        source: the files, and the options ``inputs``, ``outputs``, ``input_size_list`` and
            ``input_initial_val``.
        reporter: asked whether to stop.

    Returns:
        A graph whose tensors have MXNet's own names: ``data``, ``conv0_output``.

    Raises:
        SourceModelError: damaged, incomplete, without sizes, or an unknown name.
        UnsupportedOperatorError: names the node, its operator and the reason.
    """
    files = _read(source)
    name = sanitize(source.model.name, 100)
    if files.params is None:
        raise _no_params(name)
    ends = _ends(files, source.options.outputs)
    starts = _starts(files.symbol, source.options.inputs)
    needed = _needed(files.symbol, ends, starts)
    references = _references(files, starts, needed, source.options.inputs)
    options = source.options

    def converted(*, add_batch: bool) -> tuple[Graph, list[Finding]]:
        inputs, notes = network_inputs(
            files.symbol,
            references,
            options.input_size_list,
            options.input_initial_val,
            add_batch=add_batch,
        )
        _require_sizes(inputs)
        reporter.check_cancelled()
        emitter = TypedEmitter(source.model.stem)
        conversion = Conversion(files.symbol, files.arrays, emitter, inputs)
        try:
            conversion.run(needed, strict=True)
            for reference in ends:
                conversion.output(reference)
            return emitter.finish(name), notes
        except (SourceModelError, GraphError) as error:
            if add_batch or not any(network_input.open for network_input in inputs):
                raise
            try:
                return converted(add_batch=True)
            except (SourceModelError, GraphError):
                raise error from None  # it is told of the sizes as they were given

    graph, notes = converted(add_batch=False)
    producer = f"MXNet {files.symbol.version}".strip()
    info = SourceInfo("mxnet", _format(files), files.digests, producer)
    return Loaded(graph, (*files.findings, *notes), info)


def _read(source: SourceModel) -> _Files:
    name = sanitize(source.model.name, 100)
    data, digest = read_file(source.model, MAX_SYMBOL, "an MXNet symbol")
    symbol = read_symbol(data, name)
    if source.weights is None:
        return _Files(symbol, None, {}, (digest,), ())
    raw, weights_digest = read_file(source.weights, MAX_PARAMS, "a file of MXNet parameters")
    params = read_params(raw, sanitize(source.weights.name, 100))
    arrays, findings = _in_float32(params)
    return _Files(symbol, params, arrays, (digest, weights_digest), findings)


def _in_float32(params: Params) -> tuple[dict[str, np.ndarray], tuple[Finding, ...]]:
    """The arrays, those of other float types brought to float32."""
    arrays: dict[str, np.ndarray] = {}
    changed: list[str] = []
    for name, array in params.arrays.items():
        kind = array.dtype.name
        if kind in ("float16", "float64", "bfloat16"):
            changed.append(kind)
            arrays[name] = array.astype(np.float32)
        else:
            arrays[name] = array
    if not changed:
        return arrays, ()
    kinds = ", ".join(sorted(set(changed)))
    finding = Finding(
        code="weights-to-float32",
        severity="warning",
        where="parameters",
        what=f"{len(changed)} arrays are {kinds}; they were converted to float32.",
        cause="The graph computes in float32. MXNet computes in the type of the weights, so that "
        "results differ by its rounding.",
    )
    return arrays, (finding,)


def _no_params(name: str) -> SourceModelError:
    return SourceModelError(
        f"{name} describes the layers of a network; its parameters are missing.",
        cause="There is no .params file beside it.",
        remedy="Name the .params file that was saved with it.",
    )


def _format(files: _Files) -> str:
    symbol = f"MXNet symbol {files.symbol.version or 'without a version'}"
    if files.params is None or not files.params.versions:
        return symbol
    return f"{symbol}, parameters {' and '.join(files.params.versions)}"


# ------------------------------------------------------------------------ ends and inputs
def _ends(files: _Files, asked: Sequence[str] | None) -> list[Reference]:
    """The tensors that ``outputs`` names, or the symbol's own."""
    if asked is None:
        return list(files.symbol.heads)
    references = [resolve(files.symbol, name, "outputs") for name in asked]
    for name in asked:
        if name in files.arrays:
            raise SourceModelError(
                f"{sanitize(name)!r} is a parameter of the network, no result.",
                remedy="Name a tensor that is computed from the inputs.",
            )
    require_once("outputs", asked, references)
    return references


def _starts(symbol: Symbol, asked: Sequence[str] | None) -> list[tuple[Reference, str]]:
    """The tensors that ``inputs`` names; empty where the network's own variables are taken."""
    if asked is None:
        return []
    references = [resolve(symbol, name, "inputs") for name in asked]
    require_once("inputs", asked, references)
    return [(reference, output_name(symbol, reference)) for reference in references]


def _needed(
    symbol: Symbol, ends: Sequence[Reference], starts: Sequence[tuple[Reference, str]]
) -> set[int]:
    """The nodes that the outputs need, back to the inputs that were chosen."""
    begin = {reference for reference, _ in starts}

    def nodes_of(references: Iterable[Reference]) -> list[int]:
        return [reference[0] for reference in references if reference not in begin]

    needed = reached(nodes_of(ends), lambda index: nodes_of(read_inputs(symbol.nodes[index])))
    return set(needed)


def _references(
    files: _Files,
    starts: Sequence[tuple[Reference, str]],
    needed: set[int],
    asked: Sequence[str] | None,
) -> list[tuple[Reference, str]]:
    """The inputs: those chosen, or the variables that are no parameters, in their order.

    Raises:
        SourceModelError: a weight is missing or sparse, or a variable is left out of ``inputs``.
    """
    weights = _weights_of(files.symbol, needed)
    free = []
    begin = {reference for reference, _ in starts}
    for index in sorted(needed):
        node = files.symbol.nodes[index]
        if node.op != "null" or node.name in files.arrays or (index, 0) in begin:
            continue
        _refuse_weight(files, node, weights.get(index))
        free.append(((index, 0), node.name))
    if asked is None:
        return free
    if free:
        raise left_out(name for _, name in free)
    return list(starts)


def _weights_of(symbol: Symbol, needed: set[int]) -> dict[int, str]:
    """Variable -> the node that reads it as a weight."""
    readers: dict[int, str] = {}
    for index in sorted(needed):
        node = symbol.nodes[index]
        if node.op in WEIGHT_INPUTS:
            readers.update((reference[0], node.name) for reference in node.inputs[1:])
        elif node.op == "RNN":
            readers.update((reference[0], node.name) for reference in node.inputs[1:2])
    return readers


def _refuse_weight(files: _Files, node: Node, reader: str | None) -> None:
    shown = sanitize(node.name, 100)
    if files.params is not None and shown in files.params.sparse:
        raise SourceModelError(
            f"The parameter {shown!r} is stored as {files.params.sparse[shown]}; only dense "
            "arrays are read.",
            remedy="Save it dense: array.tostype('default').",
        )
    if files.params is not None and (reader is not None or node.name.endswith(_WEIGHT_NAMES)):
        where = f", which node {sanitize(reader, 80)!r} reads," if reader is not None else ""
        raise SourceModelError(
            f"The parameter {shown!r}{where} is not in the file of parameters.",
            cause="The .params file is of another network, or of another step of its making.",
            remedy="Give the .params file that was saved with this symbol.",
        )


def _require_sizes(inputs: Sequence[NetworkInput]) -> None:
    unsized = [one for one in inputs if one.shape is None]
    if unsized:
        names = ", ".join(repr(sanitize(one.name, 80)) for one in unsized[:8])
        example = ", ".join("[1, 3, 224, 224]" for _ in inputs[:3])
        raise SourceModelError(
            f"The symbol says no size of the input {names}.",
            cause="MXNet gets sizes when a network is bound; its files mostly do not have them.",
            remedy=f"Give them, one for each input: input_size_list: [{example}].",
        )
    if inputs and all(one.value is not None for one in inputs):
        raise refuse_no_input()


# ------------------------------------------------------------------------------------- look
def inspect(source: SourceModel) -> SourceSummary:
    """What a symbol and its parameters hold, and what a load would refuse.

    Shapes are told where the inputs have sizes. Then also what depends on shapes is checked.

    Raises:
        SourceModelError: a file cannot be read, or is damaged.
    """
    files = _read(source)
    symbol = files.symbol
    name = sanitize(source.model.name, 100)
    findings = list(files.findings)
    if files.params is None:
        findings.append(Finding.of_error("no-weights", name, _no_params(name)))
    needed = _needed(symbol, symbol.heads, ())
    inputs, conversion = _tried(source, files, needed, findings)
    reasons = {
        index: unknown_operator(node.op)
        for index, node in enumerate(symbol.nodes)
        if index in needed and unknown_operator(node.op)
    }
    if conversion is not None:
        reasons.update((index, error.what) for index, error in conversion.refused.items())
    findings += [
        Finding("unsupported-operator", "error", sanitize(symbol.nodes[i].name), why)
        for i, why in list(reasons.items())[:50]
    ]
    arrays = files.params.arrays.values() if files.params else ()
    outputs = tuple(_tensor(symbol, reference, conversion) for reference in symbol.heads)
    return SourceSummary(
        framework="mxnet",
        format=_format(files),
        version=(("MXNet", symbol.version or "not specified", "0.x to 1.9"),),
        files=files.digests,
        inputs=tuple(
            SourceTensor(network_input.name, network_input.shape, network_input.dtype)
            for network_input in inputs
        ),
        outputs=outputs,
        layers=tuple(
            _row(symbol, index, conversion, reasons.get(index, ""))
            for index, node in enumerate(symbol.nodes)
            if node.op != "null"
        ),
        candidates=(
            tuple(network_input.name for network_input in inputs),
            tuple(tensor.name for tensor in outputs),
        ),
        findings=tuple(findings),
        parameters=sum(array.size for array in arrays),
        weights_bytes=sum(array.nbytes for array in arrays),
    )


def _tried(
    source: SourceModel, files: _Files, needed: set[int], findings: list[Finding]
) -> tuple[list[NetworkInput], Conversion | None]:
    """The inputs, and a conversion that went as far as it could where their sizes are known."""
    try:
        references = _references(files, (), needed, None)
        options = source.options
        sizes = options.input_size_list if options.inputs is None else None
        inputs, notes = network_inputs(files.symbol, references, sizes, None)
        longer, longer_notes = network_inputs(files.symbol, references, sizes, None, add_batch=True)
    except SourceModelError as error:
        findings.append(Finding.of_error("load-fails", "parameters", error))
        return [], None
    if files.params is None:
        findings += notes
        named = [g for g in inputs if not g.name.endswith(_WEIGHT_NAMES)]
        return named, None
    try:
        _require_sizes(inputs)
    except SourceModelError as error:
        findings += [*notes, Finding.of_error("size-needed", "inputs", error, "warning")]
        return inputs, None
    conversion = Conversion(files.symbol, files.arrays, TypedEmitter("look", keeps=False), inputs)
    conversion.run(needed, strict=False)
    if conversion.refused and any(network_input.open for network_input in inputs):
        other = Conversion(files.symbol, files.arrays, TypedEmitter("look", keeps=False), longer)
        other.run(needed, strict=False)
        if not other.refused:
            inputs, notes, conversion = longer, longer_notes, other
    findings += notes
    return inputs, conversion


def _tensor(symbol: Symbol, reference: Reference, conversion: Conversion | None) -> SourceTensor:
    shape = conversion.shape(reference) if conversion is not None else None
    return SourceTensor(output_name(symbol, reference), shape, "float32")


def _row(symbol: Symbol, index: int, conversion: Conversion | None, refused: str) -> SourceLayer:
    node = symbol.nodes[index]
    return SourceLayer(
        name=node.name,
        op=node.op,
        inputs=tuple(output_name(symbol, reference) for reference in node.inputs),
        outputs=(output_name(symbol, (index, 0)),),
        attributes=tuple(node.attributes.items()),
        shape=conversion.shape((index, 0)) if conversion is not None else None,
        refused=refused,
    )
