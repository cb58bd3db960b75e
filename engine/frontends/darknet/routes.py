"""Darknet's layers that move data and combine branches."""

from __future__ import annotations

import numpy as np

from engine.frontends.darknet.files import Blob
from engine.frontends.darknet.layer import Converter, Layer, Shape, activation_of, check_shape
from engine.frontends.emit import refuse

_MAX_BRANCHES = 256
_NORMALISATION_EPSILON = 1e-4


def _identity(at: Layer) -> str:
    return at.node("Identity", [at.raw()])


def _training_only(at: Layer) -> str:
    """``cost`` and ``contrastive``: at inference they compute nothing."""
    at.kind = "training"
    return at.raw()


# ------------------------------------------------------------------------------ route_layer.c
def _route(at: Layer) -> str:
    sources = [at.refer(number, "layers") for number in at.integers("layers")]
    groups, group = at.integer("groups", 1), at.integer("group_id", 0)
    if not 1 <= len(sources) <= _MAX_BRANCHES:
        refuse(f"it joins {len(sources)} layers")
    if groups < 1 or not 0 <= group < groups:
        refuse(f"group_id={group} is not one of its {groups} groups")
    shapes = [at.shape(source) for source in sources]
    if any(shape[1:] != shapes[0][1:] for shape in shapes):
        refuse(f"it joins different sizes: {', '.join(f'{h}x{w}' for _, h, w in shapes[:8])}")
    if any(shape[0] % groups for shape in shapes):
        refuse(f"it splits channels that cannot be divided into {groups} groups")
    e, single = at.e, len(sources) == 1
    parts = []
    for source, (channels, _h, _w) in zip(sources, shapes, strict=True):
        x, size = at.image(source), channels // groups
        if groups > 1:
            bounds = e.ints(size * group), e.ints(size * (group + 1))
            x = e.node("Slice", [x, *bounds, e.ints(1)], at.name if single else "")
        parts.append(x)
    if not single:
        return at.node("Concat", parts, axis=1)
    return parts[0] if groups > 1 else at.node("Identity", parts)


# --------------------------------------------------------------------------- shortcut_layer.c
def _shortcut(at: Layer) -> str:
    """Adds branches to the layer before, over the channels that both have.

    With equal height and width that is ``shortcut_multilayer_cpu`` of blas.c. Other sizes
    AlexeyAB's darknet refuses; the original's ``shortcut_cpu`` takes every n-th value of a larger
    branch, and adds a smaller one to every n-th.
    """
    shape = at.shape()
    branches = [at.refer(number, "from") for number in at.integers("from")]
    if not 1 <= len(branches) <= _MAX_BRANCHES:
        refuse(f"it adds {len(branches)} layers")
    if at.real("alpha", 1) != 1 or at.real("beta", 1) != 1:
        refuse("its alpha and beta are known to some versions of darknet only")
    shapes = [at.shape(branch) for branch in branches]
    factors = _branch_weights(at, shape[0], len(branches))
    unequal = any(other[1:] != shape[1:] for other in shapes)
    if unequal and (factors is not None or len(branches) > 1):
        refuse("it adds layers of different height or width")
    activation = activation_of(at, "linear")
    terms = [at.image()]
    terms += [
        _fitted(at, at.image(branch), other, shape)
        for branch, other in zip(branches, shapes, strict=True)
    ]
    if factors is not None:
        terms = [
            at.e.node("Mul", [x, at.e.constant(factor, f"{at.name}_weight")])
            for x, factor in zip(terms, factors, strict=True)
        ]
    total, *inner, last = terms
    for term in inner:
        total = at.e.node("Add", [total, term])
    return at.activated(activation, "Add", [total, last])


def _branch_weights(at: Layer, channels: int, branches: int) -> np.ndarray | None:
    """A factor for each branch, or for each of its channels; None without weights."""
    kind = at.text("weights_type", "none")
    if kind not in ("none", "per_feature", "per_layer", "per_channel"):
        refuse(f"its weights_type {kind!r} is unknown to darknet too")
    normalisation = at.text("weights_normalization", "none")
    if normalisation not in ("none", "relu", "avg_relu", "softmax"):
        refuse(f"its weights_normalization {normalisation!r} is unknown to darknet too")
    if kind == "none":
        return None
    shape = (branches + 1, channels if kind == "per_channel" else 1, 1, 1)
    return _factors(at.array(Blob("weights", shape)), normalisation)


def _factors(weights: np.ndarray, normalisation: str) -> np.ndarray:
    """The weight of each branch, as ``fuse_conv_batchnorm`` of network.c normalises them once.

    That function raises what is below 0.001 to it where ``relu`` is asked for.
    """
    if normalisation == "none":
        return weights
    if normalisation == "softmax":
        powers = np.exp(weights - weights.max(axis=0, keepdims=True))
    else:
        powers = np.maximum(weights, np.float32(0.001))
    factors = powers / (_NORMALISATION_EPSILON + powers.sum(axis=0, keepdims=True))
    return np.asarray(factors, np.float32)


