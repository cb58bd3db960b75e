"""Names: every node and value has one, and no two nodes or values share theirs."""

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
