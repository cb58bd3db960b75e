"""Reference operators in numpy: convolution and pooling on exact numbers."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.base.errors import SimulationError


def conv(node: ir.Node, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The sums of a Conv node without bias.

    Args:
        node: for strides, dilations, pads and group.
        data: (N, C, ...) float64 with integer values; padding adds zeros.
        weight: (M, C / group, ...) float64 with integer values.

    Returns:
        (N, M, ...) float64: exact while the sums stay below 2**53.
    """
    kernel = weight.shape[2:]
    windows = _windows(node, data, kernel, fill=0.0)
    group = node.attributes.get_int("group", 1)
    rank = len(kernel)
    batch, channels = data.shape[:2]
    size = windows.shape[2 : 2 + rank]
    # (N, group, C / group, out..., k...) -> (N, group, out..., C / group x k...)
    split = windows.reshape(batch, group, channels // group, *size, *kernel)
    order = (0, 1, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank))
    columns = split.transpose(order).reshape(batch, group, int(np.prod(size)), -1)
    matrix = weight.reshape(group, weight.shape[0] // group, -1).transpose(0, 2, 1)
    sums = np.matmul(columns, matrix[None])  # (N, group, out, M / group)
    return np.asarray(sums.transpose(0, 1, 3, 2).reshape(batch, weight.shape[0], *size))


def conv_transpose(node: ir.Node, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The sums of a ConvTranspose node without bias: every input spreads over a window.

    Args:
        node: for strides, dilations, pads, output_padding and group; pads must be explicit.
        data: (N, C, ...) float64 with integer values.
        weight: (C, M / group, ...) float64 with integer values.

    Returns:
        (N, M, ...) float64.

    Raises:
        SimulationError: the node gives its size by ``auto_pad`` or ``output_shape``.
    """
    kernel = weight.shape[2:]
    rank, group = len(kernel), node.attributes.get_int("group", 1)
    if "output_shape" in node.attributes or node.attributes.get_string("auto_pad", "NOTSET") in (
        "SAME_UPPER",
        "SAME_LOWER",
    ):
        raise SimulationError(
            f"The numpy reference takes explicit pads of ConvTranspose only ({node.name}).",
            remedy="Give explicit pads in the model, or simulate with ONNX Runtime, the default.",
        )
    strides = node.attributes.get_ints("strides", (1,) * rank)
    dilations = node.attributes.get_ints("dilations", (1,) * rank)
    more = node.attributes.get_ints("output_padding", (0,) * rank)
    pads = _pads(node, data.shape[2:], kernel)
    batch, channels, *sizes = data.shape
    full = [
        (n - 1) * s + (k - 1) * d + 1 + extra
        for n, s, k, d, extra in zip(sizes, strides, kernel, dilations, more, strict=True)
    ]
    split = data.reshape(batch, group, channels // group, -1)
    matrix = weight.reshape(group, channels // group, weight.shape[1], *kernel)
    result = np.zeros((batch, group, weight.shape[1], *full))
    for place in np.ndindex(*kernel):
        part = np.einsum("bgcx,gcm->bgmx", split, matrix[(..., *place)])
        where: tuple[Any, ...] = (
            ...,
            *(
                slice(p * d, p * d + (n - 1) * s + 1, s)
                for p, d, n, s in zip(place, dilations, sizes, strides, strict=True)
            ),
        )
        result[where] += part.reshape(batch, group, weight.shape[1], *sizes)
    crop = tuple(slice(low, n - high) for (low, high), n in zip(pads, full, strict=True))
    return np.asarray(result.reshape(batch, -1, *full)[(slice(None), slice(None), *crop)])


def avg_pool(node: ir.Node, data: np.ndarray) -> np.ndarray:
    """The means of an AveragePool node over ``data`` (N, C, ...) float64."""
    kernel = tuple(node.attributes.get_ints("kernel_shape", ()))
    axes = tuple(range(-len(kernel), 0))
    sums = _windows(node, data, kernel, fill=0.0).sum(axis=axes)
    inside = np.ones((1, 1, *data.shape[2:]))
    if node.attributes.get_int("count_include_pad", 0):
        # the pads count, what ceil_mode adds behind them does not
        pads = _pads(node, data.shape[2:], kernel)
        inside = np.pad(inside, [(0, 0), (0, 0), *pads], constant_values=1.0)
        count = _windows(node, inside, kernel, fill=0.0, padded=True, spatial=data.shape[2:])
    else:
        count = _windows(node, inside, kernel, fill=0.0)
    return np.asarray(sums / count.sum(axis=axes))


def max_pool(node: ir.Node, data: np.ndarray) -> np.ndarray:
    """The maxima of a MaxPool node over ``data`` (N, C, ...) float64."""
    kernel = tuple(node.attributes.get_ints("kernel_shape", ()))
    windows = _windows(node, data, kernel, fill=-np.inf)
    return np.asarray(windows.max(axis=tuple(range(-len(kernel), 0))))


def _pads(
    node: ir.Node, spatial: tuple[int, ...], kernel: tuple[int, ...]
) -> list[tuple[int, int]]:
    rank = len(kernel)
    strides = node.attributes.get_ints("strides", (1,) * rank)
    dilations = node.attributes.get_ints("dilations", (1,) * rank)
    auto = node.attributes.get_string("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = []
        for size, k, s, d in zip(spatial, kernel, strides, dilations, strict=True):
            total = max(0, (ceil(size / s) - 1) * s + (k - 1) * d + 1 - size)
            less, more = total // 2, total - total // 2
            pads.append((less, more) if auto == "SAME_UPPER" else (more, less))
        return pads
    flat = node.attributes.get_ints("pads", (0,) * (2 * rank))
    return [(flat[i], flat[i + rank]) for i in range(rank)]


def _windows(
    node: ir.Node,
    data: np.ndarray,
    kernel: tuple[int, ...],
    *,
    fill: float,
    padded: bool = False,
    spatial: tuple[int, ...] | None = None,
) -> np.ndarray:
    """(N, C, out..., k...) views of the padded data; ``padded`` data has its pads already."""
    rank = len(kernel)
    sizes = spatial if spatial is not None else data.shape[2:]
    strides = node.attributes.get_ints("strides", (1,) * rank)
    dilations = node.attributes.get_ints("dilations", (1,) * rank)
    pads = _pads(node, sizes, kernel)
    extra = [0] * rank
    if node.attributes.get_int("ceil_mode", 0):
        for i in range(rank):
            span = sizes[i] + sum(pads[i]) - ((kernel[i] - 1) * dilations[i] + 1)
            steps = ceil(span / strides[i])
            if steps * strides[i] >= sizes[i] + pads[i][0]:
                steps -= 1  # a window that would start in the padding behind is left out
            extra[i] = max(0, steps * strides[i] - span)
    behind = [
        (0 if padded else low, (0 if padded else high) + more)
        for (low, high), more in zip(pads, extra, strict=True)
    ]
    data = np.pad(data, [(0, 0), (0, 0), *behind], constant_values=fill)
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    views = np.lib.stride_tricks.sliding_window_view(data, reach, axis=tuple(range(2, 2 + rank)))
    stepped = tuple(slice(None, None, s) for s in strides)
    dilated = tuple(slice(None, None, d) for d in dilations)
    return np.asarray(views[(slice(None), slice(None), *stepped, *dilated)])
