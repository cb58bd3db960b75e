"""Files of every kind of the vendor's, written from the description of the formats."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tests.container.vendor.flat import f32, flat, floats, i8, i32, ints, u64

FACTS = {
    "attrs": {
        "x": {
            "idx": 0,
            "shape": [1, 3, 8, 8],
            "layout": "nchw",
            "is_output": False,
            "dtype": "float32",
            "mean": [127.5, 0, 1],
            "std": [2, 2, 2],
            "rgb2bgr": True,
        },
        "y": {"is_output": True, "idx": 0, "shape": [1, 4, 8, 8], "layout": "nchw"},
    },
    "quant_tab": {"x": {"name": "x", "ori_min": [-1.5], "ori_max": [2.5]}},
    "dynamic_shapes": {},
}
VERSIONS = "2.3.2(compiler version: 2.3.2 (abc@2025-04-09T09:09:27))"


def bson(values: Mapping[str, Any]) -> bytes:
    """A BSON document of texts, whole numbers, reals, lists and documents."""
    body = b""
    for name, value in values.items():
        key = name.encode() + b"\0"
        if isinstance(value, str):
            raw = value.encode() + b"\0"
            body += b"\x02" + key + struct.pack("<i", len(raw)) + raw
        elif isinstance(value, int):
            body += b"\x10" + key + struct.pack("<i", value)
        elif isinstance(value, float):
            body += b"\x01" + key + struct.pack("<d", value)
        elif isinstance(value, list):
            body += b"\x04" + key + bson({str(i): item for i, item in enumerate(value)})
        else:
            body += b"\x03" + key + bson(value)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def noted(values: Mapping[str, Any]) -> bytes:
    return bson({name: {"dtype": "is", "value": value} for name, value in values.items()})


def quantized(low: float, high: float, scale: float, zero: int) -> dict[int, Any]:
    return {
        6: "layer",
        7: "int8",
        8: floats(low),
        9: floats(high),
        10: floats(scale),
        11: ints(zero),
    }


def tensor(
    name: str, shape: Sequence[int], *, dtype: int = 3, kind: int = 3, **more: Any
) -> dict[int, Any]:
    slots = {0: i8(dtype), 1: i8(64), 2: i8(kind), 3: ints(1, 1, *shape[2:], 16), 4: ints(*shape)}
    return {**slots, 5: name, 12: i32(64), **more.get("slots", {})}


def node(
    op: str, name: str, inputs: Sequence[int], outputs: Sequence[int], **more: Any
) -> dict[int, Any]:
    return {1: op, 2: name, 4: ints(*inputs), 5: ints(*outputs), **more.get("slots", {})}


CONV = {
    0: "NOTSET",
    1: ints(1, 1),
    2: i32(2),
    3: ints(3, 3),
    4: ints(0, 0, 1, 1),
    5: ints(2, 2),
}

# tensor 0 of every graph: without a name
DUMMY: dict[int, Any] = {3: ints(), 4: ints(), 5: ""}


def graph(height: int = 8) -> dict[int, Any]:
    """Input, ConvRelu, LeakyRelu, output; with a weight, commands and tasks."""
    out = height // 2
    tensors = [
        DUMMY,
        tensor("x", (1, 3, height, height), kind=1, slots=quantized(-2, 3, 0.0196, -14)),
        tensor("w", (4, 3, 3, 3), kind=4),
        tensor("c", (1, 4, out, out), slots=quantized(0, 6, 0.0235, -128)),
        tensor("y", (1, 4, out, out), dtype=10, kind=2),
        {0: i8(13), 2: i8(9), 4: ints(), 5: "regcmd"},
    ]
    nodes = [
        node("InputOperator", "InputOperator:x", (), (1,)),
        node(
            "ConvRelu",
            "Conv:/a/b/conv",
            (1, 2),
            (3,),
            slots={
                3: i8(2),
                7: i8(1),
                8: CONV,
                9: noted({"pads": [1, 1, 1, 1], "group": 2, "auto_pad": "NOTSET"}),
            },
        ),
        node("LeakyRelu", "LeakyRelu:/a/act", (3,), (4,), slots={7: i8(9), 8: {0: f32(0.125)}}),
        node("OutputOperator", "OutputOperator:y", (4,), (), slots={9: bytes(16)}),
    ]
    return {0: tensors, 1: nodes, 2: ints(1), 3: ints(4)}


def npu_model(**changes: Any) -> dict[int, Any]:
    """The root table of the full form; ``s7="text"`` replaces slot 7."""
    root: dict[int, Any] = {
        0: i32(6),
        1: "RKNPU v2",
        2: [graph()],
        3: repr(FACTS),
        7: VERSIONS,
        8: "rk3588",
        9: "ONNX",
        11: "hello",
        12: '{"x": {"dtype": "int8", "layout": "NHWC"}}',
        13: '{"y": {"dtype": "float16", "layout": "NCHW"}}',
        14: "0",
        16: "static_shape",
        19: {0: u64(1000), 1: u64(2000), 2: u64(300)},
        20: [{}, {0: bytes(64)}],
    }
    return root | {int(slot[1:]): value for slot, value in changes.items()}


def _link(node_id: int, left: str, port: int, kind: str, number: int) -> dict[str, Any]:
    far = {"type": kind, "tensor_id": number}
    return {"node_id": node_id, "left": left, "left_tensor_id": port, "right_tensor": far}


_SIDES = ("input", "output")
_LINKS = [_link(0, side, 0, "norm_tensor", i) for i, side in enumerate(_SIDES)]
_ENDS = [
    {"left": side, "left_tensor_id": 0, "right": "norm_tensor", "right_tensor_id": i}
    for i, side in enumerate(_SIDES)
]
"""One node between one input and one output."""


def wrapper(platform: str = "rk3588", version: str = "2.3.2") -> dict[str, Any]:
    """Generation 2's layer list: one node that stands for the compiled graph."""
    dtype = {"vx_type": "int8", "qnt_type": "int8", "qnt_method": "layer"}
    tensors = [("x", [1, 3, 8, 8]), ("y", [1, 4, 4, 4])]
    return {
        "version": version,
        "target_platform": [platform],
        "network_platform": "ONNX",
        "ori_network_platform": "ONNX",
        "name": "rknn model",
        "nodes": [
            {"op": "RKNN_OP_NNBG", "name": "nnbg", "nn": {"nbg": {"type": "RKNN_OP_NNBG"}}},
        ],
        "const_tensor": [],
        "virtual_tensor": [],
        "norm_tensor": [
            {"tensor_id": i, "url": name, "size": size, "dim_num": 4, "dtype": dtype}
            for i, (name, size) in enumerate(tensors)
        ],
        "graph": _ENDS,
        "connection": _LINKS,
    }


