"""Names and pinned versions of every graph: each node and value has a name of its own."""

from __future__ import annotations

import onnx_ir as ir


class UniqueNames:
    """Hands out names that are not taken; the same questions always get the same answers."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._next: dict[str, int] = {}

    def claim(self, hint: str) -> str:
        """``hint``, or ``hint_1``, ``hint_2``... when it is taken; the answer is taken then."""
        name = hint
        # the counter per wish keeps many equal wishes linear
        count = self._next.get(hint, 0)
        while name in self._taken:
            count += 1
            name = f"{hint}_{count}"
        self._next[hint] = count
        self._taken.add(name)
        return name


def name_everything(graph: ir.Graph) -> bool:
    """Give every node a unique non-empty name and every nameless value one; in place.

    Names that exist and are unique stay. Values' names are unique already where the graph comes
    from protobuf (they are the edges); optional outputs that are left out stay nameless.

    Returns:
        Whether a name was given.
    """
    modified = False
    node_names: set[str] = set()
    duplicates: list[ir.Node] = []
    values: set[str] = {v.name for v in graph.inputs if v.name} | set(graph.initializers)
    nameless: list[tuple[ir.Node, ir.Value]] = []
    for node in graph:
        if not node.name or node.name in node_names:
            duplicates.append(node)
        else:
            node_names.add(node.name)
        for value in node.outputs:
            if value.name:
                values.add(value.name)
            elif value.uses() or value.is_graph_output():
                nameless.append((node, value))
    names = UniqueNames(node_names)
    for node in duplicates:
        node.name = names.claim(node.name or node.op_type)
        modified = True
    value_names = UniqueNames(values)
    for node, value in nameless:
        value.name = value_names.claim(f"{node.name}_output")
        modified = True
    return modified


# The versions that every graph is pinned to, and the names of what the engine adds to nodes.

# ONNX Runtime 1.31 loads at most IR 13 and opset 26, while onnx 1.23 writes IR 14 and opset 28 by
# default; QuantizeLinear of 16 and 4 bits needs opset 21, which belongs to IR 10.
OPSET = 21
IR_VERSION = 10

# protobuf refuses messages of 2 GiB and more; larger models keep their weights in external files.
MAX_PROTO_BYTES = (1 << 31) - 1

# Both names stand for ONNX's own operators.
STANDARD_DOMAINS = frozenset({"", "ai.onnx"})

# Key in a node's ``metadata_props``: names of the source nodes it came from, a line each.
ORIGIN = "origin"

# Key in a node's ``metadata_props``: the epsilon of a BatchNormalization that its weights took in.
NORMALIZED = "batch_normalization"
