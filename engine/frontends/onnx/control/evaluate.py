"""Single nodes on constants, computed by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from engine.graph.execute.runtime import RUNTIME_ERRORS, plain_session, refuse_shortage
from engine.graph.ir.folding import DIVISIONS, is_safe_division
from engine.graph.ir.naming import IR_VERSION, OPSET

# a millisecond and a hundred kilobytes each; models that fold sizes need some dozens
_MAX_SESSIONS = 500


class Evaluator:
    """Computes nodes whose inputs are constants.

    An unrolled loop asks the same few operators again and again, so sessions are kept: by
    operator, attributes and types of inputs; their shapes are left open.

    Args:
        opset: the model's. Above the pinned one nodes are computed as of the pinned one: what they
            have that it lacks is an attribute or a type, which ONNX Runtime then does not take.
    """

    def __init__(self, opset: int) -> None:
        self._opset = min(opset, OPSET)
        self._sessions: dict[bytes, Any] = {}

    def compute(
        self, node: onnx.NodeProto, arrays: Sequence[np.ndarray | None]
    ) -> list[np.ndarray] | None:
        """The node's outputs, or None where ONNX Runtime does not give them.

        Args:
            node: of ONNX's domain, without subgraphs.
            arrays: one per input; None for an input that is left out.
        """
        divisor = arrays[1] if node.op_type in DIVISIONS and len(arrays) > 1 else None
        if divisor is not None and not is_safe_division(arrays[0], divisor):
            return None
        session = self._session(node, arrays)
        if session is None:
            return None
        feeds = {f"i{n}": array for n, array in enumerate(arrays) if array is not None}
        try:
            return [np.asarray(array) for array in session.run(None, feeds)]
        except RUNTIME_ERRORS as error:
            refuse_shortage(error)
            return None

    def _session(self, node: onnx.NodeProto, arrays: Sequence[np.ndarray | None]) -> Any:
        bare = onnx.NodeProto(op_type=node.op_type, attribute=node.attribute)
        bare.input.extend("" if array is None else f"i{n}" for n, array in enumerate(arrays))
        bare.output.extend(f"o{n}" if name else "" for n, name in enumerate(node.output))
        types = [None if array is None else array.dtype.str for array in arrays]
        key = bare.SerializeToString(deterministic=True) + repr(types).encode()
        if key not in self._sessions:
            if len(self._sessions) >= _MAX_SESSIONS:
                return None
            self._sessions[key] = self._open(bare, arrays)
        return self._sessions[key]

    def _open(self, node: onnx.NodeProto, arrays: Sequence[np.ndarray | None]) -> Any:
        proto = onnx.ModelProto(ir_version=IR_VERSION)
        proto.opset_import.add(domain="", version=self._opset)
        proto.graph.name = "constant"
        proto.graph.node.append(node)
        for number, array in enumerate(arrays):
            if array is not None:
                element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
                value = proto.graph.input.add(name=f"i{number}")
                value.type.tensor_type.elem_type = element
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
        try:
            return plain_session(proto.SerializeToString())
        except RUNTIME_ERRORS as error:
            refuse_shortage(error)
            return None
