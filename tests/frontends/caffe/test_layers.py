"""Every layer type against its definition in plain numpy (reference.py), or written beside it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from tests.frontends.caffe import reference
from tests.frontends.caffe.nets import floats, inputs, layer, load, one, run

X = floats(1, 2, 4, 6, 7)


def close(found: np.ndarray, wanted: np.ndarray, tolerance: float = 1e-5) -> None:
    assert found.dtype == np.float32
    assert found.shape == np.shape(wanted)
    assert np.abs(found - wanted).max() <= tolerance * max(1, np.abs(wanted).max())


_PARAMS = {
    **dict.fromkeys(("DepthwiseConvolution", "ConvolutionDepthwise", "Im2col"), "convolution"),
    "InnerProduct": "inner_product",
    "BatchNorm": "batch_norm",
    "Normalize": "norm",
    "ShuffleChannel": "shuffle_channel",
    "PriorBox": "prior_box",
}


def params_of(kind: str, fields: str) -> str:
    """The parameters of a layer: its own message with some fields."""
    return f"{_PARAMS.get(kind, kind.lower())}_param {{ {fields} }}" if fields else ""


ACTIVATIONS = {
    "ReLU": ("", lambda x: np.maximum(x, 0)),
    "ReLU negative": ("negative_slope: 0.3", lambda x: np.maximum(x, 0) + 0.3 * np.minimum(x, 0)),
    "ELU": ("alpha: 0.7", lambda x: np.where(x > 0, x, 0.7 * (np.exp(x) - 1))),
    "Sigmoid": ("", reference.sigmoid),
    "TanH": ("", np.tanh),
    "Swish": ("beta: 1.5", lambda x: x * reference.sigmoid(1.5 * x)),
    "Swish plain": ("", lambda x: x * reference.sigmoid(x)),
    "AbsVal": ("", np.abs),
    "BNLL": ("", lambda x: np.log(1 + np.exp(x))),
    "Clip": ("min: -0.5 max: 1", lambda x: x.clip(-0.5, 1)),
    "ReLU6": ("", lambda x: x.clip(0, 6)),
    "HardSwish": ("", lambda x: x * (x + 3).clip(0, 6) / 6),
    "Mish": ("", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "Threshold": ("threshold: 0.2", lambda x: (x > 0.2).astype(float)),
    "Power": ("power: 3 scale: 0.5 shift: 2", lambda x: (2 + 0.5 * x) ** 3),
    "Power identity": ("", lambda x: x),
    "Power affine": ("scale: -2 shift: 1", lambda x: 1 - 2 * x),
    "Power zero": ("power: 0 shift: 2", np.ones_like),
    "Power constant": ("power: 2 scale: 0 shift: 3", lambda x: np.full_like(x, 9)),
    "Exp": ("", np.exp),
    "Exp base": ("base: 2 scale: 0.5 shift: 1", lambda x: 2 ** (1 + 0.5 * x)),
    "Exp shift": ("shift: -1", lambda x: np.exp(x - 1)),
    "Log": ("base: 10 scale: 2 shift: 30", lambda x: np.log10(30 + 2 * x)),
    "Log e": ("shift: 9", lambda x: np.log(9 + x)),
    "MVN": (
        "",
        lambda x: (x - x.mean((2, 3), keepdims=True)) / (x.std((2, 3), keepdims=True) + 1e-9),
    ),
    "MVN across": (
        "across_channels: true eps: 0.1",
        lambda x: (x - x.mean((1, 2, 3), keepdims=True)) / (x.std((1, 2, 3), keepdims=True) + 0.1),
    ),
    "MVN mean": ("normalize_variance: false", lambda x: x - x.mean((2, 3), keepdims=True)),
    "Softmax": ("", lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "Softmax axis": ("axis: -1", lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "LRN": (
        "local_size: 3 alpha: 0.6 beta: 0.8 k: 2",
        lambda x: reference.lrn_across(x, 3, 0.6, 0.8, 2),
    ),
    "LRN within": (
        "norm_region: WITHIN_CHANNEL local_size: 3 alpha: 0.6 beta: 0.8 k: 5",
        lambda x: reference.lrn_within(x, 3, 0.6, 0.8),
    ),
    "Dropout": ("dropout_ratio: 0.5", lambda x: x),
    "Flatten": ("", lambda x: x.reshape(2, -1)),
    "Flatten end": ("axis: 1 end_axis: -2", lambda x: x.reshape(2, 24, 7)),
    "Permute": ("order: 0 order: 2 order: 3", lambda x: x.transpose(0, 2, 3, 1)),
    "Transpose": ("dim: 3 dim: 0 dim: 1 dim: 2", lambda x: x.transpose(3, 0, 1, 2)),
    "Reverse": ("axis: 2", lambda x: x[:, :, ::-1]),
    "Reverse first": ("", lambda x: x[::-1]),
    "Reshape": ("shape { dim: 0 dim: -1 dim: 7 }", lambda x: x.reshape(2, 24, 7)),
    "Reshape axes": (
        "shape { dim: 2 dim: 2 } axis: 1 num_axes: 1",
        lambda x: x.reshape(2, 2, 2, 6, 7),
    ),
    "Reshape end": ("shape { dim: 1 } axis: -1 num_axes: 0", lambda x: x.reshape(2, 4, 6, 7, 1)),
    "Tile": ("axis: 2 tiles: 3", lambda x: np.tile(x, (1, 1, 3, 1))),
    "ShuffleChannel": (
        "group: 2",
        lambda x: x.reshape(2, 2, 2, 6, 7).transpose(0, 2, 1, 3, 4).reshape(x.shape),
    ),
    "Reduction": ("", lambda x: x.sum()),
    "Reduction asum": ("operation: ASUM axis: 2 coeff: 0.5", lambda x: 0.5 * np.abs(x).sum((2, 3))),
    "Reduction sumsq": ("operation: SUMSQ axis: -1", lambda x: (x**2).sum(-1)),
    "Reduction mean": ("operation: MEAN axis: 1", lambda x: x.mean((1, 2, 3))),
    "Upsample": ("scale: 2", lambda x: x.repeat(2, 2).repeat(2, 3)),
    "Interp size": ("height: 11 width: 5", lambda x: reference.interp(x, 0, 0, (11, 5))),
    "Interp zoom": ("zoom_factor: 3", lambda x: reference.interp(x, 0, 0, (16, 19))),
    "Interp shrink": (
        "shrink_factor: 2 pad_beg: -1 pad_end: -1",
        lambda x: reference.interp(x, -1, -1, (2, 3)),
    ),
    "Interp both": (
        "shrink_factor: 2 zoom_factor: 4",
        lambda x: reference.interp(x, 0, 0, (9, 13)),
    ),
    "Interp one": ("height: 1 width: 1", lambda x: x[:, :, :1, :1]),
}


@pytest.mark.parametrize("case", ACTIVATIONS)
def test_layers_of_one_bottom_without_weights(tmp_path: Path, case: str) -> None:
    (fields, wanted), kind = ACTIVATIONS[case], case.split()[0]
    (found,) = one(tmp_path, kind, params_of(kind, fields), X)
    close(found, wanted(X.astype(float)), 2e-5)


CONVOLUTIONS = [
    ("num_output: 6 kernel_size: 3", (3, 3), (1, 1), (0, 0), (1, 1), 1, 6),
    (
        "num_output: 4 kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0 group: 2",
        *((3, 2), (2, 1), (1, 0), (1, 1), 2, 4),
    ),
    (
        "num_output: 4 kernel_size: 3 pad: 2 dilation: 2 group: 4",
        *((3, 3), (1, 1), (2, 2), (2, 2), 4, 4),
    ),
    (
        "num_output: 2 kernel_size: 3 kernel_size: 1 stride: 2 stride: 3 pad: 1 pad: 0",
        *((3, 1), (2, 3), (1, 0), (1, 1), 1, 2),
    ),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=range(len(CONVOLUTIONS)))
def test_convolution(tmp_path: Path, case: tuple) -> None:
    params, kernel, stride, pad, dilation, group, outputs = case
    w, b = floats(2, outputs, 4 // group, *kernel), floats(3, outputs)
    (found,) = one(tmp_path, "Convolution", f"convolution_param {{ {params} }}", X, blobs=[w, b])
    close(found, reference.convolution(X, w, b, stride, pad, dilation, group))


@pytest.mark.parametrize(
    ("params", "window"),
    [
        ("num_output: 6 kernel_size: 4 stride: 2 pad: 1", [(4, 4), (2, 2), (1, 1), (1, 1), 1]),
        ("num_output: 6 kernel_size: 3 group: 2 stride: 3", [(3, 3), (3, 3), (0, 0), (1, 1), 2]),
        ("num_output: 6 kernel_size: 2 dilation: 2", [(2, 2), (1, 1), (0, 0), (2, 2), 1]),
    ],
)
def test_deconvolution(tmp_path: Path, params: str, window: list) -> None:
    w, b = floats(2, 4, 6 // window[4], *window[0]), floats(3, 6)
    (found,) = one(tmp_path, "Deconvolution", f"convolution_param {{ {params} }}", X, blobs=[w, b])
    close(found, reference.deconvolution(X, w, b, *window[1:]))


# (kernel, stride, pad), many of which make windows reach beyond the padding
WINDOWS = [
    *[(3, 2, 0), (3, 2, 1), (2, 2, 0), (2, 2, 1), (3, 3, 1), (3, 1, 1), (5, 3, 2), (4, 3, 1)],
    *[(5, 4, 1), (6, 2, 0), (2, 3, 1)],
]


@pytest.mark.parametrize("method", ["MAX", "AVE"])
@pytest.mark.parametrize("rounding", ["", "round_mode: FLOOR", "ceil_mode: false"])
def test_pooling_has_the_windows_of_caffe(tmp_path: Path, method: str, rounding: str) -> None:
    shapes = [X, floats(5, 1, 2, 8, 5)]
    net = "".join(inputs(**{f"x{i}": x.shape}) for i, x in enumerate(shapes))
    wanted = {}
    for number, (kernel, stride, pad) in enumerate(WINDOWS):
        params = (
            f"pooling_param {{ pool: {method} kernel_size: {kernel} stride: {stride} pad: {pad} "
            f"{rounding} }}"
        )
        for i, x in enumerate(shapes):
            if rounding and min(x.shape[2:]) + 2 * pad < kernel:
                continue
            name = f"y{number}_{i}"
            net += layer("Pooling", f"x{i}", name, params, name)
            wanted[name], _ = reference.pooling(
                x, method, (kernel,) * 2, (stride,) * 2, (pad,) * 2, ceil=not rounding
            )
    found = run(load(tmp_path, net), *shapes)
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        close(found[name], value)


def test_the_mask_of_a_pooling_and_what_unpools_by_it(tmp_path: Path) -> None:
    params = "pooling_param { pool: MAX kernel_size: 2 stride: 2 }"
    y, mask = one(tmp_path, "Pooling", params, X, tops="y mask")
    wanted, places = reference.pooling(X, "MAX", (2, 2), (2, 2), (0, 0))
    close(y, wanted)
    close(mask, places)
    net = inputs(x=X.shape) + layer("Pooling", "x", "y mask", params)
    net += layer("Upsample", "y mask", "z", "upsample_param { upsample_h: 6 upsample_w: 7 }", "up")
    (found,) = run(load(tmp_path, net), X).values()
    unpooled = np.zeros(X.shape)
    for index in np.ndindex(*places.shape):
        place = int(places[index])
        unpooled[index[0], index[1], place // 7, place % 7] = wanted[index]
    close(found, unpooled)


@pytest.mark.parametrize(
    ("params", "shape", "axis"),
    [
        ("num_output: 5", (5, 168), 1),
        ("num_output: 5 axis: 2", (5, 42), 2),
        ("num_output: 5 axis: -1 transpose: true", (7, 5), 3),
    ],
)
def test_inner_product(tmp_path: Path, params: str, shape: tuple, axis: int) -> None:
    w, b = floats(2, *shape), floats(3, 5)
    (found,) = one(tmp_path, "InnerProduct", f"inner_product_param {{ {params} }}", X, blobs=[w, b])
    weights = w if "transpose" in params else w.T
    vectors = X.reshape(*X.shape[:axis], -1).astype(float)
    close(found, vectors @ weights + b)


@pytest.mark.parametrize("factor", [1.0, 3.5, 0.0])
def test_batch_norm_divides_by_its_factor(tmp_path: Path, factor: float) -> None:
    mean, variance = floats(2, 4), np.abs(floats(3, 4)) + 0.5
    blobs = [mean, variance, np.array([factor])]
    (found,) = one(tmp_path, "BatchNorm", "batch_norm_param { eps: 0.01 }", X, blobs=blobs)
    part = 1 / factor if factor else 0
    m, v = (a.reshape(1, -1, 1, 1).astype(float) * part for a in (mean, variance))
    close(found, (X - m) / np.sqrt(v + 0.01))


@pytest.mark.parametrize(
    ("params", "shape", "spread"),
    [
        ("bias_term: true", (4,), (4, 1, 1)),
        ("axis: 2 num_axes: -1", (6, 7), (6, 7)),
        ("axis: 0 num_axes: 2 bias_term: true", (2, 4), (2, 4, 1, 1)),
        ("num_axes: 0", (), ()),
    ],
)
def test_scale(tmp_path: Path, params: str, shape: tuple, spread: tuple) -> None:
    arrays = [floats(2, *shape), floats(3, *shape)][: 2 if "bias" in params else 1]
    (found,) = one(tmp_path, "Scale", f"scale_param {{ {params} }}", X, blobs=arrays)
    wanted = X * arrays[0].reshape(spread)
    close(found, wanted + arrays[1].reshape(spread) if len(arrays) > 1 else wanted)


def _unit(x: np.ndarray, axes: tuple, eps: float = 0.0) -> np.ndarray:
    return x / np.sqrt((x.astype(float) ** 2).sum(axes, keepdims=True) + eps)


Y, Z = floats(2, *X.shape), floats(3, *X.shape)
SMALL, VECTORS, OTHER = floats(2, 2, 4, 3, 4), floats(4, 3, 4), floats(9, 1, 4, 5, 5)
A, B, C, D = (np.abs(floats(i, 4)) + 0.1 for i in range(4))
a, b, c, d = (array.reshape(4, 1, 1) for array in (A, B, C, D))
PAIR = floats(2, 2, 4)
SHARED, ONE = np.array([0.3], np.float32), np.ones(1, np.float32)
KERNELS, SINGLE, CUBES = floats(2, 3, 4, 3, 3), floats(2, 4, 1, 3, 3), floats(2, 3, 2, 1, 1, 1)
BATCH = X - X.mean((0, 2, 3), keepdims=True), X.var((0, 2, 3), keepdims=True)
WINDOW = "kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 3 pad_h: 1 pad_w: 0"


def _plain(x: np.ndarray, weights: np.ndarray, bias: np.ndarray, group: int = 1) -> np.ndarray:
    return reference.convolution(x, weights, bias, (1, 1), (0, 0), (1, 1), group)


# layer type, parameters, bottoms, blobs, and each top
LAYERS: list[tuple[str, str, list, list, list]] = [
    *(
        (kind, "num_output: 4 kernel_size: 3 bias_term: false", [X], [SINGLE], [depthwise])
        for kind in ("DepthwiseConvolution", "ConvolutionDepthwise")
        for depthwise in [_plain(X, SINGLE, np.zeros(4), 4)]
    ),
    (
        "Convolution",
        "num_output: 3 kernel_size: 3",
        *([X, OTHER], [KERNELS, A[:3]]),
        [_plain(x, KERNELS, A[:3]) for x in (X, OTHER)],
    ),
    (
        "Convolution",
        "num_output: 3 kernel_size: 1 bias_term: false",
        *([floats(1, 1, 2, 3, 4, 5)], [CUBES]),
        [np.einsum("ncdhw,oc->nodhw", floats(1, 1, 2, 3, 4, 5), CUBES[:, :, 0, 0, 0])],
    ),
    (
        "InnerProduct",
        "num_output: 5 bias_term: false",
        *([floats(1, 3, 8)], [floats(2, 5, 8)], [floats(1, 3, 8) @ floats(2, 5, 8).T]),
    ),
    (
        "BatchNorm",
        "use_global_stats: false",
        [X],
        [A, B, ONE],
        [BATCH[0] / np.sqrt(BATCH[1] + 1e-5)],
    ),
    (
        "BatchNorm",
        "scale_bias: true",
        *([VECTORS], [A, B, ONE, C, D], [C * (VECTORS - A) / np.sqrt(B + 1e-5) + D]),
    ),
    (
        "BN",
        "frozen: true eps: 0.1",
        *([X], [A[None, :, None, None], B, C, D], [a * (X - c) / np.sqrt(d + 0.1) + b]),
    ),
    ("BN", "bn_mode: INFERENCE", [X], [A, B], [a * X + b]),
    (
        "Scale",
        "axis: 0 bias_term: true",
        *([X, PAIR], [PAIR + 1], [X * PAIR[..., None, None] + PAIR[..., None, None] + 1]),
    ),
    ("Bias", "axis: 0", [X, PAIR], [], [X + PAIR[..., None, None]]),
    ("Bias", "", [X], [A], [X + a]),
    ("PReLU", "", [X], [A], [np.where(X > 0, X, X * a)]),
    ("PReLU", "channel_shared: true", [X], [SHARED], [np.where(X > 0, X, X * 0.3)]),
    ("PReLU", "", [VECTORS], [A], [np.where(VECTORS > 0, VECTORS, VECTORS * A)]),
    (
        "Normalize",
        "across_spatial: false channel_shared: false eps: 0.01",
        *([X], [A], [_unit(X, (1,), 0.01) * a]),
    ),
    ("Normalize", "", [X], [SHARED], [0.3 * _unit(X, (1, 2, 3))]),
    ("Eltwise", "", [X, Y, Z], [], [X + Y + Z]),
    ("Eltwise", "operation: SUM coeff: 1 coeff: -1 coeff: 0.5", [X, Y, Z], [], [X - Y + 0.5 * Z]),
    ("Eltwise", "operation: PROD", [X, Y, Z], [], [X * Y * Z]),
    ("Eltwise", "operation: 2", [X, Y, Z], [], [np.maximum(np.maximum(X, Y), Z)]),
    ("Concat", "", [X, Y], [], [np.concatenate([X, Y], 1)]),
    ("Concat", "concat_dim: 0", [X, Y], [], [np.concatenate([X, Y], 0)]),
    ("Concat", "axis: -2", [X, Y], [], [np.concatenate([X, Y], 2)]),
    ("Axpy", "", [PAIR[..., None, None], X, Y], [], [PAIR[..., None, None] * X + Y]),
    ("Slice", "slice_point: 1 slice_point: 3", [X], [], np.split(X, [1, 3], 1)),
    ("Slice", "axis: 2", [X], [], np.split(X, 2, 2)),
    ("Split", "", [X], [], [X, X]),
    ("Crop", "offset: 2 offset: 1", [X, SMALL], [], [X[:, :, 2:5, 1:5]]),
    ("Crop", "axis: -1 offset: 3", [X, SMALL], [], [X[..., 3:7]]),
    ("Crop", "", [X, SMALL], [], [X[:, :, :3, :4]]),
    (
        "Pooling",
        f"pool: AVE {WINDOW}",
        [X],
        [],
        reference.pooling(X, "AVE", (3, 2), (2, 3), (1, 0))[:1],
    ),
    ("Pooling", "pool: AVE global_pooling: true", [X], [], [X.mean((2, 3), keepdims=True)]),
    ("Pooling", "global_pooling: true", [X], [], [X.max((2, 3), keepdims=True)]),
    ("ArgMax", "top_k: 2", [VECTORS], [], [reference.argmax(VECTORS, None, 2, values=False)]),
]


@pytest.mark.parametrize("number", range(len(LAYERS)), ids=lambda n: f"{LAYERS[n][0]}-{n}")
def test_a_layer_is_its_definition(tmp_path: Path, number: int) -> None:
    kind, fields, feeds, blobs, wanted = LAYERS[number]
    tops = "y z w"[: 2 * len(wanted)]
    results = one(tmp_path, kind, params_of(kind, fields), *feeds, blobs=blobs, tops=tops)
    for found, expected in zip(results, wanted, strict=True):
        close(found, expected)


def test_bn_of_segnet_that_learns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOperatorError, match="bn_mode is LEARN"):
        one(tmp_path, "BN", "", X, blobs=[A, B])


@pytest.mark.parametrize("axis", [None, 1, -1])
@pytest.mark.parametrize("top_k", [1, 3])
@pytest.mark.parametrize("values", [False, True])
def test_arg_max(tmp_path: Path, axis: int | None, top_k: int, values: bool) -> None:
    x = np.round(X * 2) / 2  # with equal numbers, of which Caffe takes the last
    where = "" if axis is None else f"axis: {axis}"
    params = f"argmax_param {{ top_k: {top_k} out_max_val: {str(values).lower()} {where} }}"
    (found,) = one(tmp_path, "ArgMax", params, x)
    close(found, reference.argmax(x, axis, top_k, values=values))


SSD_PRIORS = (
    "min_size: 30.7 max_size: 60 aspect_ratio: 2 aspect_ratio: 3 flip: true clip: true "
    "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 step: 8 offset: 0.4"
)


@pytest.mark.parametrize(
    ("params", "priors", "flip", "clip"),
    [
        (SSD_PRIORS, [([30.7], [60.0], [0.1, 0.1, 0.2, 0.2]), [2, 3], (8, 8), 0.4], True, True),
        (
            "min_size: 10 min_size: 20 aspect_ratio: 1 aspect_ratio: 2 aspect_ratio: 0.5",
            *([([10, 20], [], [0.1]), [1, 2, 0.5], (40 / 6, 60 / 7), 0.5], True, False),
        ),
        (
            "min_size: 16 flip: false aspect_ratio: 3 variance: 0.3 step_h: 4 step_w: 5",
            *([([16], [], [0.3]), [3], (4, 5), 0.5], False, False),
        ),
    ],
    ids=["ssd", "two sizes", "no flip"],
)
def test_prior_box(tmp_path: Path, params: str, priors: list, flip: bool, clip: bool) -> None:
    net = inputs(x=(1, 4, 6, 7), data=(1, 3, 40, 60)) + layer(
        "PriorBox", "x data", "priors", f"prior_box_param {{ {params} }}", "priors"
    )
    net += layer("ReLU", "x", "y") + layer("ReLU", "data", "z", name="other")
    plain = load(tmp_path, net)
    assert [spec.name for spec in plain.graph.outputs] == ["y", "z"]
    assert "constant-outputs" in {each.code for each in plain.findings}
    named = load(tmp_path, net, outputs=("priors", "y", "z"))
    found = run(named, floats(1, 1, 4, 6, 7), floats(2, 1, 3, 40, 60))
    wanted = reference.prior_box((6, 7), (40, 60), *priors, flip=flip, clip=clip)
    close(found["priors"], wanted, 1e-6)


def test_roi_pooling(tmp_path: Path) -> None:
    rois = np.array([[0, 0, 0, 12, 10], [1, 4, 2, 8, 8], [1, 0, 0, 3, 3]], np.float32)
    params = "roi_pooling_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.5 }"
    (found,) = one(tmp_path, "ROIPooling", params, X, rois)
    wanted = np.zeros((3, 4, 2, 3))
    for n, (batch, *box) in enumerate(rois):
        x1, y1, x2, y2 = (int(np.floor(side * 0.5 + 0.5)) for side in box)
        high, wide = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
        for i in range(2):
            for j in range(3):
                top, end = int(np.floor(i * high / 2)) + y1, int(np.ceil((i + 1) * high / 2)) + y1
                left, right = (
                    int(np.floor(j * wide / 3)) + x1,
                    int(np.ceil((j + 1) * wide / 3)) + x1,
                )
                part = X[int(batch), :, max(top, 0) : min(end, 6), max(left, 0) : min(right, 7)]
                wanted[n, :, i, j] = part.max((1, 2)) if part.size else 0
    close(found, wanted)


def test_im2col_lists_the_places_of_a_channel_together(tmp_path: Path) -> None:
    params = "convolution_param { kernel_h: 2 kernel_w: 3 pad_h: 1 pad_w: 0 stride: 2 }"
    (found,) = one(tmp_path, "Im2col", params, X)
    padded = np.pad(X, ((0, 0), (0, 0), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 3), (2, 3))[:, :, ::2, ::2]
    n, channels, rows, columns = windows.shape[:4]
    expected = windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, channels * 6, rows, columns)
    assert np.array_equal(found, expected)


REFUSED = {
    "Pooling": ("pool: STOCHASTIC kernel_size: 2", "stochastic"),
    "DetectionOutput": ("", "No part of the net before it"),
    "Proposal": ("", "suppresses"),
    "Python": ("module: 'os' layer: 'system'", "Python code"),
    "HardSigmoid": ("", "forks"),
    "Convolutoin": ("", "Did you mean 'Convolution'"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_layers_say_why_and_where_to_cut(tmp_path: Path, kind: str) -> None:
    fields, words = REFUSED[kind]
    with pytest.raises(UnsupportedOperatorError) as caught:
        one(tmp_path, kind, params_of(kind, fields), X)
    assert re.search(words, str(caught.value))
    assert "'it'" in str(caught.value)
    assert "line 2" in str(caught.value) or "line 1" in str(caught.value)


FAULTS = {
    "Eltwise": ("", [X, X[:, :2]], "different shapes"),
    "Concat": ("", [X, X[:1]], "do not fit"),
    "Slice": ("slice_point: 9", [X], "slice points"),
    "Reshape": ("shape { dim: 5 dim: -1 }", [X], "do not fill"),
    "Permute": ("order: 0 order: 0", [X], "names? each"),
    "Crop": ("offset: 5", [X, X], "outside"),
    "Pooling": ("kernel_size: 2 stride: 0", [X], "is none"),
    "Convolution": ("num_output: 5 group: 2 kernel_size: 1", [X], "do not fit"),
    "Im2col": ("kernel_size: 8 stride: 3", [X], "a kernel of 8 on 6"),
    "ArgMax": ("top_k: 1000", [X], "top_k is 1000"),
    "Tile": ("tiles: 2000000000", [X], "too large"),
    "ReLU": ("negative_slope: a", [X], "not a finite number"),
    "Softmax": ("axis: 4", [X], "4 axes"),
    "Interp": ("height: 3", [X], "no factor"),
    "LRN": ("local_size: 4", [X], "even"),
    "PriorBox": ("min_size: 0", [X, X], "min_size"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_layers_that_do_not_fit_name_the_line(tmp_path: Path, kind: str) -> None:
    fields, feeds, words = FAULTS[kind]
    tops = "y z" if kind == "Slice" else "y"
    with pytest.raises(SourceModelError, match=words) as caught:
        one(tmp_path, kind, params_of(kind, fields), *feeds, tops=tops)
    assert "line" in caught.value.what
