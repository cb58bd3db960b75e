"""Remove reshapes at the ends of the graph (``remove_reshape`` [RKNN-T2 2.3.0, 2.2])."""

from __future__ import annotations

import onnx_ir as ir

from engine.graph.passes.base import Pass
from engine.graph.passes.editor import Editor
from engine.graph.passes.match import only_reader, operators, shape

__all__ = ["RemoveIOReshapes"]

_RESHAPES = operators("Reshape Flatten Squeeze Unsqueeze")


class RemoveIOReshapes(Pass):
    """Operators that only change the shape of an input or output of the graph.

    The input takes the shape from behind the operator, the output the one from before it; names
    stay.
    """

    name = "edge-reshapes"
    level = 1
    summary = "Reshapes at inputs and outputs are removed; the inputs' and outputs' shapes change."
    keeps_bits = False  # no value changes, but shapes of the ends do: only where it is asked for

    def apply(self, edit: Editor) -> None:
        """Every end, as long as a Reshape stands there."""
        for value in list(edit.graph.inputs):
            while self._input(value, edit):
                pass
        for name in [value.name for value in edit.graph.outputs]:
            while self._output(name or "", edit):
                pass

    def _input(self, value: ir.Value, edit: Editor) -> bool:
        node = only_reader(value)
        if node is None or node.op_type not in _RESHAPES or node.inputs[0] is not value:
            readers = {use.node for use in value.uses()}
            for reader in readers if len(readers) > 1 else ():
                if reader.op_type in _RESHAPES:
                    self.near(reader, f"{value.name} is read elsewhere too")
            return False
        out = node.outputs[0]
        dims = shape(out)
        if dims is None or out.is_graph_output():
            return self.near(node, "it stands between an input and an output of the graph")
        value.shape = ir.Shape(dims)
        edit.redirect(out, value)
        edit.remove(node)
        return self.did("at an input removed")

    def _output(self, name: str, edit: Editor) -> bool:
        value = next(v for v in edit.graph.outputs if v.name == name)
        node = value.producer()
        if node is None or node.op_type not in _RESHAPES:
            return False
        source = node.inputs[0]
        if source is None or source.producer() is None or source.is_graph_output():
            return self.near(node, "what it reshapes is an end of the graph itself")
        if value.uses():
            return self.near(node, "its result is read inside the graph too")
        edit.redirect(value, source)
        edit.remove(node)
        return self.did("at an output removed")