def container(
    version: int, data: bytes, listed: Mapping[str, Any] | bytes, tail: bytes = b""
) -> bytes:
    reserved = bytes(range(40)) if version >> 8 else bytes(40)
    text = listed if isinstance(listed, bytes) else json.dumps(listed).encode()
    head = b"RKNN" + struct.pack("<IQQ", 0, version, len(data))
    if data and version & 0xFF > 1:
        head += reserved
    return head + data + struct.pack("<Q", len(text)) + text + tail


def npu(**changes: Any) -> bytes:
    data = flat(npu_model(**changes))
    return container(6, data + bytes(-len(data) % 64), wrapper())


def dynamic() -> bytes:
    return npu(s2=[graph(16), graph(8)], s16="dynamic_shape")


def mini_model() -> dict[int, Any]:
    whole = graph()
    tensors = [
        DUMMY,
        {**tensor("x", (1, 3, 8, 8), kind=1), 6: floats(0.5), 7: ints(3), 8: i32(192)},
        {**tensor("w", (4, 3, 3, 3), kind=4), 8: i32(576)},
        {**tensor("c", (1, 4, 4, 4)), 6: floats(0.25), 7: ints(-128), 8: i32(256)},
        {**tensor("y", (1, 4, 4, 4), kind=2), 6: floats(0.125), 7: ints(0), 8: i32(256)},
        {0: i8(13), 2: i8(9), 4: ints(), 5: "regcmd"},
    ]
    for entry in tensors:
        entry.pop(12, None)
    return {
        0: i32(6),
        1: "RKNPU t3",
        2: [{**whole, 0: tensors}],
        3: repr(FACTS),
        5: VERSIONS,
        6: "rv1106",
        7: "ONNX",
        8: "small",
    }


