"""Damaged ONNX models whose form is whole: other types, sizes, attributes, numbers and edges."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

__all__ = ["mutant"]

_SIZES = (0, 1, 2, 3, 7, -1, -2, 255, 65536, 2**31 - 1, 2**31, 2**40, 2**62, -(2**63), 2**63 - 1)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 3.4e38, -3.4e38, float("nan"), float("inf"), float("-inf"))
_TEXTS = (b"", b"NOTSET", b"SAME_UPPER", b"VALID", b"linear", b"\xff\xfe", b"x" * 300, b"reflect")
_TYPES = tuple(v for v in TensorProto.DataType.values())
_OPS = (
    *("Add", "Cast", "Concat", "Conv", "Div", "Exp", "Gather", "Gemm", "Identity", "Log", "MatMul"),
    *("MaxPool", "Mod", "Pow", "QuantizeLinear", "Range", "ReduceMean", "Reshape", "Resize"),
    *("Shape", "Slice", "Softmax", "Split", "Sqrt", "Tile", "Transpose", "Unsqueeze", "Where"),
)

Change = Callable[[onnx.ModelProto, random.Random], None]


def mutant(seed: onnx.ModelProto, number: int) -> onnx.ModelProto:
    """The ``number``-th damaged copy of a model: the same for the same arguments."""
    chance = random.Random(f"{number}:{seed.ByteSize()}")
    proto = onnx.ModelProto()
    proto.CopyFrom(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        try:
            chance.choice(_CHANGES)(proto, chance)
        except Exception:  # noqa: BLE001, S112 - of protobuf, numpy and onnx's own checks
            continue  # protobuf takes no such number there, or there is nothing to change
    return proto


def _tensors(proto: onnx.ModelProto) -> Iterator[TensorProto]:
    yield from proto.graph.initializer
    for node in proto.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t


def _values(proto: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    return [*proto.graph.input, *proto.graph.output, *proto.graph.value_info]


def _type(proto: onnx.ModelProto, chance: random.Random) -> None:
    places = [*_tensors(proto), *_values(proto)]
    place = chance.choice(places)
    if isinstance(place, TensorProto):
        place.data_type = chance.choice(_TYPES)
    else:
        place.type.tensor_type.elem_type = chance.choice(_TYPES)


def _size(proto: onnx.ModelProto, chance: random.Random) -> None:
    value = chance.choice(_values(proto))
    dims = value.type.tensor_type.shape.dim
    kind = chance.randrange(5)
    if kind == 0:
        value.type.tensor_type.ClearField("shape")
    elif kind == 1 or not dims:
        dims.add().dim_value = chance.choice(_SIZES)
    elif kind == 2:
        dims[chance.randrange(len(dims))].dim_param = chance.choice(("N", "?", "", "a\x1b[2J"))
    elif kind == 3:
        dims.pop()
    else:
        dims[chance.randrange(len(dims))].dim_value = chance.choice(_SIZES)


def _dims(proto: onnx.ModelProto, chance: random.Random) -> None:
    """A constant of another shape: as many numbers, or not."""
    tensor = chance.choice(list(_tensors(proto)))
    dims = list(tensor.dims)
    kind = chance.randrange(4)
    if kind == 0:
        dims.reverse()
    elif kind == 1:
        dims.append(1)
    elif kind == 2 and dims:
        dims[chance.randrange(len(dims))] = chance.choice(_SIZES)
    else:
        dims = [int(np.prod(dims))] if dims else [1]
    tensor.ClearField("dims")
    tensor.dims.extend(dims)


def _numbers(proto: onnx.ModelProto, chance: random.Random) -> None:
    """Other numbers in a constant, of its own type."""
    tensor = chance.choice(list(_tensors(proto)))
    array = np.array(numpy_helper.to_array(tensor))
    if array.size == 0:
        return
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f":
            number = np.float64(chance.choice(_FLOATS))
        elif array.dtype.kind in "iu":
            info = np.iinfo(array.dtype)
            number = np.clip(chance.choice(_SIZES), info.min, info.max)
        else:
            return
        if chance.random() < 0.5:
            array.reshape(-1)[chance.randrange(array.size)] = number
        else:
            array[...] = number
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _field(proto: onnx.ModelProto, chance: random.Random) -> None:
    """Numbers in a field of another type, or in files that are not there."""
    tensor = chance.choice(list(_tensors(proto)))
    kind = chance.randrange(4)
    if kind == 0:
        raw, count = tensor.raw_data, int(np.prod(tensor.dims))
        tensor.ClearField("raw_data")
        name = chance.choice(("float_data", "int32_data", "int64_data", "double_data"))
        getattr(tensor, name).extend([1] * (count if raw else chance.randrange(4)))
    elif kind == 1:
        tensor.raw_data = tensor.raw_data[: chance.randrange(len(tensor.raw_data) + 1)]
    elif kind == 2:
        tensor.data_location = TensorProto.EXTERNAL
        texts = ("", "x" * 5000, "../x", "a\0b", "no.bin", "/dev/zero", "x/" * 2000, ".")
        tensor.external_data.add(key="location", value=chance.choice(texts))
        tensor.external_data.add(key="offset", value=chance.choice(("-1", "9" * 17, "x", "")))
    else:
        tensor.name = chance.choice(("", "x", "y", "\x1b[31m"))


def _attribute(proto: onnx.ModelProto, chance: random.Random) -> None:
    node = chance.choice(list(proto.graph.node))
    if not node.attribute:
        name = chance.choice(("axis", "axes", "to", "perm", "kernel_shape", "epsilon", "mode"))
        node.attribute.add(name=name, type=AttributeProto.INT, i=chance.choice(_SIZES))
        return
    attribute = chance.choice(list(node.attribute))
    kind = chance.randrange(5)
    if kind == 0:
        node.attribute.remove(attribute)
    elif kind == 1:
        attribute.type = chance.choice(AttributeProto.AttributeType.values())
    elif attribute.type == AttributeProto.INTS:
        if kind == 2 or not attribute.ints:
            attribute.ints.append(chance.choice(_SIZES))
        elif kind == 3:
            attribute.ints.pop()
        else:
            attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(_SIZES)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = chance.choice(_FLOATS)
    elif attribute.type == AttributeProto.FLOATS:
        attribute.floats.append(chance.choice(_FLOATS))
    elif attribute.type == AttributeProto.STRING:
        attribute.s = chance.choice(_TEXTS)
    else:
        attribute.i = chance.choice(_SIZES)


def _edge(proto: onnx.ModelProto, chance: random.Random) -> None:
    """A node reads another tensor, none, one more, or gives another name."""
    nodes = list(proto.graph.node)
    names = [name for node in nodes for name in (*node.input, *node.output)] + ["", "gone"]
    node = chance.choice(nodes)
    kind = chance.randrange(5)
    if kind == 0 and node.input:
        node.input[chance.randrange(len(node.input))] = chance.choice(names)
    elif kind == 1 and node.input:
        node.input.pop()
    elif kind == 2:
        node.input.append(chance.choice(names))
    elif kind == 3 and node.output:
        node.output[chance.randrange(len(node.output))] = chance.choice(names)
    else:
        node.output.append(chance.choice(names))


def _operator(proto: onnx.ModelProto, chance: random.Random) -> None:
    node = chance.choice(list(proto.graph.node))
    kind = chance.randrange(4)
    if kind < 2:
        node.op_type = chance.choice(_OPS)
    elif kind == 2:
        node.domain = chance.choice(("ai.onnx", "com.microsoft", "x", "ai.onnx.ml"))
    else:
        node.name = chance.choice(("", "same", "\u202e", "n" * 3000))


def _model(proto: onnx.ModelProto, chance: random.Random) -> None:
    kind = chance.randrange(6)
    if kind == 0:
        proto.opset_import[0].version = chance.choice((0, 1, 5, 7, 10, 12, 13, 18, 22, 25, 99))
    elif kind == 1:
        proto.ir_version = chance.choice((0, 1, 3, 8, 13, 2**31))
    elif kind == 2:
        proto.graph.input.add().CopyFrom(chance.choice(_values(proto)))
    elif kind == 3:
        proto.graph.output.add().CopyFrom(chance.choice(_values(proto)))
    elif kind == 4:
        nodes = list(proto.graph.node)
        proto.graph.node.add().CopyFrom(chance.choice(nodes))
    else:
        del proto.graph.node[chance.randrange(len(proto.graph.node))]


_CHANGES: tuple[Change, ...] = (
    *(_type, _size, _dims, _numbers, _numbers, _numbers, _field, _attribute, _attribute),
    *(_edge, _operator, _model),
)
