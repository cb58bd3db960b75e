"""How near the vendor's simulator of a compiled model is to ours: layer by layer, and whole.

A layer is what the compiler makes one layer of: a convolution with the activation or the sum that
it fuses. Both simulators compute it alone from the same integers, those of our simulation of a
sample. Whole models get the sample and no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from engine.graph.execute import Session, as_compiled, fused_roundings
from engine.graph.ir import Graph
from engine.quantize import lower_for_vendor
from engine.simulate import open_arithmetic
from tests.vendor.layers import Difference, cut, cut_for_toolkit, tensors_of
from tests.vendor.nets import cosine
from tests.vendor.toolkit import Toolkit

Feeds = Sequence[Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Output:
    """One output over all samples: the vendor's simulator against ours.

    Attributes:
        cosine: of the angle between the two.
        equal: share of values that are equal.
        theirs, ours: SQNR against float, in dB.
    """

    name: str
    cosine: float
    equal: float
    theirs: float
    ours: float


def compare_layers(graph: Graph, feeds: Feeds, toolkit: Toolkit, folder: Path) -> list[Difference]:
    """Every layer of every sample, in integers; the toolkit builds at its default level."""
    compiled = as_compiled(graph)
    whole = {node.name or "" for node in fused_roundings(graph)}
    layers, inputs, outputs = cut_for_toolkit(graph, whole)
    path = folder / "layers.onnx"
    onnx.save(lower_for_vendor(layers), path)
    toolkit.build(str(path), path, {})
    pieces = cut(compiled)
    order = [value.name or "" for value in layers.model.graph.inputs]
    differences_of_all = []
    for feed in feeds:
        real = tensors_of(compiled, feed)
        sample = [real[inputs[name]] if name not in feed else feed[name] for name in order]
        (arrays,) = toolkit.infer(str(path), [sample])
        named = zip(outputs, arrays, strict=True)
        theirs = real | {name: array.reshape(real[name].shape) for name, array in named}
        differences_of_all += pieces.differences(feed, real.__getitem__, theirs.__getitem__)
    toolkit.release(str(path))
    return differences_of_all


def compare_whole(
    graph: Graph, reference: Graph, feeds: Feeds, theirs: Sequence[Sequence[np.ndarray]]
) -> list[Output]:
    """Outputs of the vendor's simulator beside those of ours, in the same arithmetic, and of the
    float graph.
    """
    ours = [open_arithmetic(graph, "reference").run(feed) for feed in feeds]
    golden = [Session(reference).run(feed) for feed in feeds]
    rows_of_outputs = []
    for at, spec in enumerate(graph.outputs):
        one, other, exact = (
            np.concatenate([np.ravel(row[key]) for row in rows])
            for rows, key in ((theirs, at), (ours, spec.name), (golden, spec.name))  # type: ignore[call-overload]
        )
        rows_of_outputs.append(
            Output(
                spec.name,
                cosine(one, other),
                equal_share(one, other),
                sqnr(exact, one),
                sqnr(exact, other),
            )
        )
    return rows_of_outputs


def equal_share(one: np.ndarray, other: np.ndarray) -> float:
    """Share of equal values."""
    return float(np.mean(one == other))


def sqnr(reference: np.ndarray, noisy: np.ndarray) -> float:
    """Signal to noise ratio in dB; infinite without noise."""
    exact = reference.astype(np.float64)
    noise = float(np.square(exact - noisy).sum())
    return float(10 * np.log10(np.square(exact).sum() / noise)) if noise else float("inf")


def simulated(
    graph: Graph, samples: np.ndarray, toolkit: Toolkit, folder: Path, level: int = 3
) -> list[list[np.ndarray]]:
    """Outputs of the vendor's simulator for our QDQ graph, from float samples (N, ...)."""
    path = folder / f"level{level}.onnx"
    onnx.save(lower_for_vendor(graph), path)
    toolkit.build(str(path), path, {"optimization_level": level})
    rows = toolkit.infer(str(path), [[sample[None]] for sample in samples])
    toolkit.release(str(path))
    return rows
