"""Control flow, sequences and optionals resolved into plain operators.

An NPU runs one fixed list of operators on tensors of fixed sizes. What decides between branches,
counts iterations or gathers tensors in lists is settled here, when every input has its size:

* ``If`` with a condition that folding decides is its branch; a condition on data computes both
  branches, whose results must have one type and shape, and ``Where`` selects.
* ``Loop`` and ``Scan`` are unrolled. A ``Loop`` whose condition depends on data runs as often as
  its constant bound allows, and ``Where`` keeps what the last iteration that counts gave.
* Sequences, optionals and the tensor lists that tf2onnx leaves are resolved by name.

Whatever cannot be settled is refused with the node named; no branch is run speculatively that
could fail, because then the unrolled graph would fail where the model does not.
"""

# these two register what resolves each operator
from engine.frontends.onnx.control import flow, lists  # noqa: F401
from engine.frontends.onnx.control.expander import MAX_STEPS, expand, is_structural

__all__ = ["MAX_STEPS", "expand", "is_structural"]
