"""Darknet's layers that move data and combine branches."""

from __future__ import annotations

import numpy as np

from engine.frontends.darknet.activations import activation_of
from engine.frontends.darknet.files import Blob, Section
from engine.frontends.darknet.layers import Planner, Weights, finished
from engine.frontends.darknet.plan import Build, Net, Plan, Shape
from engine.frontends.typed_emitter import refuse

__all__ = ["COMBINING"]

_MAX_BRANCHES = 256
_NORMALISATION_EPSILON = 1e-4


def _identity(layer: Section, net: Net) -> Plan:
    source, shape = net.before, net.shape_of(net.before)

    def emit(build: Build, _: Weights) -> str:
        return build.node("Identity", [build.raw(source)], build.name)

    return Plan(shape, emit, (source,), flat=net.is_flat(source))


def _training_only(layer: Section, net: Net) -> Plan:
    """``cost`` and ``contrastive``: at inference they compute nothing."""
    source, shape = net.before, net.shape_of(net.before)
    return Plan(shape, lambda build, _: build.raw(source), (source,), kind="training")


# ------------------------------------------------------------------------------ route_layer.c
def _route(layer: Section, net: Net) -> Plan:
    sources = tuple(net.refer(number, "layers") for number in layer.integers("layers"))
    groups, group = layer.integer("groups", 1), layer.integer("group_id", 0)
    if not 1 <= len(sources) <= _MAX_BRANCHES:
        refuse(f"it joins {len(sources)} layers")
    if groups < 1 or not 0 <= group < groups:
        refuse(f"group_id={group} is not one of its {groups} groups")
    shapes = [net.shape_of(source) for source in sources]
    if any(shape[1:] != shapes[0][1:] for shape in shapes):
        refuse(f"it joins different sizes: {', '.join(f'{h}x{w}' for _, h, w in shapes[:8])}")
    if any(shape[0] % groups for shape in shapes):
        refuse(f"it splits channels that cannot be divided into {groups} groups")

    def emit(build: Build, _: Weights) -> str:
        single = len(sources) == 1
        parts = []
        for source, (channels, _h, _w) in zip(sources, shapes, strict=True):
            x = build.image(source)
            if groups > 1:
                size = channels // groups
                bounds = build.ints(size * group), build.ints(size * (group + 1))
                out = build.name if single else ""
                x = build.node("Slice", [x, *bounds, build.ints(1)], out)
            parts.append(x)
        if not single:
            return build.node("Concat", parts, build.name, axis=1)
        return parts[0] if groups > 1 else build.node("Identity", parts, build.name)

    channels = sum(shape[0] for shape in shapes) // groups
    return Plan((channels, *shapes[0][1:]), emit, sources)


# --------------------------------------------------------------------------- shortcut_layer.c
def _shortcut(layer: Section, net: Net) -> Plan:
    """Adds branches to the layer before, over the channels that both have.

    With equal height and width that is ``shortcut_multilayer_cpu`` of blas.c. Other sizes
    AlexeyAB's darknet refuses; the original's ``shortcut_cpu`` takes every n-th value of a larger
    branch, and adds a smaller one to every n-th.
    """
    source, shape = net.before, net.shape_of(net.before)
    branches = tuple(net.refer(number, "from") for number in layer.integers("from"))
    if not 1 <= len(branches) <= _MAX_BRANCHES:
        refuse(f"it adds {len(branches)} layers")
    if layer.real("alpha", 1) != 1 or layer.real("beta", 1) != 1:
        refuse("its alpha and beta are known to some versions of darknet only")
    shapes = [net.shape_of(branch) for branch in branches]
    blobs = _shortcut_weights(layer, shape[0], len(branches))
    if (blobs or len(branches) > 1) and any(other[1:] != shape[1:] for other in shapes):
        refuse("it adds layers of different height or width")
    for other in shapes:
        _steps(other, shape)
    activation = activation_of(layer, "linear")
    normalisation = layer.text("weights_normalization", "none")

    def emit(build: Build, weights: Weights) -> str:
        terms = [build.image(source)]
        terms += [
            _fitted(build, build.image(branch), other, shape)
            for branch, other in zip(branches, shapes, strict=True)
        ]
        if blobs:
            factors = _factors(weights["weights"], normalisation)
            terms = [
                build.node("Mul", [x, build.constant(factor, f"{build.name}_weight")])
                for x, factor in zip(terms, factors, strict=True)
            ]

        def write(out: str) -> str:
            total = terms[0]
            for number, term in enumerate(terms[1:], start=1):
                total = build.node("Add", [total, term], out if number == len(branches) else "")
            return total

        return finished(build, activation, write)

    return Plan(shape, emit, (source, *branches), blobs)


def _shortcut_weights(layer: Section, channels: int, branches: int) -> tuple[Blob, ...]:
    kind = layer.text("weights_type", "none")
    if kind not in ("none", "per_feature", "per_layer", "per_channel"):
        refuse(f"its weights_type {kind!r} is unknown to darknet too")
    normalisation = layer.text("weights_normalization", "none")
    if normalisation not in ("none", "relu", "avg_relu", "softmax"):
        refuse(f"its weights_normalization {normalisation!r} is unknown to darknet too")
    if kind == "none":
        return ()
    return (Blob("weights", (branches + 1, channels if kind == "per_channel" else 1, 1, 1)),)


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


