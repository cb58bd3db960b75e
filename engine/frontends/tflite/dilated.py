"""Dilated convolutions that exporters wrote as space-to-batch, convolution, batch-to-space.

TensorFlow had no kernel for dilation, so ``atrous_conv2d`` splits the picture into ``block`` by
``block`` coarser ones, convolves them without padding and puts the results together again: the
convolution with the block as its dilation, its padding less the crops at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from engine.frontends.tflite.schema import Operator, Subgraph
from engine.frontends.tflite.values import constant_array

__all__ = ["join_dilated"]

_CONVOLUTIONS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})
_VALID = 1


def join_dilated(
    graph: Subgraph, operators: Sequence[Operator], outputs: Sequence[int]
) -> list[Operator]:
    """``operators`` with each such three as one; its option ``pads`` is top, left, bottom, right.

    Args:
        graph: where their tensors are.
        operators: in order of execution.
        outputs: tensors that are wanted, which stay.
    """
    reads = Counter(index for operator in operators for index in operator.inputs)
    reads.update(outputs)
    makers = {index: operator for operator in operators for index in operator.outputs}
    joined: list[Operator] = []
    gone: list[Operator] = []
    for operator in operators:
        found = _joined(graph, operator, makers, reads)
        if found is not None:
            middle = makers[operator.inputs[0]]
            gone += [middle, makers[middle.inputs[0]]]
        joined.append(found or operator)
    dropped = {id(operator) for operator in gone}
    return [operator for operator in joined if id(operator) not in dropped]


def _joined(
    graph: Subgraph, last: Operator, makers: dict[int, Operator], reads: Counter[int]
) -> Operator | None:
    """The convolution that ``last`` ends, or None."""
    if last.type != "BATCH_TO_SPACE_ND" or len(last.inputs) != 3:
        return None
    middle = makers.get(last.inputs[0])
    if middle is None or middle.type not in _CONVOLUTIONS or reads[last.inputs[0]] != 1:
        return None
    first = makers.get(middle.inputs[0])
    if first is None or first.type != "SPACE_TO_BATCH_ND" or reads[middle.inputs[0]] != 1:
        return None
    plain = {"padding": _VALID, "stride_w": 1, "stride_h": 1, "dilation_w": 1, "dilation_h": 1}
    if len(first.inputs) != 3 or any(middle.options[k] != v for k, v in plain.items()):
        return None
    block, pads = (_constant(graph, index) for index in first.inputs[1:])
    again, crops = (_constant(graph, index) for index in last.inputs[1:])
    if block is None or pads is None or crops is None or again != block or len(block) != 2:
        return None
    left = [pad - crop for pad, crop in zip(pads, crops, strict=True)]
    if min(*left, *block) < 0:
        return None
    options = {
        **middle.options,
        "dilation_h": block[0],
        "dilation_w": block[1],
        "pads": (left[0], left[2], left[1], left[3]),
    }
    return replace(
        middle, inputs=(first.inputs[0], *middle.inputs[1:]), outputs=last.outputs, options=options
    )


def _constant(graph: Subgraph, index: int) -> list[int] | None:
    if index < 0 or graph.tensors[index].data is None:
        return None
    return [int(number) for number in constant_array(graph.tensors[index]).reshape(-1)]