def mini_data(model: Mapping[int, Any] | None = None, sizes: Sequence[int] = (7, 20, 5, 0)):
    body = flat(mini_model() if model is None else model)
    first, second, third, fourth = sizes
    head = struct.pack("<7I", len(body), first, 2, second, 4096, third, fourth)
    return head + bytes(36) + bytes(sum(sizes)) + body


def mini() -> bytes:
    return container(0x1004, mini_data(), wrapper("rv1106"))


def nbg(major: int = 4, layers: Sequence[str] = ("CONV", "POOL", "FC"), name: str = "net") -> bytes:
    skipped = 32 if major <= 1 else 288 if major <= 3 else 296
    head = b"VPMN" + struct.pack("<HH4s64sI", major, 7, b"", name.encode(), len(layers))
    more = (1, 2) if major > 3 else (1,)
    entries = b"".join(
        struct.pack(f"<64sI{len(more)}I", layer.encode(), i + 5, *more)
        for i, layer in enumerate(layers)
    )
    start = len(head) + skipped + 24
    return head + bytes(skipped) + struct.pack("<6I", 0, 0, 0, 0, start, len(entries)) + entries


def first_generation() -> dict[str, Any]:
    """A layer list of generation 1: CONV2D with a weight, then RELU; linked node to node."""
    affine = {
        "vx_type": "VSI_NN_TYPE_UINT8",
        "qnt_type": "VSI_NN_QNT_TYPE_AFFINE_ASYMMETRIC",
        "scale": 0.5,
        "zero_point": 128,
    }
    fixed = {
        "vx_type": "VSI_NN_TYPE_INT8",
        "qnt_type": "VSI_NN_QNT_TYPE_DFP",
        "fl": 5,
    }
    return {
        "network_platform": "caffe",
        "ori_network_platform": "tensorflow",
        "name": "net",
        "version": "1.7.1",
        "ovxlib_version": "1.1.30",
        "target_platform": ["rk1808", "rk3399pro"],
        "mean_value": [104.0, 117.0, 123.0],
        "mean_value_chns": [3],
        "std_value": [58.0, 57.0, 56.0],
        "reorder": [2, 1, 0],
        "nodes": [
            {
                "lid": "conv_1",
                "name": "conv",
                "op": "VSI_NN_OP_CONV2D",
                "nn": {"conv2d": {"ksize": [3, 3], "pad": [1, 1, 1, 1]}},
            },
            {"lid": "relu_2", "name": "relu", "op": "VSI_NN_OP_RELU", "nn": {}},
        ],
        "norm_tensor": [
            {"tensor_id": 0, "size": [8, 6, 3, 1], "dim_num": 4, "dtype": affine},
            {"tensor_id": 1, "size": [8, 6, 4, 1], "dim_num": 4, "dtype": fixed},
        ],
        "const_tensor": [
            {"tensor_id": 0, "size": [3, 3, 3, 4], "dtype": affine, "offset": 0},
        ],
        "virtual_tensor": [{"tensor_id": 0, "node_id": 0, "output_port": 0}],
        "connection": [
            _link(0, "input", 0, "norm_tensor", 0),
            _link(0, "input", 1, "const_tensor", 0),
            {
                "node_id": 1,
                "left": "input",
                "left_tensor_id": 0,
                "right_node": {"node_id": 0, "tensor_id": 0},
            },
            _link(1, "output", 0, "norm_tensor", 1),
        ],
        "graph": [dict(end) for end in reversed(_ENDS)],
    }


