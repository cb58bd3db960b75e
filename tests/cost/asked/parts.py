"""Parts of networks as their exporters write them: activations, norms, attention."""

from __future__ import annotations

import numpy as np

from tests.cost.asked.maker import Maker


def number(m: Maker, value: float) -> str:
    return m.constant(np.array(value, np.float32))


def gelu(m: Maker, data: str) -> str:
    erf = m.add("Erf", m.add("Div", data, number(m, 2**0.5)))
    return m.add("Mul", m.add("Mul", data, m.add("Add", erf, number(m, 1))), number(m, 0.5))


def swish(m: Maker, data: str) -> str:
    return m.add("Mul", data, m.add("Sigmoid", data))


def turn(m: Maker, data: str, *perm: int) -> str:
    return m.add("Transpose", data, perm=list(perm))


def shape(m: Maker, data: str, *sizes: int) -> str:
    return m.add("Reshape", data, m.whole(*sizes))


def cut(m: Maker, data: str, start: int, end: int, axis: int, step: int = 1) -> str:
    return m.add("Slice", data, m.whole(start), m.whole(end), m.whole(axis), m.whole(step))


def pick(m: Maker, data: str, at: int, axis: int = 0) -> str:
    return m.add("Gather", data, m.constant(np.array(at, np.int64)), axis=axis)


def rolled(m: Maker, data: str, by: int) -> str:
    """Rows and columns that leave on one side come in on the other."""
    for axis in (1, 2):
        parts = [cut(m, data, by, 2**31 - 1, axis), cut(m, data, 0, by, axis)]
        data = m.add("Concat", *parts, axis=axis)
    return data


def recurrent(
    m: Maker, op: str, data: str, inputs: int, hidden: int, *, ways: int = 1, bias: bool = True
) -> str:
    """What LSTM or GRU gives of all steps: (steps, ways, 1, hidden)."""
    gates = {"LSTM": 4, "GRU": 3}[op] * hidden
    form: dict[str, object] = {"hidden_size": hidden}
    form |= {"direction": "bidirectional"} if ways == 2 else {}
    form |= {"linear_before_reset": 1} if op == "GRU" else {}
    given = [m.numbers(ways, gates, inputs), m.numbers(ways, gates, hidden)]
    given += [m.numbers(ways, 2 * gates)] if bias else []
    (made,) = m.split(data, *given, count=1, op=op, **form)
    return made


def linear(m: Maker, data: str, width: int, out: int) -> str:
    return m.add("Add", m.add("MatMul", data, m.numbers(width, out)), m.numbers(out))


def layer_norm(m: Maker, data: str, width: int) -> str:
    scale, bias = m.numbers(width), m.numbers(width)
    return m.add("LayerNormalization", data, scale, bias, axis=-1, epsilon=1e-5)


def as_rows(m: Maker, data: str, width: int, count: int) -> str:
    """A map as rows of its pixels: (1, width, H, W) to (1, count, width)."""
    return turn(m, shape(m, data, 1, width, count), 0, 2, 1)


def mlp(m: Maker, data: str, width: int, times: int = 2) -> str:
    return linear(m, gelu(m, linear(m, data, width, times * width)), times * width, width)


def attention(m: Maker, data: str, count: int, width: int, heads: int) -> str:
    depth = width // heads
    rows = m.whole(1, count, heads, depth)
    query, key, value = (
        turn(m, m.add("Reshape", linear(m, data, width, width), rows), *perm)
        for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    )
    root = number(m, depth**0.5)
    shares = m.add("Softmax", m.add("Div", m.add("MatMul", query, key), root), axis=-1)
    return mix_values(m, shares, value, 1, count, width)


def packed_heads(m: Maker, data: str, batch: int, count: int, width: int, heads: int) -> list[str]:
    """One linear layer, and queries, keys and values out of it: (batch, heads, count, depth)."""
    packed = shape(m, linear(m, data, width, 3 * width), batch, count, 3, heads, width // heads)
    packed = turn(m, packed, 2, 0, 3, 1, 4)
    return [pick(m, packed, at) for at in range(3)]


def scaled_scores(m: Maker, query: str, key: str, depth: int) -> str:
    scaled = m.add("Mul", query, number(m, depth**-0.5))
    return m.add("MatMul", scaled, turn(m, key, 0, 1, 3, 2))


def mix_values(m: Maker, shares: str, value: str, batch: int, count: int, width: int) -> str:
    mixed = turn(m, m.add("MatMul", shares, value), 0, 2, 1, 3)
    return linear(m, shape(m, mixed, batch, count, width), width, width)


def packed_attention(m: Maker, data: str, batch: int, count: int, width: int, heads: int) -> str:
    query, key, value = packed_heads(m, data, batch, count, width, heads)
    shares = m.add("Softmax", scaled_scores(m, query, key, width // heads), axis=-1)
    return mix_values(m, shares, value, batch, count, width)


def torch_attention(
    m: Maker, query: str, key: str, value: str, counts: tuple[int, int], width: int, heads: int
) -> str:
    """``nn.MultiheadAttention`` of sequences first: (rows, 1, width), heads are a batch."""
    depth, (rows, others) = width // heads, counts
    parts = []
    for data, count in ((query, rows), (key, others), (value, others)):
        part = shape(m, linear(m, data, width, width), count, heads, depth)
        parts.append(turn(m, part, 1, 0, 2))
    scaled = m.add("Mul", parts[0], number(m, depth**-0.5))
    scores = m.add("MatMul", scaled, turn(m, parts[1], 0, 2, 1))
    mixed = m.add("MatMul", m.add("Softmax", scores, axis=-1), parts[2])
    mixed = shape(m, turn(m, mixed, 1, 0, 2), rows, width)
    mixed = m.add("Gemm", mixed, m.numbers(width, width), m.numbers(width), transB=1)
    return shape(m, mixed, rows, 1, width)
