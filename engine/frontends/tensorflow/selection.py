"""What is taken of a frozen graph: its ends, their sizes, predefined constants, operators.

The list of operators (``operators.toml``) is one of what is allowed, not of what is forbidden:
TensorFlow runs the graph to compare numbers, and a graph may hold operators that read and write
files or run code. tf2onnx converts more than stands there; what is left out draws random numbers,
holds state, or has no tensor of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize, shape_text
from engine.frontends.ends import batch_fixed, reached, require_once
from engine.frontends.facts import facts, words
from engine.frontends.source import LoadOptions
from engine.frontends.tensorflow.graphdef import GraphFile, Node, tensor_of
from engine.graph.ir.arrays import read_npz

_LISTS = {name: words(text) for name, text in facts(__package__, "operators.toml").items()}

DROPPED = frozenset({"Assert", "NoOp"})
"""Without a value: they only say in which order things happen, or stop a run."""

CONTROL_FLOW = _LISTS["control_flow"]
"""What a loop or a condition is after TensorFlow lowered it."""

SUPPORTED = DROPPED.union(*_LISTS.values())

_CUT = "Cut the graph with 'inputs' or 'outputs' so that it is left out."
_REASONS = {
    why: tuple(starts.split()) for why, starts in facts(__package__, "refusals.toml").items()
}


def refusal_of(op: str, functions: Container[str]) -> str:
    """Why an operator is refused; empty where it is taken.

    Args:
        functions: names of the graph's own functions, which are operators too.
    """
    if op in SUPPORTED or op in functions:
        return ""
    for why, starts in _REASONS.items():
        if op.startswith(starts):
            return f"{why}. {_CUT}"
    return f"no conversion of it to ONNX is known. {_CUT}"


_PLACEHOLDERS = ("Placeholder", "PlaceholderV2")
_FEEDS = ("IteratorGetNext", "QueueDequeue", "ReaderRead", "DecodeJpeg", "DecodePng", "DecodeImage")
_ASIDE = ("Summary", "Save", "Restore", "Assign")
_FUNCTIONS = ("f", "cond", "body", "then_branch", "else_branch")
_NO_NUMBERS = ("string", "resource", "variant")
_SHOWN = 5


@dataclass(frozen=True)
class Selection:
    """Tensors at which a load cuts, and the nodes between them.

    Attributes:
        inputs, outputs: names with the number of the output (``x:0``).
        nodes: names of all nodes that the outputs need.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: frozenset[str]


def tensor_name(name: str) -> str:
    """``x`` and ``x:0`` as ``x:0``: generation 1 names nodes, generation 2 tensors."""
    node, number = tensor_of(name)
    return f"{node}:{number}"


