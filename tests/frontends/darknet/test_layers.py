"""Every layer type of Darknet against its definition in numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.frontends.caffe.reference import convolution, sigmoid
from tests.frontends.darknet.networks import computed, pooled, reorganised

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((1, 6, 7, 10)).astype(np.float32)


def close(actual: np.ndarray, expected: np.ndarray, tolerance: float = 2e-5) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=tolerance)


def one(filters: int, size: int = 1) -> str:
    """A convolution without batch norm and activation."""
    return f"[convolutional]\nfilters={filters}\nsize={size}\npad=1\nactivation=linear\n"


def floats(filters: int, depth: int, size: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights of ``one``: all of them as the file has them, biases, kernel."""
    biases = RANDOM.standard_normal(filters).astype(np.float32)
    kernel = RANDOM.standard_normal((filters, depth, size, size)).astype(np.float32)
    return np.concatenate([biases, kernel.reshape(-1)]), biases, kernel


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ("size=3\nstride=2\npad=1", {"stride": (2, 2), "pad": (1, 1)}),
        ("size=3\npadding=2", {"pad": (2, 2)}),
        ("size=3\nstride_x=3\nstride_y=2\npad=1", {"stride": (2, 3), "pad": (1, 1)}),
        ("size=3\nstride_x=2\nstride=1\npad=1", {"stride": (1, 2), "pad": (1, 1)}),
        ("size=3\npad=1\ndilation=2", {"pad": (2, 2), "dilation": (2, 2)}),
        ("size=3\npad=1\ngroups=3", {"pad": (1, 1), "group": 3}),
        ("size=1\npad=1\ndilation=4", {}),
    ],
)
def test_convolutions(tmp_path: Path, options: str, arguments: dict) -> None:
    size = 1 if options.startswith("size=1") else 3
    data, biases, kernel = floats(6, 6 // arguments.get("group", 1), size)
    body = f"[convolutional]\nfilters=6\nactivation=linear\n{options}\n"
    close(computed(tmp_path, body, X, data), convolution(X, kernel, biases, **arguments))


@pytest.mark.parametrize("epsilon", [1e-5, 0.1])
def test_batch_norm_is_normalised_with_the_epsilon_of_the_options(
    tmp_path: Path, epsilon: float
) -> None:
    _, biases, kernel = floats(4, 6, 3)
    scales, means = RANDOM.standard_normal((2, 4)).astype(np.float32)
    variances = RANDOM.uniform(0.01, 2, 4).astype(np.float32)
    data = np.concatenate([biases, scales, means, variances, kernel.reshape(-1)])
    body = "[convolutional]\nbatch_normalize=1\nfilters=4\nsize=3\npad=1\nactivation=leaky\n"

    def column(vector: np.ndarray) -> np.ndarray:
        return vector[:, None, None].astype(np.float64)

    y = (convolution(X, kernel, pad=(1, 1)) - column(means)) / np.sqrt(column(variances) + epsilon)
    y = y * column(scales) + column(biases)
    actual = computed(tmp_path, body, X, data, darknet_epsilon=epsilon)
    close(actual, np.where(y > 0, y, 0.1 * y), 1e-4)


def test_shared_and_flipped_weights(tmp_path: Path) -> None:
    data, biases, kernel = floats(6, 6)
    body = one(6) + "[convolutional]\nfilters=6\nsize=1\nshare_index=-1\nactivation=relu\n"
    first = convolution(X, kernel, biases)
    expected = np.maximum(convolution(first, kernel, biases), 0)
    close(computed(tmp_path, body, X, data), expected, 1e-4)
    turned = np.concatenate([biases, kernel.reshape(6, 6).T.reshape(-1)])
    flipped = computed(tmp_path, one(6).replace("size", "flipped=1\nsize"), X, turned)
    close(flipped, first)


def _mish(x: np.ndarray) -> np.ndarray:
    return x * np.tanh(np.log1p(np.exp(x)))


def _plse(x: np.ndarray) -> np.ndarray:
    middle = 0.125 * x + 0.5
    return np.where(x < -4, 0.01 * (x + 4), np.where(x > 4, 0.01 * (x - 4) + 1, middle))


def _stair(x: np.ndarray) -> np.ndarray:
    whole = np.floor(x)
    return np.where(whole % 2 == 0, np.floor(x / 2), x - whole + np.floor(x / 2))


def _softmax_with_rest(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x)
    return powers / (powers.sum(1, keepdims=True) + 1e-4)


def _share(x: np.ndarray) -> np.ndarray:
    positive = np.maximum(x, 0)
    return positive / (positive.sum(1, keepdims=True) + 1e-4)


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "linear": lambda x: x,
    "logistic": sigmoid,
    "loggy": lambda x: 2 * sigmoid(x) - 1,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "elu": lambda x: np.where(x >= 0, x, np.exp(x) - 1),
    "selu": lambda x: 1.0507 * np.where(x >= 0, x, 1.6732 * (np.exp(x) - 1)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(0.797885 * x + 0.035677 * x**3)),
    "relie": lambda x: np.where(x > 0, x, 0.01 * x),
    "ramp": lambda x: np.maximum(x, 0) + 0.1 * x,
    "leaky": lambda x: np.where(x > 0, x, 0.1 * x),
    "revleaky": lambda x: np.where(x > 0, x, 0.1 * x),
    "tanh": np.tanh,
    "plse": _plse,
    "stair": _stair,
    "hardtan": lambda x: np.clip(x, -1, 1),
    "lhtan": lambda x: np.where(x < 0, 0.001 * x, np.where(x > 1, 0.001 * (x - 1) + 1, x)),
    "swish": lambda x: x * sigmoid(x),
    "mish": _mish,
    "hard_mish": lambda x: np.where(x > 0, x, np.where(x > -2, x * x / 2 + x, 0)),
    "normalize_channels": _share,
    "normalize_channels_softmax": _softmax_with_rest,
    "normalize_channels_softmax_maxval": lambda x: _softmax_with_rest(x - x.max(1, keepdims=True)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(tmp_path: Path, name: str) -> None:
    x = (4 * X).astype(np.float32)
    biases = np.zeros(6, np.float32)
    data = np.concatenate([biases, np.eye(6, dtype=np.float32).reshape(-1)])
    actual = computed(tmp_path, one(6).replace("linear", name), x, data)
    close(actual, ACTIVATIONS[name](x.astype(np.float64)))


@pytest.mark.parametrize(
    ("options", "size", "stride", "padding"),
    [
        ("size=2\nstride=2", 2, (2, 2), 1),
        ("size=2\nstride=1", 2, (1, 1), 1),
        ("size=5\nstride=1", 5, (1, 1), 4),
        ("size=3\nstride=2\npadding=0", 3, (2, 2), 0),
        ("size=3\nstride_x=2\nstride_y=1\npadding=1", 3, (1, 2), 1),
        ("stride=3", 3, (3, 3), 2),
    ],
)
def test_poolings(
    tmp_path: Path, options: str, size: int, stride: tuple[int, int], padding: int
) -> None:
    greatest = computed(tmp_path, f"[maxpool]\n{options}\n", X)
    close(greatest, pooled(X, size, stride, padding, np.max))
    mean = computed(tmp_path, f"[local_avgpool]\n{options}\n", X)
    close(mean, pooled(X, size, stride, padding, np.mean))


def test_depth_and_global_poolings(tmp_path: Path) -> None:
    deep = computed(tmp_path, "[maxpool]\nmaxpool_depth=1\nout_channels=3\n", X)
    close(deep, np.maximum(X[:, :3], X[:, 3:]))
    close(computed(tmp_path, "[avgpool]\n", X), X.mean((2, 3), keepdims=True))


def test_connected_and_softmax(tmp_path: Path) -> None:
    count = X[0].size
    biases, scales, means = RANDOM.standard_normal((3, 4)).astype(np.float32)
    variances = RANDOM.uniform(0.5, 2, 4).astype(np.float32)
    weights = RANDOM.standard_normal((4, count)).astype(np.float32) / 20
    data = np.concatenate([biases, weights.reshape(-1), scales, means, variances])
    body = "[connected]\nbatch_normalize=1\noutput=4\nactivation=linear\n[softmax]\ngroups=2\n"
    body += "temperature=2\n[cost]\ntype=sse\n"
    y = (X.reshape(1, -1).astype(np.float64) @ weights.T - means) / np.sqrt(variances + 1e-5)
    powers = np.exp((y * scales + biases).reshape(2, 2) / 2)
    expected = (powers / powers.sum(1, keepdims=True)).reshape(1, 4)
    close(computed(tmp_path, body, X, data), expected)


def test_softmax_of_a_picture_keeps_its_shape(tmp_path: Path) -> None:
    powers = np.exp(X.astype(np.float64))
    close(computed(tmp_path, "[softmax]\n", X), powers / powers.sum())


def test_moving_layers(tmp_path: Path) -> None:
    twice = X.repeat(2, 2).repeat(2, 3)
    close(computed(tmp_path, "[upsample]\nstride=2\nscale=.5\n", X), 0.5 * twice)
    blocks = X[:, :, :6].reshape(1, 6, 3, 2, 5, 2).sum((3, 5))
    close(computed(tmp_path, "[upsample]\nstride=-2\n", X[:, :, :6]), blocks)
    crop = "[crop]\ncrop_height=4\ncrop_width=7\n"
    close(computed(tmp_path, crop, X), 2 * X[:, :, 1:5, 1:8] - 1)
    close(computed(tmp_path, crop + "noadjust=1\n", X), X[:, :, 1:5, 1:8])
    close(computed(tmp_path, "[dropout]\nprobability=.5\n", X), X)
    close(computed(tmp_path, "[activation]\nactivation=tanh\n", X), np.tanh(X))


@pytest.mark.parametrize("reverse", [False, True])
def test_reorg_has_its_odd_order(tmp_path: Path, reverse: bool) -> None:
    x = RANDOM.standard_normal((1, 8, 4, 6)).astype(np.float32)
    body = f"[reorg]\nstride=2\nreverse={int(reverse)}\n"
    np.testing.assert_array_equal(computed(tmp_path, body, x), reorganised(x, 2, reverse))


def test_reorg3d_moves_blocks_to_channels(tmp_path: Path) -> None:
    x = RANDOM.standard_normal((1, 3, 4, 6)).astype(np.float32)
    expected = np.concatenate([x[:, :, i::2, j::2] for i in range(2) for j in range(2)], axis=1)
    np.testing.assert_array_equal(computed(tmp_path, "[reorg3d]\nstride=2\n", x), expected)


def test_route_joins_and_splits(tmp_path: Path) -> None:
    body = "[dropout]\n[activation]\nactivation=relu\n"
    relu = np.maximum(X, 0)
    joined = computed(tmp_path, body + "[route]\nlayers=-1,0\n", X)
    close(joined, np.concatenate([relu, X], 1))
    part = computed(tmp_path, body + "[route]\nlayers = -1, 0\ngroups=3\ngroup_id=1\n", X)
    close(part, np.concatenate([relu[:, 2:4], X[:, 2:4]], 1))


@pytest.mark.parametrize(("filters", "kept"), [(4, 4), (9, 6), (6, 6)])
def test_shortcuts_add_the_channels_that_both_have(tmp_path: Path, filters: int, kept: int) -> None:
    data, biases, kernel = floats(filters, 6)
    # the layer before the shortcut is the input again, through a reshaping that changes nothing
    body = "[dropout]\n" + one(filters) + "[route]\nlayers=0\n[shortcut]\nfrom=1\nactivation=relu\n"
    branch = convolution(X, kernel, biases)
    expected = X.astype(np.float64).copy()
    expected[:, :kept] += branch[:, :kept]
    close(computed(tmp_path, body, X, data), np.maximum(expected, 0))


def test_shortcuts_of_other_sizes_as_the_first_darknet_has_them(tmp_path: Path) -> None:
    x = X[:, :, :6]
    small = x[:, :, ::2, ::2]
    wide = "[dropout]\n[maxpool]\nsize=1\nstride=2\npadding=0\n[shortcut]\nfrom=0\n"
    close(computed(tmp_path, wide, x), 2 * small)
    narrow = "[maxpool]\nsize=1\nstride=2\npadding=0\n[upsample]\nstride=2\n[shortcut]\nfrom=0\n"
    expected = small.repeat(2, 2).repeat(2, 3)
    expected[:, :, ::2, ::2] += small
    close(computed(tmp_path, narrow, x), expected)


@pytest.mark.parametrize("kind", ["per_feature", "per_channel"])
@pytest.mark.parametrize("normalisation", ["none", "relu", "softmax"])
def test_weighted_shortcuts(tmp_path: Path, kind: str, normalisation: str) -> None:
    weights = RANDOM.standard_normal((3, 6 if kind == "per_channel" else 1)).astype(np.float32)
    body = "[dropout]\n[activation]\nactivation=relu\n[activation]\nactivation=tanh\n"
    body += f"[shortcut]\nfrom=0,-2\nweights_type={kind}\nweights_normalization={normalisation}\n"
    if normalisation == "none":
        factors = weights
    elif normalisation == "relu":
        positive = np.maximum(weights, 0.001)
        factors = positive / (positive.sum(0) + 1e-4)
    else:
        powers = np.exp(weights - weights.max(0))
        factors = powers / (powers.sum(0) + 1e-4)
    relu = np.maximum(X, 0)
    terms = [np.tanh(relu), X, relu]
    expected = sum(f[:, None, None] * term for f, term in zip(factors, terms, strict=True))
    close(computed(tmp_path, body, X, weights.reshape(-1)), np.asarray(expected))


def test_products_of_layers(tmp_path: Path) -> None:
    scaled = computed(tmp_path, "[dropout]\n[avgpool]\n[scale_channels]\nfrom=0\n", X)
    close(scaled, X * X.mean((2, 3), keepdims=True))
    depth = "[maxpool]\nmaxpool_depth=1\nout_channels=1\n"
    placed = computed(tmp_path, f"[dropout]\n{depth}[scale_channels]\nfrom=0\nscale_wh=1\n", X)
    close(placed, X * X.max(1, keepdims=True))
    sam = "[dropout]\n[activation]\nactivation=relu\n[sam]\nfrom=-2\nactivation=logistic\n"
    close(computed(tmp_path, sam, X), sigmoid(X * np.maximum(X, 0)))


def test_batchnorm_and_implicit_layers(tmp_path: Path) -> None:
    biases, scales, means = RANDOM.standard_normal((3, 6)).astype(np.float32)
    variances = RANDOM.uniform(0.5, 2, 6).astype(np.float32)
    data = np.concatenate([biases, scales, means, variances])
    y = (X - means[:, None, None]) / np.sqrt(variances[:, None, None] + 1e-5)
    expected = y * scales[:, None, None] + biases[:, None, None]
    close(computed(tmp_path, "[batchnorm]\n", X, data), expected)
    values = RANDOM.standard_normal(8).astype(np.float32)
    body = "[dropout]\n[implicit]\nfilters=4\natoms=2\n"
    close(computed(tmp_path, body, X, values), values.reshape(1, 4, 2, 1))