def _steps(branch: Shape, shape: Shape) -> tuple[int, int]:
    """How much larger and how much smaller a branch is: (n, 1), (1, n) or (1, 1)."""
    (h, w), (height, width) = branch[1:], shape[1:]
    stride, sample = max(1, h // height), max(1, height // h)
    if (height * stride, width * stride) != (h * sample, w * sample):
        refuse(f"it adds {h}x{w} to {height}x{width}, and neither is a multiple of the other")
    return stride, sample


def _fitted(at: Layer, x: str, branch: Shape, shape: Shape) -> str:
    """A branch with the size and channels of what it is added to."""
    e = at.e
    stride, sample = _steps(branch, shape)
    channels = min(branch[0], shape[0])
    if channels < branch[0]:
        x = e.node("Slice", [x, e.ints(0), e.ints(channels), e.ints(1)])
    if stride > 1:
        far = e.ints(*branch[1:])
        x = e.node("Slice", [x, e.ints(0, 0), far, e.ints(2, 3), e.ints(stride, stride)])
    if sample > 1:
        _, h, w = branch
        x = e.node("Reshape", [x, e.ints(0, channels, h, 1, w, 1)])
        x = e.node("Pad", [x, e.ints(*[0] * 9, sample - 1, 0, sample - 1)])
        x = e.node("Reshape", [x, e.ints(0, channels, *shape[1:])])
    if channels < shape[0]:
        x = e.node("Pad", [x, e.ints(*[0] * 5, shape[0] - channels, 0, 0)])
    return x


# ------------------------------------------------------- scale_channels_layer.c, sam_layer.c
def _scale_channels(at: Layer) -> str:
    """The layer before times another: per channel, or (``scale_wh``) per place."""
    wide, source = at.flag("scale_wh"), at.shape()
    if wide and source[0] != 1:
        refuse("scale_wh=1 needs one channel before it")
    if not wide and source[1:] != (1, 1):
        refuse(f"it scales by {source[1]}x{source[2]}; darknet takes 1x1")
    return _product(at, slice(1, 3) if wide else slice(0, 1))


def _product(at: Layer, equal: slice = slice(0, 3)) -> str:
    """The layer before times another, of which some sides are the same."""
    factor, numbers = at.shape(), at.integers("from")
    if len(numbers) != 1:
        refuse("it needs one layer (from=)")
    other = at.refer(numbers[0], "from")
    shape = at.shape(other)
    if shape[equal] != factor[equal]:
        refuse(f"it multiplies {shape} by {factor}")
    return at.activated(activation_of(at, "linear"), "Mul", [at.image(other), at.image()])


# -------------------------------------------------------- reorg_layer.c, reorg_old_layer.c
def _reorg(at: Layer) -> str:
    """``[reorg]``: darknet's first one, which takes the input's own size for that of the output."""
    return _reorganised(at, at.shape())


def _reorg3d(at: Layer) -> str:
    """``[reorg3d]``: blocks to channels, the place in the block outermost."""
    return _reorganised(at, _reorg_shape(at))


def _reorg_shape(at: Layer) -> Shape:
    c, h, w = at.shape()
    stride = at.integer("stride", 1)
    if not 1 <= stride <= 1024:
        refuse(f"its stride is {stride}")
    square = stride * stride
    if at.flag("reverse"):
        if c % square:
            refuse(f"{c} channels cannot be divided by {square}")
        return c // square, h * stride, w * stride
    if h % stride or w % stride:
        refuse(f"{h}x{w} cannot be divided by its stride of {stride}")
    return c * square, h // stride, w // stride


def _reorganised(at: Layer, walked: Shape) -> str:
    """``reorg_cpu`` of blas.c, which walks over ``walked`` as channels, height and width.

    There the one side is [c / s², h, s, w, s], the other [s, s, c / s², h, w]: forward from the
    first to the second, reversed from the second to the first, both read from flat memory.
    """
    stride, out = at.integer("stride", 1), _reorg_shape(at)
    c, h, w = walked
    if c % (stride * stride):
        refuse(f"darknet's reorg needs channels that {stride * stride} divides, not {c}")
    inner = c // (stride * stride)
    if at.flag("reverse"):
        view, order = (stride, stride, inner, h, w), (0, 3, 4, 1, 5, 2)
    else:
        view, order = (inner, h, stride, w, stride), (0, 3, 5, 1, 2, 4)
    x = at.e.node("Reshape", [at.image(), at.e.ints(0, *view)])
    x = at.e.node("Transpose", [x], perm=order)
    return at.node("Reshape", [x, at.e.ints(0, *out)])


# -------------------------------------------------------------------- representation_layer.c
def _implicit(at: Layer) -> str:
    """Weights that stand there as they are: ``filters`` x ``atoms`` x 1."""
    filters, atoms = at.integer("filters", 128), at.integer("atoms", 1)
    if min(filters, atoms) < 1:
        refuse("its filters or atoms are below 1")
    check_shape((filters, atoms, 1))
    array = at.array(Blob("weights", (1, filters, atoms, 1)))
    every = np.broadcast_to(array, (at.batch, filters, atoms, 1))
    return at.node("Identity", [at.e.constant(every, f"{at.name}_weights")])


COMBINING: dict[str, Converter] = {
    "dropout": _identity,
    "empty": _identity,
    "cost": _training_only,
    "contrastive": _training_only,
    "route": _route,
    "shortcut": _shortcut,
    "scale_channels": _scale_channels,
    "sam": _product,
    "reorg": _reorg,
    "reorg3d": _reorg3d,
    "implicit": _implicit,
}
