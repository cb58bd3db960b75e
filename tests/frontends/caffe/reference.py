"""Caffe's layers in plain numpy, loop by loop, after its definitions: what converters are held to.

Everything is computed in double and compared as float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np


def convolution(x, w, b=0.0, stride=(1, 1), pad=(0, 0), dilation=(1, 1), group=1):
    """base_conv_layer.cpp with im2col written as loops; two spatial axes."""
    n, channels, height, width = x.shape
    outputs, per_group, kh, kw = w.shape
    padded = np.zeros((n, channels, height + 2 * pad[0], width + 2 * pad[1]))
    padded[:, :, pad[0] : pad[0] + height, pad[1] : pad[1] + width] = x
    oh = (padded.shape[2] - (dilation[0] * (kh - 1) + 1)) // stride[0] + 1
    ow = (padded.shape[3] - (dilation[1] * (kw - 1) + 1)) // stride[1] + 1
    y = np.zeros((n, outputs, oh, ow))
    for o in range(outputs):
        first = o // (outputs // group) * per_group
        for i in range(kh):
            for j in range(kw):
                rows = slice(i * dilation[0], i * dilation[0] + oh * stride[0], stride[0])
                cols = slice(j * dilation[1], j * dilation[1] + ow * stride[1], stride[1])
                part = padded[:, first : first + per_group, rows, cols][:, :, :oh, :ow]
                y[:, o] += np.einsum("nchw,c->nhw", part, w[o, :, i, j].astype(float))
    return y + np.asarray(b).reshape(-1, 1, 1)


def deconvolution(x, w, b, stride, pad, dilation, group):
    """deconv_layer.cpp: every number adds its kernel to the output."""
    n, channels, height, width = x.shape
    _, per_group, kh, kw = w.shape
    oh = stride[0] * (height - 1) + dilation[0] * (kh - 1) + 1
    ow = stride[1] * (width - 1) + dilation[1] * (kw - 1) + 1
    y = np.zeros((n, per_group * group, oh, ow))
    for c, i, j in np.ndindex(channels, kh, kw):
        outputs = slice(c // (channels // group) * per_group, None)
        rows = slice(i * dilation[0], i * dilation[0] + stride[0] * height, stride[0])
        cols = slice(j * dilation[1], j * dilation[1] + stride[1] * width, stride[1])
        part = x[:, c, None].astype(float) * w[c, :, i, j].reshape(1, -1, 1, 1)
        y[:, outputs][:, :per_group, rows, cols] += part
    y = y[:, :, pad[0] : oh - pad[0] or None, pad[1] : ow - pad[1] or None]
    return y + np.asarray(b).reshape(1, -1, 1, 1)


def pooled_size(size: int, kernel: int, stride: int, pad: int, *, ceil: bool = True) -> int:
    """pooling_layer.cpp, Reshape."""
    rounded = math.ceil if ceil else math.floor
    out = rounded((size + 2 * pad - kernel) / stride) + 1
    if pad and (out - 1) * stride >= size + pad:
        out -= 1
    return out


def windows(x, outs, kernel, stride, before, behind) -> Iterator[tuple[int, int, int, tuple]]:
    """(row, column, places within input and padding, rows and columns of the input) of each window.

    ``before`` and ``behind`` are the padding along height and width.
    """
    sizes = x.shape[2:]
    for place in np.ndindex(*outs):
        starts = [i * s - p for i, s, p in zip(place, stride, before, strict=True)]
        ends = [min(a + k, n + p) for a, k, n, p in zip(starts, kernel, sizes, behind, strict=True)]
        inside = [slice(max(a, 0), min(b, n)) for a, b, n in zip(starts, ends, sizes, strict=True)]
        yield *place, (ends[0] - starts[0]) * (ends[1] - starts[1]), (..., *inside)


def pooling(x, method, kernel, stride, pad, *, ceil=True):
    """pooling_layer.cpp, Forward_cpu; also the mask of MAX, whose first place counts."""
    pairs = zip(x.shape[2:], kernel, stride, pad, strict=True)
    outs = [pooled_size(*sides, ceil=ceil) for sides in pairs]
    y, mask = np.zeros((*x.shape[:2], *outs)), np.zeros((*x.shape[:2], *outs))
    numbers = np.arange(x.shape[2] * x.shape[3]).reshape(x.shape[2:])
    for i, j, area, inside in windows(x, outs, kernel, stride, pad, pad):
        part = x[inside].astype(float).reshape(*x.shape[:2], -1)
        y[:, :, i, j] = part.sum(2) / area if method == "AVE" else part.max(2)
        mask[:, :, i, j] = numbers[inside].reshape(-1)[part.argmax(2)]
    return y, mask


def lrn_across(x, size, alpha, beta, k):
    """lrn_layer.cpp, CrossChannelForward_cpu."""
    y = np.empty(x.shape)
    for c in range(x.shape[1]):
        near = x[:, max(0, c - size // 2) : c + size // 2 + 1].astype(float)
        y[:, c] = x[:, c] / (k + alpha / size * (near**2).sum(1)) ** beta
    return y


def lrn_within(x, size, alpha, beta):
    """lrn_layer.cpp, WithinChannelForward: average over the padded square, k is not used."""
    average, _ = pooling(x.astype(float) ** 2, "AVE", (size, size), (1, 1), (size // 2,) * 2)
    return x * (1 + alpha * average) ** -beta


def interp(x, begin, end, size):
    """interp.cpp of PSPNet, caffe_cpu_interp2."""
    x = x[:, :, -begin : x.shape[2] + end, -begin : x.shape[3] + end].astype(float)
    height, width = x.shape[2:]
    rows = (height - 1) / (size[0] - 1) if size[0] > 1 else 0
    cols = (width - 1) / (size[1] - 1) if size[1] > 1 else 0
    y = np.empty((*x.shape[:2], *size))
    for i in range(size[0]):
        for j in range(size[1]):
            h, w = int(rows * i + 1e-9), int(cols * j + 1e-9)
            hp, wp = int(h < height - 1), int(w < width - 1)
            a, b = rows * i - h, cols * j - w
            y[:, :, i, j] = (1 - a) * ((1 - b) * x[:, :, h, w] + b * x[:, :, h, w + wp]) + a * (
                (1 - b) * x[:, :, h + hp, w] + b * x[:, :, h + hp, w + wp]
            )
    return y


def prior_box(feature, picture, param, ratios, steps, offset, *, flip, clip):
    """prior_box_layer.cpp of SSD, Forward_cpu; ``param`` is min sizes, max sizes, variances."""
    smallest, largest, variances = param
    known = [1.0]
    for ratio in ratios:
        if all(abs(ratio - other) >= 1e-6 for other in known):
            known.append(ratio)
            if flip:
                known.append(1 / ratio)
    boxes: list[float] = []
    count = 0
    for h in range(feature[0]):
        for w in range(feature[1]):
            cx, cy = (w + offset) * steps[1], (h + offset) * steps[0]
            for s, size in enumerate(smallest):
                side = int(size)
                sizes = [(side, side)]
                if largest:
                    sizes.append((math.sqrt(side * int(largest[s])),) * 2)
                sizes += [
                    (side * math.sqrt(r), side / math.sqrt(r)) for r in known if abs(r - 1) >= 1e-6
                ]
                for bw, bh in sizes:
                    count += 1
                    boxes += [(cx - bw / 2) / picture[1], (cy - bh / 2) / picture[0]]
                    boxes += [(cx + bw / 2) / picture[1], (cy + bh / 2) / picture[0]]
    array = np.array(boxes)
    if clip:
        array = array.clip(0, 1)
    each = list(variances) * count if len(variances) == 4 else list(variances) * (4 * count)
    return np.stack([array, np.array(each)])[None]


def argmax(x: np.ndarray, axis: int | None, top_k: int, *, values: bool) -> np.ndarray:
    """argmax_layer.cpp: pairs of number and place, sorted from the largest pair on."""
    if axis is None:
        flat = x.reshape(x.shape[0], -1)
        rows = [sorted(((v, j) for j, v in enumerate(row)), reverse=True)[:top_k] for row in flat]
        places = np.array([[j for _, j in row] for row in rows], float)
        if not values:
            return places.reshape(len(rows), 1, top_k, *[1] * max(0, x.ndim - 3))
        numbers = np.array([[v for v, _ in row] for row in rows], float)
        both = np.stack([places, numbers], 1)
        return both.reshape(len(rows), 2, top_k, *[1] * max(0, x.ndim - 3))
    moved = np.moveaxis(x, axis, -1)
    y = np.empty((*moved.shape[:-1], top_k))
    for index in np.ndindex(*moved.shape[:-1]):
        row = sorted(((v, j) for j, v in enumerate(moved[index])), reverse=True)[:top_k]
        y[index] = [v if values else j for v, j in row]
    return np.moveaxis(y, -1, axis)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def lstm(x, cont, of_input, of_state, bias, h, c) -> Sequence[np.ndarray]:
    """lstm_layer.cpp and lstm_unit_layer.cpp: gates input, forget, output, cell."""
    steps, streams = x.shape[:2]
    units = of_state.shape[1]
    x = x.reshape(steps, streams, -1).astype(float)
    result = []
    for t in range(steps):
        kept = cont[t].reshape(-1, 1)
        gates = x[t] @ of_input.T.astype(float) + bias + (kept * h) @ of_state.T.astype(float)
        i, f, o, g = (gates[:, n * units : (n + 1) * units] for n in range(4))
        c = kept * sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        result.append(h)
    return np.stack(result), h[None], c[None]
