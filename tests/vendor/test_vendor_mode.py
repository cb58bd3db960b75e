"""The mode `vendor`: layer by layer and as whole nets what the toolkit's own quantizer computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.graph.execute import Session
from engine.graph.ir import Graph
from tests.vendor.layers import Difference, cut
from tests.vendor.nets import MODELS, Net, sqnr
from tests.vendor.toolkit import Toolkit

pytestmark = [pytest.mark.long, pytest.mark.vendor]

_DECIBELS = 0.2

# vww96 has two logits, and 17 photographs: one step in one of the 34 numbers moves the whole by
# some tenths of a decibel, and single last bits in early layers decide over it. Cut and mirrored
# photographs make the sample large enough for the limit above.
_DECIBELS_OF_FEW = 0.6

# The toolkit writes every tensor as text, too: seconds for a picture of 320 x 240.
_SAMPLES = {"digits": 2, "resnet8": 2, "vww96": 2, "rfb320": 1}
_LAYOUT = frozenset({"Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity"})


class _Dumps:
    """The toolkit's dumps of one sample, by the names of our tensors."""

    def __init__(self, folder: Path, graph: Graph) -> None:
        self._folder = folder
        self._graph = graph

    def __getitem__(self, tensor: str) -> np.ndarray:
        """The values of a tensor, computed by the toolkit's simulator.

        It names what it makes out of one of ours by a suffix (``_mm`` of a Gemm that became a
        convolution, ``-rs`` of what a Reshape follows), and drops or swaps Reshape and Transpose:
        those are done here.
        """
        shape = tuple(int(dim) for dim in self._graph.spec(tensor).shape)
        stage = tensor.replace("_stage0_output", "_2gavg_2conv0")
        for name in (f"{tensor}_int8", f"{tensor}_mm", tensor, f"{tensor}-rs", stage):
            plain = name.translate(str.maketrans("/:.", "___"))
            path = self._folder / f"{plain}.npy"
            node = self._graph.value(tensor).producer()
            moved = node is not None and node.op_type in _LAYOUT
            if path.is_file() and not moved:
                return np.load(path).reshape(shape)
        node = self._graph.value(tensor).producer()
        assert node is not None, f"the toolkit wrote nothing for {tensor}"
        assert node.op_type in _LAYOUT, f"the toolkit wrote nothing for {tensor}"
        source = self[node.inputs[0].name or ""]
        if node.op_type == "Transpose":
            return source.transpose(node.attributes.get_ints("perm"))
        return source.reshape(shape)


@pytest.mark.parametrize("granularity", ["channel", "layer"])
@pytest.mark.parametrize("model", MODELS)
def test_as_the_toolkit_quantizes(
    model: str, granularity: str, net: Callable[[str], Net], toolkit: Toolkit
) -> None:
    chosen = net(model)
    name = f"{model}-{granularity}"
    config = {**chosen.config, "quantized_dtype": "w8a8", "quantized_method": granularity}
    toolkit.build(name, chosen.path, config, chosen.calibration)
    quantized = chosen.quantized("vendor", granularity)
    pieces = cut(quantized.graph)
    found: list[Difference] = []
    for pixels in chosen.evaluation[: _SAMPLES[model]]:
        folder = toolkit.analyse(name, pixels[None])
        feeds = {chosen.input: chosen.values(pixels[None])}
        dumps = _Dumps(folder, quantized.reference)
        found += pieces.differences(feeds, dumps.__getitem__)
    _check_layers(found)
    if granularity == "channel":
        limit = _DECIBELS_OF_FEW if model == "vww96" else _DECIBELS
        _check_whole(chosen, chosen.evaluation, quantized.graph, toolkit, name, limit)
    if model == "vww96" and granularity == "channel":
        more = _cut_and_mirrored(np.concatenate([chosen.calibration, chosen.evaluation]))
        _check_whole(chosen, more, quantized.graph, toolkit, name, _DECIBELS)


def _cut_and_mirrored(pixels: np.ndarray) -> np.ndarray:
    """The four quarters of each picture (N, C, H, W), enlarged, and its mirror image."""
    high, wide = pixels.shape[2] // 2, pixels.shape[3] // 2
    quarters = [pixels[:, :, y : y + high, x : x + wide] for y in (0, high) for x in (0, wide)]
    enlarged = [quarter.repeat(2, axis=2).repeat(2, axis=3) for quarter in quarters]
    return np.concatenate([*enlarged, pixels[:, :, :, ::-1]])


def _check_layers(found: list[Difference]) -> None:
    """At least 99.9 % of the integers of every layer equal, none more than 1 apart."""
    for layer in {difference.layer for difference in found}:
        own = [difference for difference in found if difference.layer == layer]
        values = sum(difference.values for difference in own)
        assert max(difference.largest for difference in own) <= 1, own
        assert sum(difference.unequal for difference in own) <= max(1e-3 * values, 1), own
    values = sum(difference.values for difference in found)
    print(f"{sum(difference.unequal for difference in found)} of {values} integers differ by 1")


def _check_whole(
    net: Net, pixels: np.ndarray, graph: Graph, toolkit: Toolkit, name: str, limit: float
) -> None:
    """SQNR against float, the toolkit's and ours: at most so many decibels apart."""
    rows = toolkit.infer(name, [[sample[None]] for sample in pixels])
    golden = net.run(Session(net.graph), pixels)
    ours = net.run(Session(graph), pixels)
    for index, reference in enumerate(golden):
        theirs = np.concatenate([row[index].reshape(reference.shape[1:])[None] for row in rows])
        pair = sqnr(reference, theirs), sqnr(reference, ours[index])
        print(
            f"{name} output {index}, {len(pixels)} samples: "
            f"SQNR of the toolkit {pair[0]:.2f}, ours {pair[1]:.2f} dB"
        )
        assert abs(pair[0] - pair[1]) <= limit
