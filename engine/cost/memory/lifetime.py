"""Which buffers a lowered graph needs, and from which layer to which."""

from __future__ import annotations

from engine.chips.npu import NpuProfile
from engine.cost.lowered import Lowered, LoweredLayer
from engine.cost.memory.allocator import Buffer
from engine.cost.memory.layout import converted_bytes, feature_bytes, working_bytes

__all__ = ["buffers_of"]

_CONVOLUTIONS = ("Conv", "ConvTranspose")


def buffers_of(lowered: Lowered, npu: NpuProfile) -> list[Buffer]:
    """The buffers in the order in which the compiler places them.

    A tensor lives from the layer that writes it to the last that reads it; an input from the first
    layer; an output to the last one.
    """
    layers = lowered.layers
    end = max(len(layers) - 1, 0)
    last: dict[str, int] = {}
    first_reader: dict[str, LoweredLayer] = {}
    for index, layer in enumerate(layers):
        for name in layer.inputs:
            last[name] = index
            first_reader.setdefault(name, layer)
    for name in lowered.outputs:
        last[name] = end
    images = {
        name
        for name in lowered.inputs
        if name in first_reader and first_reader[name].kind in _CONVOLUTIONS
    }
    buffers: list[Buffer] = []
    placed: set[str] = set()
    for index, layer in enumerate(layers):
        writer = None if layer.op == "InputOperator" else layer
        working = working_bytes(layer, npu, lowered)
        if working:
            buffers.append(Buffer(f"{layer.inputs[0]}_exSecondary", working, index, index))
        for name in layer.outputs:
            tensor = lowered.tensors.get(name)
            if tensor is None or tensor.const or name in placed:
                continue
            placed.add(name)
            size = feature_bytes(tensor, npu, writer, lowered, image=name in images)
            buffers.append(Buffer(name, size, index, max(last.get(name, index), index)))
        if layer.op == "OutputOperator":
            for name in layer.inputs:
                sizes = converted_bytes(lowered.tensors[name], npu)
                for part, size in enumerate(sizes):
                    copy = f"{name}_exSecondary{part if len(sizes) > 1 else ''}"
                    buffers.append(Buffer(copy, size, index, end))
    return buffers
