"""Which operators of TorchScript are taken, and why others are not.

The list (``allowed.toml``) is one of what is allowed, not of what is forbidden: PyTorch runs the
model to compare numbers, and a part of it while it loads (``__setstate__``), and PyTorch has
operators that read and write files (``aten::save``, ``aten::from_file``), call other machines and
run Python. What stands there computes numbers, or is bookkeeping of sizes, lists and texts; much of
it has no form in ONNX.
"""

from __future__ import annotations

from engine.frontends.facts import facts, words

__all__ = [
    "BUILTINS",
    "GRAPH_NODES",
    "MEMBERS",
    "NATIVE_CLASSES",
    "REFUSED_KEYWORDS",
    "TAKEN",
    "UNTAKEN",
    "refusal_of",
]

_LISTS = {name: words(text) for name, text in facts(__package__, "allowed.toml").items()}

TAKEN = {
    "aten": _LISTS["aten"],
    "prim": _LISTS["prim"],
    "quantized": _LISTS["quantized"],
    "_quantized": _LISTS["quantized"],
}
"""Namespace -> operators of it that a file's code may name."""

MEMBERS = _LISTS["aten"] | _LISTS["prim"] | _LISTS["of_objects"]
"""What may follow a dot after a value that is no object of the file's own classes."""

BUILTINS = _LISTS["builtins"]
"""Names that a file's code may use besides its own: types, and what TorchScript resolves itself."""

NATIVE_CLASSES = _LISTS["native_classes"]
"""Classes of PyTorch's native code (``torch.classes``) that a file may hold objects of."""

GRAPH_NODES = _LISTS["graph_nodes"]
"""Nodes of namespace ``prim`` that a compiled graph has besides the operators of its code."""

UNTAKEN = _LISTS["untaken"]
"""Operators and arguments by name that may stand in a branch that nothing takes."""

REFUSED_KEYWORDS = _LISTS["refused_keywords"]
"""Arguments by name that no call may have: PyTorch does not judge all of what they say."""

_FOREIGN_SPACES = {
    "torchvision": "it belongs to torchvision, whose operators have no ONNX form here: end the "
    "traced module before it",
    "prepacked": "it is made by optimize_for_mobile: save the model before that step",
    "xnnpack": "it is made by optimize_for_mobile: save the model before that step",
    "metal_prepack": "it is made for Apple's GPU: save the model before that step",
    "vulkan_prepack": "it is made for Vulkan: save the model before that step",
    "tensorrt": "it holds an engine of TensorRT: save the model before that step",
}
_OWN_SPACES = (*TAKEN, "prims", "profiler", "mkldnn", "onednn", "c10d", "sparse", "mkl", "inductor")


def refusal_of(op: str, *, graph: bool = False) -> str:
    """Why an operator is refused; empty where it is taken.

    Args:
        op: ``aten::conv2d``.
        graph: whether it is a node of a compiled graph, which has more kinds than code.
    """
    space, _, name = op.partition("::")
    if name in TAKEN.get(space, ()) or (space == "prim" and name in GRAPH_NODES and graph):
        return ""
    if space in _FOREIGN_SPACES:
        return _FOREIGN_SPACES[space]
    if space in _OWN_SPACES:
        return (
            "it is not on the list of operators that only compute; others may read or write files"
        )
    return f"its library {space!r} is not part of PyTorch: end the traced module before it"
