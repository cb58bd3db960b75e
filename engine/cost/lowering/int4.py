"""Weights of 4 bits (``w4a16``): which layers have them, and what the compiler does otherwise.

Source: the tables that rknn-toolkit2 2.3.2 prints for RK3576, the only chip that it compiles
``w4a16`` for. Features stay in float16. Depthwise and transposed convolutions, pools and products
of two features are as in a float16 model. A dense convolution has a bias always, and its
output stage takes in no activation but Relu and Clip.

An image whose scale no convolution can take in its weights is scaled by a 1 x 1 convolution, which
has no name in the table: one of 4 bits cannot, nor can what is no convolution.
"""

from __future__ import annotations

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context

__all__ = ["has_int4", "scale_images", "takes_in"]

_IMAGE_CHANNELS = (1, 3, 4)
_TAKEN_IN = ("Clip", "Relu")
"""Activations that the output stage of a convolution with weights of 4 bits does."""


def has_int4(node: Node) -> bool:
    """Whether a node's weight would be stored in 4 bits: that of a dense convolution is."""
    made = any(node.attributes.get(each) for each in ("depthwise", "scales"))
    return node.kind == "Conv" and len(node.inputs) > 1 and not made


def takes_in(node: Node, follower: Node, context: Context) -> bool:
    """Whether the weights of a convolution leave it the activation behind it."""
    return not (context.int4 and has_int4(node)) or follower.op in _TAKEN_IN


def scale_images(graph: LoweringGraph, context: Context) -> None:
    """Images that something else reads than convolutions are scaled by one before."""
    for name in graph.inputs:
        shape, readers = graph.shape(name), graph.readers(name)
        image = len(shape) == 4 and shape[1] in _IMAGE_CHANNELS
        plain = [each for each in readers if each.kind == "Conv"]
        if not image or not readers or (len(plain) == len(readers) and not context.int4):
            continue
        made = graph.add_tensor(f"{name}_scaled", shape, graph.tensors[name].dtype)
        graph.replace_reads(name, made)
        channels, label = shape[1], f"Pre_weight{name}"
        inputs = [name, graph.add_unknown(label, (channels, channels, 1, 1), "float32")]
        if context.dtype == "int8":
            inputs.append(graph.add_unknown(f"Pre_bias{name}", (channels,), "float32"))
        graph.put("Conv", label, inputs, [made], {"scales": 1}, before=readers[0])
        graph.rewrites["scale_image"] += 1