def precompiled(major: int = 4, version: int = 2) -> bytes:
    """Generation 1 with a precompiled graph inside."""
    listed = first_generation()
    listed["nodes"] = [{"name": "nbg", "op": "VSI_NN_OP_NBG", "nn": {"nbg": {"type": "x"}}}]
    listed["connection"] = _LINKS
    return container(version, nbg(major), listed)


def layers(listed: Mapping[str, Any] | bytes | None = None, tail: bytes = b"") -> bytes:
    """A model of generation 1 without a compiled graph."""
    return container(2, b"", first_generation() if listed is None else listed, tail)


def custom_tail(**changes: Any) -> bytes:
    operator: dict[str, Any] = {
        "name": "MyOp",
        "inputs": {"a": {"type": "VX_TYPE_TENSOR"}},
        "outputs": {"b": {"type": "VX_TYPE_TENSOR"}},
        "params": {"n": {"type": "VX_TYPE_ARRAY"}},
        "kernel_index": 0,
        "vx_kernel_bin_offset": 0,
        "vx_kernel_bin_len": 30,
        "op_lib_x86_offset": 30,
        "op_lib_x86_len": 10,
    }
    text = json.dumps([operator | changes]).encode()
    return sections(text, bytes(40))


def sections(*parts: bytes) -> bytes:
    return b"".join(struct.pack("<Q", len(part)) + part for part in parts)


DESCRIPTION = b"""name: MyOp
op_version: 2
target_platform: rk1808
framework: tensorflow
inputs:
  a: {type: VX_TYPE_TENSOR}
outputs:
  b: {type: VX_TYPE_TENSOR}
params:
  n: {type: VX_TYPE_ARRAY}
"""


def package(description: bytes = DESCRIPTION, version: int = 2) -> bytes:
    code = (b"SHDR" + bytes(60), b"\x7fELF" + bytes(50), b"\x7fELF" + bytes(40), b"\x7fELF")
    return b"RKNN" + struct.pack("<IQ", 0, version) + sections(*code, description, b"import os\n")


def encrypted(level: int = 2, size: int = 1000) -> bytes:
    payload = bytes((i * 151 + 7) % 256 for i in range(size + 288 - 32))
    return b"CYPTRKNN" + struct.pack("<QQQ", 1, level, size) + payload


def rknx(*, sub: bool = True) -> bytes:
    header = flat(
        {0: i32(1), 1: "a net", 2: "3.0c", 3: "3.0.0", 5: {0: "RK1820"}},
        b"\0\0\0\0",
    )
    data = b"RKNX" + bytes(0x4C) + header
    if not sub:
        return data
    tensors = [
        {4: ints(1, 3, 8, 8), 6: "in", 8: "float16", 13: i32(384)},
        {4: ints(1, 10), 6: "out", 8: "float16", 13: i32(20)},
    ]
    tasks = [{0: i32(1), 1: i32(2)}, {0: i32(3)}]
    subgraph = {1: "main", 2: tensors, 3: ints(0), 4: ints(1), 5: tasks}
    data += b"x" * (-len(data) % 8) + b"RKNX_SUB" + bytes(0x50)
    return data + flat({1: i32(1), 2: [subgraph]}, b"\0\0\0\0")


KINDS = {
    "npu": npu,
    "npu-dynamic": dynamic,
    "npu-mini": mini,
    "npu-bare": lambda: flat(npu_model(s7="1.4.0")),
    "layers": lambda: layers(tail=custom_tail()),
    "layers-nbg": precompiled,
    "layers-bare": lambda: json.dumps(first_generation()).encode(),
    "nbg": nbg,
    "rknx": rknx,
    "encrypted": encrypted,
    "op-package": package,
}
"""Kind -> a valid file of it."""
