"""Damaged files: each loads and keeps every rule, or is refused by an error of the engine."""

from __future__ import annotations

import random
import resource
from pathlib import Path

import pytest

from engine.base.errors import EngineError
from engine.frontends.caffe.layers import LAYERS
from engine.frontends.load import inspect_source, load_source
from engine.frontends.sniff import Recognised
from engine.frontends.source import LoadOptions, SourceModel
from engine.graph.ir import verify
from tests.frontends.caffe.nets import caffemodel, floats, inputs, layer
from tests.fuzz.mutate import mutant
from tests.safety import ends

_WEIGHTS = "num_output: 4 weight_filler { type: 'xavier' }"
_CONV = f"convolution_param {{ {_WEIGHTS} kernel_size: 3 stride: 2 pad: 1 group: 2 }}"

# layer type -> bottoms, tops, parameters: a net in which every type stands once
EVERY: dict[str, tuple[str, str, str]] = {
    "ArgMax": ("x", "y", "argmax_param { top_k: 2 axis: 1 }"),
    "Axpy": ("v x x", "y", ""),
    "BN": ("x", "y", "bn_param { eps: 0.1 }"),
    "BatchNorm": ("x", "y", "batch_norm_param { eps: 0.1 }"),
    "Bias": ("x", "y", "bias_param { axis: 1 num_axes: 2 }"),
    "Clip": ("x", "y", "clip_param { min: 0 max: 1 }"),
    "Concat": ("x x", "y", "concat_param { axis: 2 }"),
    "ContinuationIndicator": (
        *("", "cont"),
        "continuation_indicator_param { time_step: 3 batch_size: 2 }",
    ),
    "Convolution": ("x", "y", _CONV),
    "ConvolutionDepthwise": ("x", "y", _CONV),
    "Crop": ("x x", "y", "crop_param { axis: 2 offset: 0 }"),
    "Deconvolution": ("x", "y", _CONV),
    "DepthwiseConvolution": ("x", "y", _CONV),
    "Eltwise": ("x x", "y", "eltwise_param { operation: SUM coeff: 1 coeff: 2 }"),
    "Flatten": ("x", "y", "flatten_param { axis: 1 end_axis: 2 }"),
    "Im2col": ("x", "y", "convolution_param { kernel_size: 2 }"),
    "InnerProduct": ("x", "y", f"inner_product_param {{ {_WEIGHTS} axis: 2 }}"),
    "Interp": ("x", "y", "interp_param { zoom_factor: 2 pad_beg: -1 }"),
    "LRN": ("x", "y", "lrn_param { local_size: 3 norm_region: WITHIN_CHANNEL }"),
    "LSTM": ("s", "y", "recurrent_param { num_output: 4 }"),
    "Lstm": ("s", "y", "lstm_param { num_output: 4 }"),
    "MVN": ("x", "y", "mvn_param { across_channels: true }"),
    "Normalize": ("x", "y", "norm_param { channel_shared: false eps: 0.1 }"),
    "PReLU": ("x", "y", "prelu_param { channel_shared: false }"),
    "Permute": ("x", "y", "permute_param { order: 0 order: 2 }"),
    "Pooling": ("x", "y", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }"),
    "Power": ("x", "y", "power_param { power: 2 scale: 3 shift: 4 }"),
    "PriorBox": (
        *("x x", "y"),
        "prior_box_param { min_size: 2 max_size: 4 aspect_ratio: 2 step: 8 variance: 0.1 }",
    ),
    "ROIPooling": ("x r", "y", "roi_pooling_param { pooled_h: 2 pooled_w: 2 }"),
    "ReLU": ("x", "y", "relu_param { negative_slope: 0.1 }"),
    "Reduction": ("x", "y", "reduction_param { operation: MEAN axis: 1 coeff: 2 }"),
    "Reshape": ("x", "y", "reshape_param { shape { dim: 0 dim: -1 dim: 2 } axis: 1 num_axes: 2 }"),
    "Reverse": ("x", "y", "reverse_param { axis: 1 }"),
    "Scale": ("x", "y", "scale_param { axis: 1 bias_term: true }"),
    "ShuffleChannel": ("x", "y", "shuffle_channel_param { group: 2 }"),
    "Slice": ("x", "y z", "slice_param { axis: 1 slice_point: 2 }"),
    "Tile": ("x", "y", "tile_param { axis: 1 tiles: 2 }"),
    "Transpose": ("x", "y", "transpose_param { dim: 3 dim: 0 dim: 1 dim: 2 }"),
    "Upsample": ("x", "y", "upsample_param { scale: 2 }"),
}
for _kind in LAYERS:
    EVERY.setdefault(_kind, ("x", "y", ""))


HEADS = inputs(x=(2, 4, 6, 6), v=(2, 4, 1, 1), s=(3, 2, 4), r=(3, 5))


def _every_layer() -> str:
    text = HEADS
    for number, (kind, (bottoms, tops, params)) in enumerate(EVERY.items()):
        own = " ".join(f"{top}{number}" for top in tops.split())
        text += layer(kind, bottoms, own, params, f"layer{number}")
    return text


def _load(folder: Path, text: bytes, weights: bytes | None) -> bool:
    """Look, load and verify; whether it did."""
    (folder / "net.prototxt").write_bytes(text)
    if weights is not None:
        (folder / "net.caffemodel").write_bytes(weights)
    source = SourceModel(
        "caffe",
        folder / "net.prototxt",
        folder / "net.caffemodel" if weights is not None else None,
        Recognised("caffe", "", ""),
        LoadOptions(random_weights=weights is None),
    )
    try:
        inspect_source(source)
        verify(load_source(source).graph)
    except EngineError:
        return False
    return True


def test_the_net_of_every_layer_loads(tmp_path: Path) -> None:
    assert _load(tmp_path, _every_layer().encode(), None)


def _one_by_one(folder: Path, count: int, seed: int) -> None:
    rng = random.Random(seed)
    layers = _every_layer().removeprefix(HEADS).strip().split("\n")
    small = HEADS + layer("PReLU", "x", "p") + layer("Bias", "x", "b", "", "bias")
    weights = caffemodel({"it": [floats(1, 4)], "bias": [floats(2, 4)], "no": [floats(3, 2, 2)]})
    loaded, before = 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count):
        with ends():
            if number % 3 == 2:
                loaded += _load(folder, small.encode(), mutant(weights, rng.getrandbits(32)))
            else:
                # few layers, so that damage reaches the converters and is not refused before
                chosen = HEADS + "\n".join(["", *rng.sample(layers, 2)])
                damaged = mutant(chosen.encode(), rng.getrandbits(32), text=True)
                loaded += _load(folder, damaged, None)
    assert 0 < loaded < count
    # KiB: what other tests of this process took before says nothing
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.long)])
def test_damaged_files_are_refused_or_sound(tmp_path: Path, count: int) -> None:
    _one_by_one(tmp_path, count, count)
