"""Small ONNX files that ask for much: gigabytes, billions of operators, what no kernel survives."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import TensorProto, helper
from onnx.helper import make_node as node

__all__ = [
    "LARGE",
    "divided",
    "doubled_constants",
    "doubled_functions",
    "doubled_sizes",
    "many_outputs",
]

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
DOMAIN = "functions"
IMPORTS = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]


def model(
    nodes: Sequence[onnx.NodeProto],
    constants: Sequence[onnx.TensorProto] = (),
    *,
    shape: Sequence[int] = (1, 3),
    result: int = FLOAT,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model from ``x`` to ``y``, whose size is left open."""
    inputs = [helper.make_tensor_value_info("x", FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", result, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(constants))
    imports = IMPORTS if functions else IMPORTS[:1]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)


def whole(name: str, *values: int) -> onnx.TensorProto:
    return helper.make_tensor(name, INT64, [len(values)], values)


def function(name: str, *called: str) -> onnx.FunctionProto:
    """A function from ``x`` to ``y`` that calls others, one after the other; a Relu without any."""
    steps = ["x", *(f"t{n}" for n in range(len(called) - 1)), "y"]
    nodes = [
        node(callee, [steps[n]], [steps[n + 1]], domain=DOMAIN) for n, callee in enumerate(called)
    ]
    nodes = nodes or [node("Relu", ["x"], ["y"])]
    return helper.make_function(DOMAIN, name, ["x"], ["y"], nodes, IMPORTS)


def doubled_functions(depth: int) -> onnx.ModelProto:
    """Each function calls the next one twice."""
    functions = [function(f"f{n}", f"f{n + 1}", f"f{n + 1}") for n in range(depth)]
    functions.append(function(f"f{depth}"))
    return model([node("f0", ["x"], ["y"], domain=DOMAIN)], functions=functions)


def doubled(first: str, depth: int) -> list[onnx.NodeProto]:
    """Concat of a tensor with itself, again and again, and the sum of the last as ``total``."""
    names = [first, *(f"c{n}" for n in range(1, depth + 1))]
    chain = [
        node("Concat", [names[n], names[n]], [names[n + 1]], axis=0, name=f"concat{n}")
        for n in range(depth)
    ]
    return [*chain, node("ReduceSum", [names[-1]], ["total"], keepdims=0)]


def doubled_sizes(depth: int = 30) -> onnx.ModelProto:
    """A shape that is doubled, which inference with data propagation carries along."""
    nodes = [node("Shape", ["x"], ["s"]), *doubled("s", depth)]
    return model([*nodes, node("Identity", ["total"], ["y"])], result=INT64)


def doubled_constants(depth: int = 30) -> onnx.ModelProto:
    """A constant that is doubled, which folding would compute."""
    nodes = [*doubled("one", depth), node("Add", ["x", "total"], ["y"])]
    return model(nodes, [helper.make_tensor("one", FLOAT, [1], [1.0])])


def made(maker: onnx.NodeProto, *constants: onnx.TensorProto) -> onnx.ModelProto:
    """The mean of what ``maker`` makes as ``t``, added to the input."""
    nodes = [maker, node("ReduceMean", ["t"], ["m"], keepdims=0), node("Add", ["x", "m"], ["y"])]
    return model(nodes, constants)


def divided(op: str, kind: int, dividend: int, divisor: int) -> onnx.ModelProto:
    """A division of two constants."""
    nodes = [
        node(op, ["a", "b"], ["q"], name="division"),
        node("Cast", ["q"], ["f"], to=FLOAT),
        node("Add", ["x", "f"], ["y"]),
    ]
    constants = [
        helper.make_tensor(name, kind, [1], [n]) for name, n in (("a", dividend), ("b", divisor))
    ]
    return model(nodes, constants)


def pooled(op: str) -> onnx.ModelProto:
    """A window of which nearly all lies in the padding."""
    sizes = {"kernel_shape": [1 << 30, 1], "pads": [1 << 29, 0, (1 << 29) - 1, 0]}
    return model([node(op, ["x"], ["y"], name="pool", **sizes)], shape=(1, 1, 8, 8))


def many_outputs(count: int) -> onnx.ModelProto:
    """So many sums that are all outputs."""
    proto = model(
        [node("Add", ["x", "one"], [f"y{n}"]) for n in range(count)],
        [helper.make_tensor("one", FLOAT, [1], [1.0])],
    )
    del proto.graph.output[:]
    for n in range(count):
        proto.graph.output.add().CopyFrom(helper.make_tensor_value_info(f"y{n}", FLOAT, [1, 3]))
    return proto


LARGE: dict[str, tuple[onnx.ModelProto, str]] = {
    "functions": (doubled_functions(25), "33,554,432 operators"),
    "circle": (
        model(
            [node("f0", ["x"], ["y"], domain=DOMAIN)],
            functions=[function("f0", "f1"), function("f1", "f0")],
        ),
        "calls itself",
    ),
    "sizes": (doubled_sizes(), "512.00 MiB"),
    "constants": (doubled_constants(), "512.00 MiB"),
    "random": (made(node("RandomNormal", [], ["t"], shape=[10**9])), "3.73 GiB"),
    "filled": (made(node("ConstantOfShape", ["n"], ["t"]), whole("n", 2 * 10**9)), "7.45 GiB"),
    "expanded": (
        model([node("Expand", ["x", "n"], ["y"])], [whole("n", 7 * 10**8, 3)]),
        "7.82 GiB",
    ),
    "tiled": (model([node("Tile", ["x", "n"], ["y"])], [whole("n", 10**9, 3)]), "33.53 GiB"),
    "kept": (
        model(
            [
                *(node("Expand", ["x", "n"], [f"e{n}"]) for n in range(12)),
                node("Sum", [f"e{n}" for n in range(12)], ["y"]),
            ],
            [whole("n", 10**8, 3)],
        ),
        "of tensors at once",
    ),
    "maximum": (pooled("MaxPool"), "1,073,741,824 elements for each of"),
    "average": (pooled("AveragePool"), "1,073,741,824 elements for each of"),
}
"""Name -> (model, words of its refusal)."""
