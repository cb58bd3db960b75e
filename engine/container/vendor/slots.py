"""Numbers of the vendor's FlatBuffer: which slot is what, and what its codes mean.

Sources: the public reader of Netron (MIT, source/rknn.js, tools/rknn.fbs) and black-box comparison
of files with what went into them; docs/vendor-files.md says which fact has which source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

SCHEMAS = frozenset({1, 6})
"""Slot 0 of a model: the versions that the slots here were established for. Version 1 is of
toolkits 1.3 and 1.4, and ends before the sizes in memory."""


@dataclass(frozen=True)
class ModelSlots:
    """Slots of a model; None where a form has no such slot, or it is not established.

    ``facts`` is the table of inputs and outputs (a Python dict as text), ``versions`` those of
    toolkit and compiler, ``inputs`` and ``outputs`` JSON texts, ``shapes`` says whether shapes are
    dynamic, ``memory`` is a table of sizes; ``tensor`` are the slots of a tensor, ``unions`` says
    whether layers have tables of attributes.
    """

    facts: int | None
    versions: int
    platform: int
    framework: int
    custom_string: int | None
    inputs: int | None = None
    outputs: int | None = None
    shapes: int | None = None
    memory: int | None = None
    tensor: TensorSlots | None = None
    unions: bool = False


@dataclass(frozen=True)
class TensorSlots:
    """Slots of a tensor that differ between the forms; None where a form has no such slot."""

    scale: int
    zero_point: int
    bytes: int
    method: int | None = None
    qtype: int | None = None
    minimum: int | None = None
    maximum: int | None = None


MINI_MODEL = ModelSlots(3, 5, 6, 7, 8, tensor=TensorSlots(6, 7, 8))
UNKNOWN_MODEL = ModelSlots(None, 7, 8, 9, None, inputs=12, outputs=13)
"""Of a full form with another schema version: what Netron reads of every version."""
FULL_MODEL = replace(
    UNKNOWN_MODEL,
    facts=3,
    custom_string=11,
    shapes=16,
    memory=19,
    tensor=TensorSlots(10, 11, 12, method=6, qtype=7, minimum=8, maximum=9),
    unions=True,
)

DTYPES: Mapping[int, str] = {
    0: "",
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
}

KINDS: Mapping[int, str] = {
    0: "none",
    1: "input",
    2: "output",
    3: "activation",
    4: "weight",
    5: "constant",
    6: "table",
    7: "commands",
    8: "copy",
    9: "commands",
    10: "tasks",
}

LAYOUTS = frozenset({64, 65})
"""Of features and of weights in the NPU's own order."""

_CONV = {
    "auto_pad": "text",
    "dilations": "ints",
    "group": "int",
    "kernel_shape": "ints",
    "pads": "ints",
    "strides": "ints",
}

UNIONS: Mapping[int, tuple[tuple[str, str] | None, ...]] = {
    1: tuple(_CONV.items()),
    2: (
        ("auto_pad", "text"),
        ("dilations", "ints"),
        ("group", "int"),
        ("kernel_shape", "ints"),
        ("output_padding", "ints"),
        ("output_shape", "ints"),
        ("pads", "ints"),
        ("strides", "ints"),
    ),
    3: (
        ("auto_pad", "text"),
        ("ceil_mode", "int"),
        ("dilations", "ints"),
        ("kernel_shape", "ints"),
        ("pads", "ints"),
        ("storage_order", "int"),
        ("strides", "ints"),
    ),
    5: (
        ("auto_pad", "text"),
        ("ceil_mode", "int"),
        ("count_include_pad", "int"),
        ("kernel_shape", "ints"),
        ("pads", "ints"),
        ("strides", "ints"),
    ),
    9: (("alpha", "real"),),
    19: (("axis", "int"),),
    25: (("perm", "ints"),),
    26: (
        ("coordinate_transformation_mode", "text"),
        ("cubic_coeff_a", "real"),
        ("exclude_outside", "int"),
        ("extrapolation_value", "real"),
        ("mode", "text"),
        ("nearest_mode", "text"),
    ),
    31: (("alpha", "real"), ("beta", "real"), ("bias", "real"), ("size", "int")),
    51: (("axis", "int"),),
    61: (("axis", "int"),),
    87: (None, ("epsilon", "real"), ("axes", "ints")),
}
"""Tag of a node's union -> (name, type) of its slots; None for a slot that is not established."""