def _fitted(build: Build, x: str, branch: Shape, shape: Shape) -> str:
    """A branch with the size and channels of what it is added to."""
    stride, sample = _steps(branch, shape)
    channels = min(branch[0], shape[0])
    if channels < branch[0]:
        x = build.node("Slice", [x, build.ints(0), build.ints(channels), build.ints(1)])
    if stride > 1:
        far = build.ints(*branch[1:])
        x = build.node(
            "Slice", [x, build.ints(0, 0), far, build.ints(2, 3), build.ints(stride, stride)]
        )
    if sample > 1:
        _, h, w = branch
        x = build.node("Reshape", [x, build.ints(0, channels, h, 1, w, 1)])
        x = build.node("Pad", [x, build.ints(*[0] * 9, sample - 1, 0, sample - 1)])
        x = build.node("Reshape", [x, build.ints(0, channels, *shape[1:])])
    if channels < shape[0]:
        x = build.node("Pad", [x, build.ints(*[0] * 5, shape[0] - channels, 0, 0)])
    return x


# ------------------------------------------------------- scale_channels_layer.c, sam_layer.c
def _scale_channels(layer: Section, net: Net) -> Plan:
    """The layer before times another: per channel, or (``scale_wh``) per place."""
    wide = layer.flag("scale_wh")
    source = net.shape_of(net.before)
    if wide and source[0] != 1:
        refuse("scale_wh=1 needs one channel before it")
    if not wide and source[1:] != (1, 1):
        refuse(f"it scales by {source[1]}x{source[2]}; darknet takes 1x1")
    return _product(layer, net, slice(1, 3) if wide else slice(0, 1))


def _sam(layer: Section, net: Net) -> Plan:
    """The layer before times another of the same shape."""
    return _product(layer, net, slice(0, 3))


def _product(layer: Section, net: Net, equal: slice) -> Plan:
    before = net.before
    numbers = layer.integers("from")
    if len(numbers) != 1:
        refuse("it needs one layer (from=)")
    other = net.refer(numbers[0], "from")
    shape, factor = net.shape_of(other), net.shape_of(before)
    if shape[equal] != factor[equal]:
        refuse(f"it multiplies {shape} by {factor}")
    activation = activation_of(layer, "linear")

    def emit(build: Build, _: Weights) -> str:
        terms = [build.image(other), build.image(before)]
        return finished(build, activation, lambda out: build.node("Mul", terms, out))

    return Plan(shape, emit, (before, other))


# -------------------------------------------------------- reorg_layer.c, reorg_old_layer.c
def _reorg(layer: Section, net: Net) -> Plan:
    """``[reorg]``: darknet's first one, which takes the input's own size for that of the output."""
    source, shape = net.before, net.shape_of(net.before)
    return _reorganised(layer, source, shape, shape)


def _reorg3d(layer: Section, net: Net) -> Plan:
    """``[reorg3d]``: blocks to channels, the place in the block outermost."""
    source, shape = net.before, net.shape_of(net.before)
    return _reorganised(layer, source, shape, _reorg_shape(layer, shape))


def _reorg_shape(layer: Section, shape: Shape) -> Shape:
    c, h, w = shape
    stride = layer.integer("stride", 1)
    if not 1 <= stride <= 1024:
        refuse(f"its stride is {stride}")
    square = stride * stride
    if layer.flag("reverse"):
        if c % square:
            refuse(f"{c} channels cannot be divided by {square}")
        return c // square, h * stride, w * stride
    if h % stride or w % stride:
        refuse(f"{h}x{w} cannot be divided by its stride of {stride}")
    return c * square, h // stride, w // stride


def _reorganised(layer: Section, source: int, shape: Shape, walked: Shape) -> Plan:
    """``reorg_cpu`` of blas.c, which walks over ``walked`` as channels, height and width.

    There the one side is [c / s², h, s, w, s], the other [s, s, c / s², h, w]: forward from the
    first to the second, reversed from the second to the first, both read from flat memory.
    """
    stride = layer.integer("stride", 1)
    out = _reorg_shape(layer, shape)
    c, h, w = walked
    if c % (stride * stride):
        refuse(f"darknet's reorg needs channels that {stride * stride} divides, not {c}")
    inner = c // (stride * stride)
    reverse = layer.flag("reverse")

    def emit(build: Build, _: Weights) -> str:
        if reverse:
            view, order = (stride, stride, inner, h, w), (0, 3, 4, 1, 5, 2)
        else:
            view, order = (inner, h, stride, w, stride), (0, 3, 5, 1, 2, 4)
        x = build.node("Reshape", [build.image(source), build.ints(0, *view)])
        x = build.node("Transpose", [x], perm=order)
        return build.node("Reshape", [x, build.ints(0, *out)], build.name)

    return Plan(out, emit, (source,))


# -------------------------------------------------------------------- representation_layer.c
def _implicit(layer: Section, net: Net) -> Plan:
    """Weights that stand there as they are: ``filters`` x ``atoms`` x 1."""
    filters, atoms = layer.integer("filters", 128), layer.integer("atoms", 1)
    if min(filters, atoms) < 1:
        refuse("its filters or atoms are below 1")

    def emit(build: Build, weights: Weights) -> str:
        array = np.repeat(weights["weights"], build.batch, axis=0)
        return build.node("Identity", [build.constant(array, f"{build.name}_weights")], build.name)

    return Plan((filters, atoms, 1), emit, (), (Blob("weights", (1, filters, atoms, 1)),))


COMBINING: dict[str, Planner] = {
    "dropout": _identity,
    "empty": _identity,
    "cost": _training_only,
    "contrastive": _training_only,
    "route": _route,
    "shortcut": _shortcut,
    "scale_channels": _scale_channels,
    "sam": _sam,
    "reorg": _reorg,
    "reorg3d": _reorg3d,
    "implicit": _implicit,
}
