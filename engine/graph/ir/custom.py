"""Operators that are not ONNX's own: what is known of each, and what runs them.

A custom operator is known by its name alone, as with the vendor: the domain of a node says only
that it is not ONNX's. A name of ONNX's own is refused, so that no pass takes one for the other.
The classes of a graph are attached to its model in memory and never serialised: a container or a
cached graph holds no code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import onnx
import onnx_ir as ir

from engine.base.errors import UsageError
from engine.base.text import sanitize
from engine.graph.ir.naming import STANDARD_DOMAINS

CUSTOM_DOMAIN = "rknn_cst"
"""Domain of custom operators whose nodes name none, as the vendor's own examples have it."""

_META = "rknntui.custom_operators"
_SIGNATURES = {
    "shape_infer": ("node", "in_shapes", "in_dtypes"),
    "compute": ("node", "inputs"),
}


class _Node(Protocol):
    """A node of ``onnx`` or of ``onnx_ir``."""

    @property
    def domain(self) -> str: ...


@dataclass(frozen=True)
class CustomOperator:
    """An operator that somebody else defined.

    Attributes:
        op_type: its name in the graph, in whatever domain.
        shape_infer: ``(node, in_shapes, in_dtypes) -> (out_shapes, out_dtypes)`` as the vendor's
            ``reg_custom_op`` has it; None where only its name is known.
        compute: ``(node, inputs) -> outputs`` on arrays; None for an opaque operator, which is
            shown and kept but does not run.
        origin: where it comes from, for messages: a class, ``FILE.py:Name``, or an ``.rknnop``.
    """

    op_type: str
    shape_infer: Callable[[Any, list[list[int]], list[Any]], tuple[Any, Any]] | None
    compute: Callable[[Any, list[Any]], Sequence[Any]] | None
    origin: str


class CustomOperators(Mapping[str, CustomOperator]):
    """The operators that are registered, by ``op_type``; frozen.

    Raises:
        UsageError: two have the same name.
    """

    def __init__(self, operators: Iterable[CustomOperator] = ()) -> None:
        self._operators: dict[str, CustomOperator] = {}
        for operator in operators:
            first = self._operators.setdefault(operator.op_type, operator)
            if first is not operator:
                raise UsageError(
                    f"Two custom operators are named {sanitize(operator.op_type)}: "
                    f"{first.origin} and {operator.origin}.",
                    remedy="Leave one of them out, or give it another op_type.",
                )

    def __getitem__(self, op_type: str) -> CustomOperator:
        return self._operators[op_type]

    def __iter__(self) -> Iterator[str]:
        return iter(self._operators)

    def __len__(self) -> int:
        return len(self._operators)

    def __repr__(self) -> str:
        return f"CustomOperators({', '.join(sorted(self._operators))})"

    def replaced(self, operator: CustomOperator) -> CustomOperators:
        """These operators with another one, in the place of any of its name."""
        kept = [known for known in self.values() if known.op_type != operator.op_type]
        return CustomOperators([*kept, operator])


def custom_names(name: str) -> bool:
    """Whether an operator may be called so: a name that is not ONNX's in any version."""
    return bool(name) and not onnx.defs.has(name)


def from_class(given: Any, origin: str = "") -> CustomOperator:
    """The operator that a user's class defines, as the vendor's ``reg_custom_op`` takes it.

    Args:
        given: a class with ``op_type``, ``shape_infer(self, node, in_shapes, in_dtypes)`` and
            ``compute(self, node, inputs)``, or an object of it (the vendor's manual gives the
            class, its examples an object). A class is made an object of without arguments, once.
        origin: for messages; by default the name of the class.

    Raises:
        UsageError: something else, a member is missing or takes other arguments, or ``op_type`` is
            a name of ONNX's.
    """
    cls = given if inspect.isclass(given) else type(given)
    if cls.__module__ == "builtins" or inspect.isroutine(given) or inspect.ismodule(given):
        raise UsageError(
            f"A custom operator is a class; {sanitize(repr(given), 80)} was given.",
            remedy="Write a class with op_type, shape_infer and compute, and give the class.",
        )
    name = origin or f"class {sanitize(cls.__qualname__, 120)}"
    op_type = getattr(given, "op_type", None)
    if not isinstance(op_type, str) or not op_type:
        raise UsageError(
            f"{name} has no op_type.",
            cause="It must be the operator's name in the model, as text.",
            remedy="Write op_type = 'cstName' in the class.",
        )
    for method, arguments in _SIGNATURES.items():
        _check_method(cls, method, arguments, name)
    if not custom_names(op_type):
        raise UsageError(
            f"{name} has the op_type {sanitize(op_type)}, which is an operator of ONNX.",
            cause="Its meaning is ONNX's; a model could mean either.",
            remedy="Give operator and nodes a name of their own; the vendor recommends one that "
            f"begins with cst, as cst{sanitize(op_type)}.",
        )
    instance = _made(given, name)
    return CustomOperator(op_type, instance.shape_infer, instance.compute, name)


def _check_method(cls: type, method: str, arguments: Sequence[str], name: str) -> None:
    signature = f"{method}(self, {', '.join(arguments)})"
    attribute = inspect.getattr_static(cls, method, None)
    bound = isinstance(attribute, staticmethod | classmethod)
    function = getattr(cls, method, None)
    if not callable(function):
        raise UsageError(
            f"{name} has no method {method}.", remedy=f"Write def {signature} in the class."
        )
    try:
        inspect.signature(function).bind(*([None] * (len(arguments) + (not bound))))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{name}: {method} does not take the arguments that it is called with.",
            cause=f"It is called as {signature}.",
            remedy=f"Write def {signature} in the class.",
        ) from error


def _made(cls: Any, name: str) -> Any:
    if not inspect.isclass(cls):
        return cls
    try:
        return cls()
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"No object of {name} could be made: {type(error).__name__}: "
            f"{sanitize(str(error), 200)}",
            cause="The class is called without arguments.",
            remedy="Give its __init__ defaults, or register an object of the class.",
        ) from error


def is_custom(node: _Node) -> bool:
    """Whether a node's operator is none of ONNX's own."""
    return node.domain not in STANDARD_DOMAINS


def assign_custom_domain(proto: onnx.ModelProto, operators: CustomOperators | None) -> None:
    """Give nodes of registered operators that have no domain one, in place; for front ends.

    Tools that rename an operator of a model (Sigmoid to cstSigmoid) leave its domain at ONNX's.
    Every domain that a node then has gets an import where the model lacks it.
    """
    imports = {entry.domain for entry in proto.opset_import}
    for node in proto.graph.node:
        if node.domain in STANDARD_DOMAINS and operators and node.op_type in operators:
            node.domain = CUSTOM_DOMAIN
        if is_custom(node) and node.domain not in imports:
            imports.add(node.domain)
            proto.opset_import.add(domain=node.domain, version=1)


def bind_ops(model: ir.Model, operators: CustomOperators | None) -> None:
    """Let a model in memory know its operators."""
    if operators:
        model.meta[_META] = operators


def custom_ops_in(model: ir.Model) -> CustomOperators:
    """The operators that a model knows; none for one that was read from a file."""
    operators: CustomOperators | None = model.meta.get(_META)
    return operators if operators is not None else CustomOperators()
