"""In the child: operators that tf2onnx converts wrongly or not at all, expressed in others first.

Each rule builds, with TensorFlow's own operators, what takes the place of one node; its semantics
are those of the operator's kernel in tensorflow/core/kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize
from engine.frontends.tensorflow.graphdef import tensor_of
from engine.frontends.tensorflow.prepare import imported

ops = tf.raw_ops
_MAX_RESIZED = 4096


@dataclass(frozen=True)
class Site:
    """A node that is being replaced.

    Attributes:
        operation: as TensorFlow has it, with attributes and inferred shapes.
        inputs: stand-ins for its inputs.
    """

    operation: Any
    inputs: Sequence[Any]

    def attribute(self, name: str) -> Any:
        """The value of an attribute."""
        return self.operation.get_attr(name)

    def constant(self, number: int) -> np.ndarray:
        """The value of an input that must be a constant.

        Raises:
            UnsupportedOperatorError: inputs of the graph decide it.
        """
        with self.operation.graph.as_default():
            value = tf.get_static_value(self.operation.inputs[number])
        if value is None:
            raise self.refusal(f"its input {number} is not a constant")
        return np.asarray(value)

    def refusal(self, why: str) -> UnsupportedOperatorError:
        """The error for a node that the rule does not cover."""
        return UnsupportedOperatorError(
            f"Node {sanitize(self.operation.name)!r} is a {self.operation.type}, and {why}.",
            remedy="Cut the graph with 'inputs' or 'outputs' so that it is left out.",
        )


Rule = Callable[[Site], Any]


def rewrite(graph: Any) -> Any:
    """``graph`` with every node that has a rule replaced.

    Raises:
        UnsupportedOperatorError: a rule does not cover a node; names it.
    """
    if not any(node.op in RULES for node in graph.node):
        return graph
    known = imported(graph)
    copy = tf.compat.v1.GraphDef()
    copy.CopyFrom(graph)
    del copy.node[:]
    for node in graph.node:
        if node.op not in RULES:
            copy.node.add().CopyFrom(node)
            continue
        copy.node.extend(_replacement(node, known.get_operation_by_name(node.name)))
    return copy


def _replacement(node: Any, operation: Any) -> list[Any]:
    """The nodes that take the place of ``node``; the last one has its name."""
    scratch = tf.Graph()
    with scratch.as_default(), tf.device("/cpu:0"):
        stand_ins = [
            tf.compat.v1.placeholder(tensor.dtype, tensor.shape, name=f"stand_in_{number}")
            for number, tensor in enumerate(operation.inputs)
        ]
        result = RULES[node.op](Site(operation, stand_ins))
        tf.identity(result, name="result")
    prefix = f"{node.name}/"
    sources = [i for i in node.input if not i.startswith("^")]
    nodes = []
    for inner in scratch.as_graph_def().node:
        if inner.op == "Placeholder":
            continue
        inner.name = node.name if inner.name == "result" else prefix + inner.name
        reads = [_source(name, sources, prefix) for name in inner.input]
        del inner.input[:]
        inner.input.extend(reads)
        nodes.append(inner)
    return nodes


def _source(name: str, sources: Sequence[str], prefix: str) -> str:
    node, number = tensor_of(name)
    if node.startswith("stand_in_"):
        return sources[int(node.removeprefix("stand_in_"))]
    return f"{prefix}{node}:{number}" if number else prefix + node


_SIGN_BIT = np.int32(-(2**31))


def _sign_bit(site: Site) -> Any:
    """The bits of a float32 of which only the sign is read, as Keras 3 does before an argmax."""
    x = site.inputs[0]
    if x.dtype != tf.float32 or site.attribute("type") != tf.int32:
        raise site.refusal("only the sign bit of float32 can be read")
    for reader in site.operation.outputs[0].consumers():
        masks = [tf.get_static_value(tensor) for tensor in reader.inputs]
        if reader.type != "BitwiseAnd" or not any(np.array_equal(m, _SIGN_BIT) for m in masks):
            raise site.refusal(f"{reader.type} reads more of its bits than the sign")
    # of -0 the reciprocal is negative, of minus infinity the value itself
    negative = tf.logical_or(x < 0.0, ops.Reciprocal(x=x) < 0.0)
    return tf.where(negative, _SIGN_BIT, np.int32(0))


def _truncated(site: Site) -> Any:
    x, y = site.inputs
    if not x.dtype.is_floating:
        return ops.TruncateDiv(x=x, y=y)
    quotient = ops.RealDiv(x=x, y=y)
    return ops.Sign(x=quotient) * ops.Floor(x=ops.Abs(x=quotient))


def _floor_div(site: Site) -> Any:
    x, y = site.inputs
    if x.dtype.is_floating:
        return ops.FloorDiv(x=x, y=y)
    # what is left is a multiple of y, so that dividing it rounds nothing
    return ops.TruncateDiv(x=x - _floor_mod(site), y=y)


def _floor_mod(site: Site) -> Any:
    """The remainder with the sign of the divisor (floor_mod of cwise_ops.h)."""
    x, y = site.inputs
    if x.dtype.is_unsigned:
        return ops.TruncateMod(x=x, y=y)
    rest = ops.TruncateMod(x=x, y=y)
    zero = tf.zeros([], x.dtype)
    apart = ops.LogicalAnd(
        x=ops.NotEqual(x=rest, y=zero),
        y=ops.NotEqual(
            x=tf.cast(ops.Less(x=rest, y=zero), tf.int32),
            y=tf.cast(ops.Less(x=y, y=zero), tf.int32),
        ),
    )
    return ops.SelectV2(condition=apart, t=rest + y, e=rest)


def _unless_zero(position: int, compute: Callable[[Any, Any], Any]) -> Rule:
    """0 where one of the two inputs is 0, whatever the other is."""

    def rule(site: Site) -> Any:
        x, y = site.inputs
        zero = tf.zeros([], x.dtype)
        at_zero = ops.Equal(x=site.inputs[position], y=zero)
        return ops.SelectV2(condition=at_zero, t=zero, e=compute(x, y))

    return rule


def _half_sum_of_squares(site: Site) -> Any:
    (x,) = site.inputs
    axes = list(range(x.shape.rank)) if x.shape.rank is not None else None
    return tf.reduce_sum(ops.Square(x=x), axis=axes) * tf.constant(0.5, x.dtype)


def _euclidean(site: Site) -> Any:
    axes = site.constant(1).reshape(-1).tolist()
    kept = site.attribute("keep_dims")
    return ops.Sqrt(x=ops.Sum(input=ops.Square(x=site.inputs[0]), axis=axes, keep_dims=kept))


def _round(site: Site) -> Any:
    (x,) = site.inputs
    if not x.dtype.is_floating:
        # the kernel of TensorFlow 2.21 makes 0 of every integer
        raise site.refusal("it rounds integers")
    return ops.Round(x=x)


def _bucketize(site: Site) -> Any:
    """How many boundaries are not above the element (std::upper_bound)."""
    bounds = np.asarray(site.attribute("boundaries"), np.float32)
    x = tf.expand_dims(tf.cast(site.inputs[0], tf.float32), -1)
    reached = tf.cast(ops.GreaterEqual(x=x, y=bounds), tf.int32)
    return ops.Sum(input=reached, axis=[-1])


def _unravel(site: Site) -> Any:
    index, _ = site.inputs
    rows = []
    dims = site.constant(1).tolist()
    for number, size in enumerate(dims):
        stride = int(np.prod(dims[number + 1 :], dtype=np.int64))
        whole = ops.TruncateDiv(x=index, y=np.array(stride, index.dtype.as_numpy_dtype))
        rows.append(ops.TruncateMod(x=whole, y=np.array(size, index.dtype.as_numpy_dtype)))
    return ops.Pack(values=rows, axis=0)


def _square_blocks(build: Callable[..., Any], margins: str) -> Rule:
    """The operator for blocks of any form, of which the old one knows squares."""

    def made(site: Site) -> Any:
        size = int(site.attribute("block_size"))
        borders = {margins: site.constant(1).tolist()}
        return build(input=site.inputs[0], block_shape=[size, size], **borders)

    return made


def _old_batch_norm(site: Site) -> Any:
    x, mean, variance, beta, gamma = site.inputs
    scaled = site.attribute("scale_after_normalization")
    scale = gamma if scaled else tf.ones_like(gamma)
    return ops.FusedBatchNormV3(
        x=x,
        scale=scale,
        offset=beta,
        mean=mean,
        variance=variance,
        epsilon=site.attribute("variance_epsilon"),
        is_training=False,
    )[0]


def _resize(resize: Callable[..., Any], flags: Sequence[str]) -> Rule:
    """Two products with matrices of weights, as TensorFlow itself gives them.

    The operator is linear and works on height and width apart, so that what it makes of unit
    vectors along one axis is the matrix of that axis.
    """

    def matrix(site: Site, source: int, target: int) -> np.ndarray:
        units = np.eye(source, dtype=np.float32).reshape(1, source, 1, source)
        options = {flag: site.attribute(flag) for flag in flags}
        scratch = tf.Graph()
        with scratch.as_default(), tf.compat.v1.Session(graph=scratch) as session:
            resized = session.run(resize(images=units, size=[target, 1], **options))
        return np.asarray(resized[0, :, 0, :], np.float32)

    def rule(site: Site) -> Any:
        x = tf.cast(site.inputs[0], tf.float32)
        sizes = x.shape.as_list() if x.shape.rank == 4 else [None] * 4
        target = site.constant(1).tolist()
        known = [size for size in sizes[1:3] if size is not None]
        if len(known) < 2 or max(*known, *target) > _MAX_RESIZED:
            raise site.refusal(f"its size is not known, or above {_MAX_RESIZED}")
        rows = matrix(site, known[0], target[0])
        columns = matrix(site, known[1], target[1])
        planes = ops.Transpose(x=x, perm=[0, 3, 1, 2])
        tall = ops.BatchMatMulV2(x=rows, y=planes)
        resized = ops.BatchMatMulV2(x=tall, y=np.ascontiguousarray(columns.T))
        return ops.Transpose(x=resized, perm=[0, 2, 3, 1])

    return rule


def _fake_quant(compute: Callable[..., Any]) -> Rule:
    """The same with its range as constants, which may come through identities."""

    def rule(site: Site) -> Any:
        return compute(
            inputs=site.inputs[0],
            min=site.constant(1),
            max=site.constant(2),
            num_bits=site.attribute("num_bits"),
            narrow_range=site.attribute("narrow_range"),
        )

    return rule


def _any_number(site: Site) -> Any:
    """Some number from 0 to 1, for a dropout that is off: it keeps all, whatever is drawn.

    A graph whose outputs depend on the number is refused when they are held against TensorFlow's,
    which draws others.
    """
    return ops.Fill(dims=site.inputs[0], value=tf.constant(0.5, site.attribute("dtype")))


def _itself(site: Site) -> Any:
    return ops.Identity(input=site.inputs[0])


RULES: dict[str, Rule] = {
    "BatchNormWithGlobalNormalization": _old_batch_norm,
    "BatchToSpace": _square_blocks(ops.BatchToSpaceND, "crops"),
    "Bitcast": _sign_bit,
    "Bucketize": _bucketize,
    "Erfc": lambda site: 1.0 - ops.Erf(x=site.inputs[0]),
    "EuclideanNorm": _euclidean,
    "Expm1": lambda site: ops.Exp(x=site.inputs[0]) - 1.0,
    "FakeQuantWithMinMaxVars": _fake_quant(ops.FakeQuantWithMinMaxVars),
    "FakeQuantWithMinMaxVarsPerChannel": _fake_quant(ops.FakeQuantWithMinMaxVarsPerChannel),
    "FloorDiv": _floor_div,
    "FloorMod": _floor_mod,
    "Inv": lambda site: ops.Reciprocal(x=site.inputs[0]),
    "L2Loss": _half_sum_of_squares,
    "Log1p": lambda site: ops.Log(x=site.inputs[0] + 1.0),
    "MulNoNan": _unless_zero(1, lambda x, y: x * y),
    "PreventGradient": _itself,
    "Print": _itself,
    "RandomUniform": _any_number,
    "ResizeArea": _resize(ops.ResizeArea, ("align_corners",)),
    "ResizeBicubic": _resize(ops.ResizeBicubic, ("align_corners", "half_pixel_centers")),
    "Round": _round,
    "Snapshot": _itself,
    "SpaceToBatch": _square_blocks(ops.SpaceToBatchND, "paddings"),
    "TruncateDiv": _truncated,
    "UnravelIndex": _unravel,
    "Xdivy": _unless_zero(0, lambda x, y: ops.RealDiv(x=x, y=y)),
    "Xlogy": _unless_zero(0, lambda x, y: x * ops.Log(x=y)),
}
"""Operator -> what is built in its place."""