def candidates(graph: GraphFile) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tensors that suit as inputs and as outputs, in the file's order.

    Inputs are placeholders that something reads; where there is none, what comes out of a queue or
    of a decoder of pictures. Outputs are what nobody reads, but for checks, summaries, savers and
    what depends on no input.
    """
    read = {source for node in graph.nodes.values() if not _aside(node) for source in node.sources}
    holders = [
        n
        for n in graph.nodes.values()
        if n.op in _PLACEHOLDERS and n.name in read and n.dtype not in _NO_NUMBERS
    ]
    feeds = holders or [
        n for n in graph.nodes.values() if n.op.startswith(_FEEDS) and n.name in read
    ]
    inputs = tuple(f"{n.name}:{i}" for n in feeds for i in range(n.outputs))
    ends = [
        node
        for node in graph.nodes.values()
        if node.name not in read
        and not _aside(node)
        and not _pivot(graph, node)
        and node.op not in CONTROL_FLOW
        and node.op not in (*_PLACEHOLDERS, "Const", "PlaceholderWithDefault")
    ]
    depends = _depending(graph, {n.name for n in feeds})
    fed = [node for node in ends if node.name in depends]
    return inputs, tuple(f"{n.name}:{i}" for n in fed or ends for i in range(n.outputs))


def _aside(node: Node) -> bool:
    """Whether a node only checks or writes down."""
    return node.op in DROPPED or any(word in node.op for word in _ASIDE)


def _pivot(graph: GraphFile, node: Node) -> bool:
    """Whether a node only marks a branch, as ``cond/switch_t`` does."""
    first = graph.nodes.get(node.sources[0]) if node.sources else None
    return node.op == "Identity" and first is not None and first.op == "Switch"


def _depending(graph: GraphFile, sources: Collection[str]) -> set[str]:
    """Names of all nodes that a value of ``sources`` reaches."""
    readers: dict[str, list[str]] = {}
    for node in graph.nodes.values():
        for source in node.sources:
            readers.setdefault(source, []).append(node.name)
    return set(reached(sources, lambda name: readers.get(name, ())))


def select(graph: GraphFile, options: LoadOptions, constants: Iterable[str] = ()) -> Selection:
    """What the options name, or the candidates where they name nothing.

    Args:
        constants: nodes that a predefined file gives values for.

    Raises:
        SourceModelError: an unknown name (with the nearest ones), one twice, or no candidate.
    """
    suited_inputs, suited_outputs = candidates(graph)
    constant_names = {tensor_name(name) for name in constants}
    _check(graph, sorted(constant_names), suited_inputs, "predef_file")
    inputs = [tensor_name(n) for n in options.inputs or ()]
    outputs = [tensor_name(n) for n in options.outputs or ()]
    _check(graph, inputs, suited_inputs, "inputs")
    _check(graph, outputs, suited_outputs, "outputs")
    inputs = inputs or [n for n in suited_inputs if n not in constant_names]
    outputs = outputs or list(suited_outputs)
    for what, names in (("inputs", inputs), ("outputs", outputs)):
        if not names:
            raise SourceModelError(
                f"The graph has no node that suits as one of its {what}.",
                remedy=f"Name them in '{what}'.",
            )
    nodes = needed(graph, outputs, {*inputs, *constant_names})
    if not options.inputs:
        inputs = [name for name in inputs if tensor_of(name)[0] in nodes]
    return Selection(tuple(inputs), tuple(outputs), frozenset(nodes))


def _check(graph: GraphFile, names: Sequence[str], suited: Sequence[str], option: str) -> None:
    for name in names:
        node = tensor_of(name)[0]
        if node not in graph.nodes:
            near = did_you_mean(node, [*map(_short, suited), *graph.nodes])
            offer = ", ".join(repr(sanitize(_short(n), 80)) for n in suited[:_SHOWN])
            raise SourceModelError(
                f"The graph has no node {sanitize(node)!r}, which '{option}' names.",
                remedy=near or (f"These suit: {offer}." if offer else "Look at its nodes."),
            )
    if names:
        require_once(option, names, names)


def _short(name: str) -> str:
    return name.removesuffix(":0")


def needed(graph: GraphFile, outputs: Iterable[str], stops: Collection[str] = ()) -> set[str]:
    """Names of the nodes that ``outputs`` need; tensors in ``stops`` need nothing.

    What only has to run before a node counts where the graph has lowered loops, which place their
    constants so; elsewhere such nodes check or print.
    """
    ordered = any(node.op in CONTROL_FLOW for node in graph.nodes.values())

    def reads(tensor: str) -> list[str]:
        node = graph.nodes.get(tensor_of(tensor)[0])
        if node is None or tensor in stops:
            return []
        before = [f"{name}:0" for name in node.after] if ordered else []
        return [*(tensor_name(i) for i in node.inputs if not i.startswith("^")), *before]

    return {tensor_of(tensor)[0] for tensor in reached(map(tensor_name, outputs), reads)}


def refused(graph: GraphFile, selection: Selection) -> dict[str, tuple[str, str]]:
    """Node -> operator and why it will be refused, of those that the outputs need.

    Raises:
        SourceModelError: the library of functions is damaged.
    """
    stops = {tensor_of(name)[0] for name in selection.inputs}
    refusals: dict[str, tuple[str, str]] = {}
    for name in graph.nodes:
        if name not in selection.nodes or name in stops:
            continue
        node = graph.nodes[name]
        why = refusal_of(node.op, graph.functions)
        if why:
            refusals[name] = (node.op, why)
            continue
        for inner in calls(graph, node):
            why = refusal_of(inner.op, graph.functions)
            if why:
                refusals[name] = (inner.op, f"{why} (in the function that {node.op} calls)")
                break
    return refusals


def calls(graph: GraphFile, node: Node) -> list[Node]:
    """The nodes of all functions that a node calls, directly or through others.

    Raises:
        SourceModelError: a function is damaged, or calls itself.
    """
    bodies: dict[str, tuple[Node, ...]] = {}
    callees: dict[str, list[str]] = {}

    def called(name: str) -> list[str]:
        try:
            bodies[name] = graph.body(name)
        except ValueError as error:
            raise SourceModelError(
                f"The function {sanitize(name, 80)!r} of the graph is damaged: "
                f"{sanitize(str(error), 200)}.",
                remedy="Get the file again, or freeze the model again.",
            ) from error
        callees[name] = [callee for inner in bodies[name] for callee in _called(graph, inner)]
        return callees[name]

    reached(_called(graph, node), called)
    _refuse_recursion(callees)
    return [inner for body in bodies.values() for inner in body]


def _refuse_recursion(called: Mapping[str, Sequence[str]]) -> None:
    """TensorFlow writes functions out where they are called: one that calls itself kills it.

    Raises:
        SourceModelError: one does, directly or through others.
    """
    try:
        TopologicalSorter(called).prepare()
    except CycleError as error:
        raise SourceModelError(
            f"The function {sanitize(min(error.args[1]), 80)!r} of the graph calls itself.",
            cause="No model is exported so: TensorFlow has no end of writing it out.",
            remedy="Get the file again, or freeze the model again.",
        ) from error


def _called(graph: GraphFile, node: Node) -> list[str]:
    names = [node.op, *(node.attributes.get(key, "") for key in _FUNCTIONS)]
    return [name for name in names if name in graph.functions]


# What the user gives: sizes of inputs, with or without the batch, and predefined constants.

NHWC_FROM_NCHW = (0, 2, 3, 1)
_MAX_ELEMENTS = 1 << 28

Open = Sequence[int | None]


def fixed_shape(
    tensor: str,
    known: Open | None,
    given: Sequence[int] | None,
    *,
    nchw: bool,
    findings: list[Finding],
) -> tuple[int, ...]:
    """The sizes of an input, as the graph has them (NHWC).

    Sizes may lack the batch, which then is the graph's, or 1. Where the graph tells no rank, sizes
    of four axes and such that start with 1 are taken as complete. With ``nchw`` four sizes are
    NCHW; where only NHWC fits what the graph tells, they are NHWC.

    Args:
        known: sizes that the graph tells, None for open ones and for an unknown rank.
        findings: told of a batch that was set to 1.

    Raises:
        SourceModelError: they do not fit, are absurd, or missing.
    """
    if given is None:
        sizes = _without_sizes(tensor, known, findings)
    else:
        sizes = _with_batch(tensor, known, list(given))
        if nchw and len(sizes) == 4:
            turned = [sizes[axis] for axis in NHWC_FROM_NCHW]
            sizes = turned if _fits(known, turned) or not _fits(known, sizes) else sizes
    if any(size < 1 for size in sizes) or math.prod(sizes) > _MAX_ELEMENTS:
        raise SourceModelError(
            f"Input {sanitize(tensor)!r} would have the size {shape_text(sizes)}.",
            remedy=f"Give sizes of at least 1 and at most {_MAX_ELEMENTS} elements.",
        )
    return tuple(sizes)


def _with_batch(tensor: str, known: Open | None, size: list[int]) -> list[int]:
    if known is None:
        complete = len(size) >= 4 or (len(size) > 1 and size[0] == 1)
        return size if complete else [1, *size]
    if len(size) == len(known):
        return size
    if len(size) + 1 == len(known):
        return [known[0] or 1, *size]
    raise SourceModelError(
        f"'input_size_list' gives {shape_text(size)} for {sanitize(tensor)!r}, which has "
        f"{len(known)} axes ({_shown(known)}).",
        remedy="Give a size for each axis, or for each but the batch.",
    )


def _fits(known: Open | None, sizes: Sequence[int]) -> bool:
    return known is None or all(k is None or k == s for k, s in zip(known, sizes, strict=True))


def _without_sizes(tensor: str, known: Open | None, findings: list[Finding]) -> list[int]:
    if known is None or any(size is None for size in known[1:]):
        shape = "no shape at all" if known is None else _shown(known)
        raise SourceModelError(
            f"The size of input {sanitize(tensor)!r} is open ({shape}).",
            cause="An NPU needs fixed sizes, and only the batch has an obvious one.",
            remedy="Give the sizes, for example input_size_list: [[1, 224, 224, 3]].",
        )
    if not known or known[0] is not None:
        return [size or 0 for size in known]
    findings.append(batch_fixed(tensor, _shown(known)))
    return [1, *(size or 0 for size in known[1:])]


def _shown(known: Open) -> str:
    return shape_text(-1 if size is None else size for size in known)


# ---------------------------------------------------------------------------- predefined constants


_MAX_ARRAYS = 1000
_MAX_BYTES = 64 << 20


def read_predef(path: Path) -> dict[str, np.ndarray]:
    """Constants by the name of the placeholder that each takes the place of.

    The manual of toolkit 1 has them written by ``np.savez('prd.npz', **{name: value})``, with ``#``
    for every ``/`` of a name.

    Raises:
        SourceModelError: missing, no npz, one that holds Python objects, or more than 64 MiB.
    """
    try:
        arrays = read_npz(path, None, _MAX_BYTES)
    except OSError as error:
        raise SourceModelError(
            f"{sanitize(str(path))}, the predefined file, could not be read: "
            f"{error.strerror or error}.",
            remedy="Check the path.",
        ) from error
    except ValueError as error:
        raise _refusal(path, sanitize(str(error), 200)) from error
    if len(arrays) > _MAX_ARRAYS:
        raise _refusal(path, f"it holds more than {_MAX_ARRAYS} arrays")
    return {name.replace("#", "/"): array for name, array in arrays.items()}


def _refusal(path: Path, why: str) -> SourceModelError:
    return SourceModelError(
        f"{sanitize(str(path))} is not a file of predefined constants: {why}.",
        remedy="Write it with np.savez('prd.npz', **{'name#of#placeholder': value}).",
    )
