"""MXNet's operators against their definitions in numpy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import UnsupportedOperatorError
from engine.frontends.mxnet.operators.shaping import reshaped
from tests.frontends.caffe.reference import convolution, sigmoid, windows
from tests.frontends.mxnet.networks import operate

RANDOM = np.random.default_rng(9)
X = RANDOM.standard_normal((1, 4, 5, 7)).astype(np.float32)
Y = RANDOM.standard_normal((1, 4, 1, 7)).astype(np.float32)


def close(actual: np.ndarray, expected: np.ndarray, tolerance: float = 2e-6) -> None:
    expected = np.asarray(expected)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=tolerance)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x)


UNARY: list[tuple[str, str, Callable[[np.ndarray], np.ndarray]]] = [
    ("Activation", "act_type=relu", lambda x: np.maximum(x, 0)),
    ("Activation", "act_type=sigmoid", sigmoid),
    ("Activation", "act_type=tanh", np.tanh),
    ("Activation", "act_type=softrelu", lambda x: np.log1p(np.exp(x))),
    ("Activation", "act_type=softsign", lambda x: x / (1 + abs(x))),
    ("Activation", "act_type=log_sigmoid", lambda x: -np.log1p(np.exp(-x))),
    ("Activation", "act_type=mish", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    ("LeakyReLU", "", lambda x: np.where(x > 0, x, 0.25 * x)),
    ("LeakyReLU", "act_type=rrelu", lambda x: np.where(x > 0, x, 0.2295 * x)),
    ("LeakyReLU", "act_type=elu slope=0.3", lambda x: np.where(x > 0, x, 0.3 * np.expm1(x))),
    (
        "LeakyReLU",
        "act_type=selu",
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    ),
    ("LeakyReLU", "act_type=gelu", lambda x: x * (1 + erf(x / math.sqrt(2))) / 2),
    ("hard_sigmoid", "", lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    ("smooth_l1", "scalar=2", lambda x: np.where(abs(x) < 0.25, 2 * x * x, abs(x) - 0.125)),
    ("clip", "a_min=-0.5 a_max=0.7", lambda x: np.clip(x, -0.5, 0.7)),
    ("round", "", lambda x: np.sign(x) * np.floor(abs(x) + 0.5)),
    ("rint", "", lambda x: np.ceil(x - 0.5)),
    ("fix", "", np.trunc),
    ("square", "", np.square),
    ("expm1", "", np.expm1),
    ("softmax", "axis=1 temperature=2.0", lambda x: softmax(x / 2, 1)),
    ("log_softmax", "", lambda x: np.log(softmax(x, -1))),
    ("softmin", "axis=2", lambda x: softmax(-x, 2)),
    ("SoftmaxActivation", "mode=channel", lambda x: softmax(x, 1)),
    ("SoftmaxActivation", "", lambda x: softmax(x, -1)),
    ("SoftmaxOutput", "multi_output=True", lambda x: softmax(x, 1)),
    ("SoftmaxOutput", "preserve_shape=True", lambda x: softmax(x, -1)),
    ("LogisticRegressionOutput", "", sigmoid),
    ("LinearRegressionOutput", "", lambda x: x),
    ("BlockGrad", "", lambda x: x),
    ("_rminus_scalar", "scalar=1.5", lambda x: 1.5 - x),
    ("_RDivScalar", "scalar=2", lambda x: 2 / x),
    ("_rpower_scalar", "scalar=1.5", lambda x: 1.5**x),
    ("_mod_scalar", "scalar=0.7", lambda x: np.mod(x, 0.7)),
    ("_greater_equal_scalar", "scalar=0.1", lambda x: (x >= 0.1).astype(np.float32)),
    ("_not_equal_scalar", "scalar=0", np.ones_like),
    ("mean", "axis=(2,3)", lambda x: x.mean((2, 3))),
    ("sum", "axis=1 exclude=True", lambda x: x.sum((0, 2, 3))),
    ("max_axis", "axis=-1 keepdims=True", lambda x: x.max(-1, keepdims=True)),
    ("min", "", lambda x: x.min().reshape(1)),
    ("norm", "ord=1 axis=1", lambda x: abs(x).sum(1)),
    ("argmax", "axis=1", lambda x: x.argmax(1)),
    ("argmin", "", lambda x: np.array([x.argmin()])),
    ("transpose", "", lambda x: x.T),
    ("transpose", "axes=(0,2,3,1)", lambda x: x.transpose(0, 2, 3, 1)),
    ("SwapAxis", "dim1=1 dim2=3", lambda x: x.swapaxes(1, 3)),
    ("Flatten", "", lambda x: x.reshape(1, -1)),
    ("Reshape", "shape=(0,-4,2,-1,-3)", lambda x: x.reshape(1, 2, 2, 35)),
    ("Reshape", "target_shape=(0,4,35) shape=()", lambda x: x.reshape(1, 4, 35)),
    ("expand_dims", "axis=-1", lambda x: x[..., None]),
    ("squeeze", "", lambda x: x[0]),
    (
        "slice",
        "begin=(None,3,None,5) end=(None,0,3,None) step=(1,-2,2,-1)",
        lambda x: x[:, 3:0:-2, :3:2, 5::-1],
    ),
    ("slice_axis", "axis=-1 begin=1 end=None", lambda x: x[..., 1:]),
    ("slice_axis", "axis=2 begin=-4 end=-1", lambda x: x[:, :, -4:-1]),
    ("Crop", "offset=(1,2) h_w=(3,4) num_args=1", lambda x: x[:, :, 1:4, 2:6]),
    ("Crop", "h_w=(2,3) center_crop=True", lambda x: x[:, :, 1:3, 2:5]),
    ("reverse", "axis=(1,3)", lambda x: x[:, ::-1, :, ::-1]),
    ("tile", "reps=(2,1,3)", lambda x: np.tile(x, (2, 1, 3))),
    ("tile", "reps=(2,1,1,1,3)", lambda x: np.tile(x, (2, 1, 1, 1, 3))),
    ("repeat", "repeats=3 axis=1", lambda x: x.repeat(3, 1)),
    ("repeat", "repeats=2", lambda x: x.repeat(2)),
    (
        "Pad",
        "mode=reflect pad_width=(0,0,0,0,1,2,3,4)",
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2), (3, 4)), "reflect"),
    ),
    (
        "Pad",
        "mode=constant pad_width=(0,0,0,1,0,0,2,0) constant_value=0.5",
        lambda x: np.pad(x, ((0, 0), (0, 1), (0, 0), (2, 0)), constant_values=0.5),
    ),
    ("UpSampling", "scale=2 sample_type=nearest num_args=1", lambda x: x.repeat(2, 2).repeat(2, 3)),
    ("L2Normalization", "", lambda x: x / np.sqrt((x * x).sum((1, 2, 3), keepdims=True) + 1e-10)),
    (
        "L2Normalization",
        "mode=channel",
        lambda x: x / np.sqrt((x * x).sum(1, keepdims=True) + 1e-10),
    ),
    (
        "L2Normalization",
        "mode=spatial",
        lambda x: x / np.sqrt((x * x).sum((2, 3), keepdims=True) + 1e-10),
    ),
    ("zeros_like", "", np.zeros_like),
    ("_contrib_div_sqrt_dim", "", lambda x: x / math.sqrt(7)),
]


@pytest.mark.parametrize(
    ("op", "attributes", "reference"),
    UNARY,
    ids=[f"{op}-{index}" for index, (op, _, _) in enumerate(UNARY)],
)
def test_operators_of_one_input(
    tmp_path: Path, op: str, attributes: str, reference: Callable[[np.ndarray], np.ndarray]
) -> None:
    close(operate(tmp_path, op, attributes, [X])[0], reference(X.astype(np.float64)))


BINARY: list[tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = [
    ("broadcast_add", np.add),
    ("_Minus", np.subtract),
    ("elemwise_mul", np.multiply),
    ("broadcast_div", np.divide),
    ("_Maximum", np.maximum),
    ("broadcast_minimum", np.minimum),
    ("broadcast_mod", np.mod),
    ("broadcast_hypot", np.hypot),
    ("broadcast_lesser", np.less),
    ("broadcast_logical_xor", lambda a, b: (a != 0) ^ (b != 0)),
    ("slice_like", lambda a, b: a[:1, :4, :1, :7]),
]


@pytest.mark.parametrize(("op", "reference"), BINARY)
def test_operators_of_two_inputs(
    tmp_path: Path, op: str, reference: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> None:
    other = X[:, ::-1].copy() if op in ("_Minus", "elemwise_mul", "_Maximum") else Y
    close(operate(tmp_path, op, "", [X, other])[0], reference(X.astype(np.float64), other))


@pytest.mark.parametrize("kind", ["max", "avg", "avg-inside", "sum", "lp"])
@pytest.mark.parametrize("convention", ["valid", "full"])
@pytest.mark.parametrize(
    "window", [((3, 3), (2, 2), (1, 1)), ((2, 3), (2, 3), (0, 0)), ((4, 4), (3, 3), (2, 1))]
)
def test_poolings(
    tmp_path: Path, kind: str, convention: str, window: Sequence[tuple[int, int]]
) -> None:
    attributes = {
        **dict(zip(("kernel", "stride", "pad"), window, strict=True)),
        "pool_type": kind.partition("-")[0],
        "pooling_convention": convention,
        "p_value": 2,
        "count_include_pad": kind != "avg-inside",
    }
    reduce: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
        "max": lambda w, _: w.max((2, 3)),
        "avg": lambda w, area: w.sum((2, 3)) / area,
        "avg-inside": lambda w, _: w.mean((2, 3)),
        "sum": lambda w, _: w.sum((2, 3)),
        "lp": lambda w, _: np.sqrt((w * w).sum((2, 3))),
    }
    kernel, stride, pad = window
    rounded = math.ceil if convention == "full" else math.floor
    sides = zip(X.shape[2:], kernel, stride, pad, strict=True)
    outs = [rounded((n + 2 * p - k) / s) + 1 for n, k, s, p in sides]
    expected = np.zeros((1, 4, *outs))
    for i, j, area, inside in windows(X, outs, kernel, stride, pad, pad):  # as pool.h walks
        expected[:, :, i, j] = reduce[kind](X[inside], area)
    close(operate(tmp_path, "Pooling", attributes, [X])[0], expected)


def test_global_pooling_ignores_its_kernel(tmp_path: Path) -> None:
    attributes = {"kernel": "(2,2)", "global_pool": "True", "pool_type": "avg"}
    close(operate(tmp_path, "Pooling", attributes, [X])[0], X.mean((2, 3), keepdims=True))


def test_convolution_and_its_transpose(tmp_path: Path) -> None:
    """The transposed convolution is the adjoint: <conv(x), y> = <x, deconv(y)>."""
    weights = RANDOM.standard_normal((6, 2, 3, 2)).astype(np.float32)
    bias = RANDOM.standard_normal(6).astype(np.float32)
    window = {"kernel": "(3, 2)", "stride": "(2, 1)", "pad": "(1, 1)", "num_group": 2}
    common = {**window, "num_filter": 6}
    (conv,) = operate(tmp_path, "Convolution", common, [X], [weights, bias])
    expected = convolution(X, weights, bias, (2, 1), (1, 1), group=2)
    close(conv, expected, 1e-5)
    y = RANDOM.standard_normal(conv.shape).astype(np.float32)
    back = {**window, "num_filter": 4}
    (x,) = operate(tmp_path, "Deconvolution", back, [y], [weights])
    plain = expected - bias[:, None, None]
    assert np.vdot(plain, y) == pytest.approx(np.vdot(X, x), rel=1e-4)
    # the size that target_shape asks for decides padding: 2 (3-1) + 3 = 7 rows, (8-1) + 2 = 9
    target = {**back, "pad": "(0,0)", "target_shape": "(5, 7)"}
    close(operate(tmp_path, "Deconvolution", target, [y], [weights])[0], x, 1e-5)


@pytest.mark.parametrize("flatten", [True, False])
def test_fully_connected(tmp_path: Path, flatten: bool) -> None:
    x = X.reshape(1, -1) if flatten else X
    weights = RANDOM.standard_normal((3, x.shape[-1])).astype(np.float32)
    bias = RANDOM.standard_normal(3).astype(np.float32)
    attributes = {"num_hidden": 3, "flatten": flatten}
    (actual,) = operate(tmp_path, "FullyConnected", attributes, [X], [weights, bias])
    close(actual, x.astype(np.float64) @ weights.T + bias, 1e-5)
    bare = {**attributes, "no_bias": "True"}
    (actual,) = operate(tmp_path, "FullyConnected", bare, [X], [weights])
    close(actual, x.astype(np.float64) @ weights.T, 1e-5)


@pytest.mark.parametrize(
    "attributes",
    [{}, {"fix_gamma": "False"}, {"fix_gamma": "False", "eps": 0.1}, {"axis": -1}, {"axis": 2}],
)
def test_batch_norm(tmp_path: Path, attributes: dict[str, object]) -> None:
    axis = int(str(attributes.get("axis", 1)))
    count = X.shape[axis]
    gamma, beta, mean = RANDOM.standard_normal((3, count)).astype(np.float32)
    variance = RANDOM.uniform(0.1, 2, count).astype(np.float32)
    shape = [1] * 4
    shape[axis] = count
    g, b, m, v = (a.astype(np.float64).reshape(shape) for a in (gamma, beta, mean, variance))
    g = g if "fix_gamma" in attributes else np.ones_like(g)
    expected = (X - m) / np.sqrt(v + float(str(attributes.get("eps", 1e-3)))) * g + b
    params = [gamma, beta, mean, variance]
    close(operate(tmp_path, "BatchNorm", attributes, [X], params)[0], expected, 1e-5)


def normalised(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    x = x.astype(np.float64)
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def test_other_normalisations(tmp_path: Path) -> None:
    gamma, beta = RANDOM.standard_normal((2, 4)).astype(np.float32)
    g, b = gamma[:, None, None], beta[:, None, None]
    params = [gamma, beta]
    instance = operate(tmp_path, "InstanceNorm", "", [X], params)[0]
    close(instance, normalised(X, (2, 3), 1e-3) * g + b, 1e-5)
    layer = operate(tmp_path, "LayerNorm", "axis=1", [X], params)[0]
    close(layer, normalised(X, (1,), 1e-5) * g + b, 1e-5)
    last = operate(tmp_path, "LayerNorm", "", [X.transpose(0, 2, 3, 1)], params)[0]
    close(last.transpose(0, 3, 1, 2), normalised(X, (1,), 1e-5) * g + b, 1e-5)
    groups = normalised(X.reshape(1, 2, -1), (2,), 1e-5)
    per_channel = operate(tmp_path, "GroupNorm", "num_groups=2", [X], params)[0]
    close(per_channel, groups.reshape(X.shape) * g + b, 1e-5)
    per_group = operate(tmp_path, "GroupNorm", "num_groups=2", [X], [gamma[:2], beta[:2]])[0]
    scaled = groups * gamma[:2, None] + beta[:2, None]
    close(per_group, scaled.reshape(X.shape), 1e-5)
    attributes = {"nsize": 3, "alpha": 0.01, "beta": 0.75, "knorm": 2}
    squares = np.pad(X.astype(np.float64) ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    window = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    lrn = operate(tmp_path, "LRN", attributes, [X])[0]
    close(lrn, X / (2 + 0.01 / 3 * window) ** 0.75)
    by_default = operate(tmp_path, "LRN", "nsize=3", [100 * X])[0]
    close(by_default, 100 * X / (2 + window / 3) ** 0.75, 1e-4)


@pytest.mark.parametrize("count", [1, 4])
def test_prelu(tmp_path: Path, count: int) -> None:
    gamma = RANDOM.uniform(0, 1, count).astype(np.float32)
    (actual,) = operate(tmp_path, "LeakyReLU", "act_type=prelu", [X], [gamma])
    close(actual, np.where(X > 0, X, X * gamma.reshape(1, -1, 1, 1)))


def test_joins_and_divisions(tmp_path: Path) -> None:
    parts = operate(tmp_path, "SliceChannel", "num_outputs=2", [X])
    close(parts[0], X[:, :2])
    close(parts[1], X[:, 2:])
    rows = operate(tmp_path, "split", "num_outputs=5 axis=2 squeeze_axis=True", [X])
    close(rows[3], X[:, :, 3])
    cut = {"indices": "(0, 2, 5)", "axis": 3, "num_outputs": 3}
    close(operate(tmp_path, "_split_v2", cut, [X])[1], X[..., 2:5])
    close(operate(tmp_path, "Concat", "dim=2", [X, Y])[0], np.concatenate([X, Y], 2))
    close(operate(tmp_path, "stack", "axis=2", [X, X + 1])[0], np.stack([X, X + 1], 2))
    close(operate(tmp_path, "add_n", "", [X, X, X])[0], 3 * X)


def test_products(tmp_path: Path) -> None:
    a, b = X[0, 0], X[0, 1]
    close(operate(tmp_path, "dot", "transpose_b=True", [a, b])[0], a @ b.T, 1e-5)
    scaled = {"transpose_b": "True", "alpha": 0.5}
    close(operate(tmp_path, "_linalg_gemm2", scaled, [a, b])[0], a @ b.T / 2, 1e-5)
    batch = operate(tmp_path, "batch_dot", "transpose_a=True", [X[0], X[0, ::-1].copy()])[0]
    close(batch, X[0].transpose(0, 2, 1) @ X[0, ::-1], 1e-5)


def test_look_ups_clip_their_indices(tmp_path: Path) -> None:
    table = RANDOM.standard_normal((5, 3)).astype(np.float32)
    indices = np.array([[0, 4, 9, -1]], np.float32)
    rows = table[[0, 4, 4, 0]][None]
    close(operate(tmp_path, "Embedding", "input_dim=5", [indices], [table])[0], rows)
    columns = operate(tmp_path, "take", "axis=1", [table, np.array([[2, 0]], np.float32)])[0]
    close(columns, table[:, [[2, 0]]])
    hot = operate(tmp_path, "one_hot", "depth=5 on_value=2", [indices])[0]
    expected = np.zeros((1, 4, 5))
    expected[0, 0, 0] = expected[0, 1, 4] = 2
    close(hot, expected)


def test_where_and_constants(tmp_path: Path) -> None:
    condition = (X > 0).astype(np.float32)
    close(operate(tmp_path, "where", "", [condition, X, -X])[0], abs(X))
    cast = operate(tmp_path, "Cast", "dtype=int32", [X * 10])[0]
    assert cast.dtype == np.int32
    close(cast, np.trunc(X * 10))


def adapted(x: np.ndarray, out: int, axis: int) -> np.ndarray:
    size = x.shape[axis]
    bounds = [(i * size // out, math.ceil((i + 1) * size / out)) for i in range(out)]
    parts = [x.take(range(*pair), axis).mean(axis, keepdims=True) for pair in bounds]
    return np.concatenate(parts, axis)


@pytest.mark.parametrize("size", [(1, 1), (5, 7), (3, 4), (8, 2)])
def test_adaptive_pooling(tmp_path: Path, size: tuple[int, int]) -> None:
    name = "_contrib_AdaptiveAvgPooling2D"
    (actual,) = operate(tmp_path, name, {"output_size": size}, [X])
    close(actual, adapted(adapted(X, size[0], 2), size[1], 3))


def interpolated(x: np.ndarray, out: int, axis: int, aligned: bool) -> np.ndarray:
    size = x.shape[axis]
    place = np.arange(out)
    at = place * (size - 1) / (out - 1) if aligned else (place + 0.5) * size / out - 0.5
    at = np.clip(at, 0, size - 1)
    low = np.floor(at).astype(int)
    shape = [1] * x.ndim
    shape[axis] = out
    share = (at - low).reshape(shape)
    return x.take(low, axis) * (1 - share) + x.take(np.minimum(low + 1, size - 1), axis) * share


@pytest.mark.parametrize("aligned", [True, False])
def test_bilinear_resize(tmp_path: Path, aligned: bool) -> None:
    attributes = {"height": 9, "width": 4, "align_corners": aligned}
    (actual,) = operate(tmp_path, "_contrib_BilinearResize2D", attributes, [X])
    expected = interpolated(interpolated(X.astype(np.float64), 9, 2, aligned), 4, 3, aligned)
    close(actual, expected, 1e-5)


def test_upsampling_of_two_inputs_and_bilinear(tmp_path: Path) -> None:
    large = RANDOM.standard_normal((1, 2, 4, 6)).astype(np.float32)
    small = RANDOM.standard_normal((1, 3, 2, 3)).astype(np.float32)
    attributes = {"scale": 2, "sample_type": "nearest", "num_args": 2}
    (actual,) = operate(tmp_path, "UpSampling", attributes, [large, small])
    parts = [a.repeat(n, 2).repeat(n, 3) for a, n in ((large, 2), (small, 4))]
    close(actual, np.concatenate(parts, 1))
    # the kernel that MXNet's Bilinear initializer gives interpolates inside the borders
    ramp = np.array([0.25, 0.75, 0.75, 0.25], np.float32)
    kernel = np.broadcast_to(np.outer(ramp, ramp), (2, 1, 4, 4)).copy()
    attributes = {"scale": 2, "sample_type": "bilinear", "num_filter": 2, "num_args": 2}
    (actual,) = operate(tmp_path, "UpSampling", attributes, [large], [kernel])
    expected = interpolated(interpolated(large.astype(np.float64), 8, 2, False), 12, 3, False)
    close(actual[:, :, 1:-1, 1:-1], expected[:, :, 1:-1, 1:-1], 1e-5)


def test_anchors_of_ssd(tmp_path: Path) -> None:
    attributes = {"sizes": "(0.3, 0.6)", "ratios": "(1, 4)", "clip": "False"}
    (actual,) = operate(tmp_path, "_contrib_MultiBoxPrior", attributes, [X])
    boxes = []
    for row, column in itertools.product(range(5), range(7)):
        for size, ratio in ((0.3, 1), (0.6, 1), (0.3, 4)):
            half = (size * 5 / 7 * math.sqrt(ratio) / 2, size / math.sqrt(ratio) / 2)
            x, y = (column + 0.5) / 7, (row + 0.5) / 5
            boxes.append([x - half[0], y - half[1], x + half[0], y + half[1]])
    close(actual, np.array([boxes]))


@pytest.mark.parametrize(
    ("codes", "reverse", "shape"),
    [
        ((0, -1), False, (2, 60)),
        ((-2, 1, 1), False, (2, 3, 4, 5, 1, 1)),
        ((-3, -3), False, (6, 20)),
        ((-4, 1, 2, -2), False, (1, 2, 3, 4, 5)),
        ((0, 0, -4, -1, 2, 0), False, (2, 3, 2, 2, 5)),
        ((-1, 5), True, (24, 5)),
        ((0, -3, -1), True, (2, 12, 5)),
        ((4, 30), False, (4, 30)),
    ],
)
def test_codes_of_reshape(codes: tuple[int, ...], reverse: bool, shape: tuple[int, ...]) -> None:
    assert tuple(reshaped(codes, (2, 3, 4, 5), reverse=reverse)) == shape


@pytest.mark.parametrize("codes", [(-1, -1), (7, -1), (0, 0, 0, 0, 0), (-4, 5, -1), (-5,), (-3,)])
def test_codes_that_do_not_fit_are_refused(codes: tuple[int, ...]) -> None:
    with pytest.raises(UnsupportedOperatorError):
        reshaped(codes, (2, 3, 4, 5))


@pytest.mark.parametrize(
    ("op", "attributes", "words"),
    [
        ("Convolution", "kernel=(1,1) layout=NHWC", "layout is NHWC"),
        ("Pooling", "kernel=(2,2) pooling_convention=same", "convention is same"),
        ("Pooling", "kernel=(2,2) pool_type=lp p_value=3", "p_value not 2"),
        ("Pooling", "kernel=(1,1) stride=(3,3) pooling_convention=full", "nothing"),
        ("Pooling", "kernel=(9,9)", "larger than its padded input"),
        ("Pooling", "kernel=(2,2) pad=(4097,0)", "out of range"),
        ("Convolution", "kernel=(4097,1)", "out of range"),
        ("Convolution", "kernel=(1,1) pad=(0,4097)", "out of range"),
        ("SliceChannel", "num_outputs=3", "divides 4 into 3 parts"),
        ("SoftmaxOutput", "", "builds of MXNet"),
        ("Activation", "act_type=wave", "'wave'"),
        ("Dropout", "mode=always", "at inference too"),
        ("clip", "a_min=low", "no number"),
        ("ROIPooling", "", "pools boxes"),
        ("_contrib_MultiBoxDetection", "", "anchors are its inputs"),
        ("Convolutionn", "", "Did you mean 'Convolution'"),
    ],
)
def test_refusals_name_node_and_reason(
    tmp_path: Path, op: str, attributes: str, words: str
) -> None:
    with pytest.raises(UnsupportedOperatorError, match=rf"Operator {op} \(node 'op'\).*{words}"):
        operate(tmp_path, op, attributes, [X])


@pytest.mark.parametrize("op", ["Convolution", "Deconvolution"])
def test_a_kernel_that_its_weights_do_not_have_is_refused(tmp_path: Path, op: str) -> None:
    attributes = {"kernel": "(3,2)", "num_filter": 4, "no_bias": "True"}
    with pytest.raises(UnsupportedOperatorError, match=r"\(3, 2\), that of its weights \(3, 3\)"):
        operate(tmp_path, op, attributes, [X], [np.ones((4, 4, 3, 3), np.float32)])
