"""What ``forward`` of a TorchScript module takes and gives, as single tensors.

Imported in the child process only: it needs torch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.text import sanitize

__all__ = ["Flattened", "Signature", "leaves"]


@dataclass(frozen=True)
class _Argument:
    """One argument of ``forward``: how many tensors it holds, and how it is written from them."""

    name: str
    kind: str
    parts: tuple[_Argument, ...] = ()
    optional: bool = False

    @property
    def tensors(self) -> int:
        """How many tensors it takes; a list takes the rest."""
        return 1 if self.kind == "tensor" else sum(part.tensors for part in self.parts)


@dataclass(frozen=True)
class Signature:
    """The arguments of ``forward``, in order."""

    arguments: tuple[_Argument, ...]

    @classmethod
    def of(cls, module: Any) -> Signature:
        """Read it from a loaded module.

        Raises:
            SourceModelError: there is no ``forward``.
            UnsupportedOperatorError: an argument that is neither a tensor nor made of tensors has
                no default.
        """
        try:
            schema = module.forward.schema
        except (AttributeError, RuntimeError) as error:
            raise SourceModelError(
                "The model has no method 'forward'.",
                cause="It was saved as a holder of parameters or of other methods.",
                remedy="Script or trace the network itself, and save that.",
            ) from error
        found = []
        for argument in schema.arguments[1:]:
            taken = _argument(argument.name, argument.type, optional=argument.has_default_value())
            if taken is None and not argument.has_default_value():
                raise UnsupportedOperatorError(
                    f"forward takes {sanitize(argument.name)!r} of type "
                    f"{sanitize(str(argument.type), 100)}, which is not a tensor.",
                    cause="A graph has only tensors as inputs.",
                    remedy="Wrap the network in a module whose forward takes tensors only, and "
                    "trace that.",
                )
            if taken is None:
                break  # what follows a number with a default keeps its default too
            found.append(taken)
        return cls(tuple(found))

    @property
    def fewest(self) -> int:
        """How many tensors ``forward`` needs at least."""
        return sum(a.tensors for a in self.arguments if not a.optional and a.kind != "list")

    @property
    def most(self) -> int | None:
        """How many it takes at most; None where a list takes any number."""
        if any(a.kind == "list" for a in self.arguments):
            return None
        return sum(a.tensors for a in self.arguments)

    @property
    def plain(self) -> bool:
        """Whether every argument is one tensor."""
        return all(argument.kind == "tensor" for argument in self.arguments)

    def names(self, count: int) -> list[str]:
        """Names of the first ``count`` tensors; inside tuples and lists they are numbered."""
        found: list[str] = []
        for argument in self.arguments:
            found += _names(argument, count - len(found))
        return found[:count]

    def pack(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of ``forward`` made of single tensors."""
        rest = list(tensors)
        packed = []
        for argument in self.arguments:
            if not rest:
                break
            packed.append(_pack(argument, rest))
        return tuple(packed)


def _argument(name: str, kind: Any, *, optional: bool = False) -> _Argument | None:
    what = kind.kind()
    if what == "TensorType":
        return _Argument(name, "tensor", optional=optional)
    if what == "OptionalType":
        return _argument(name, kind.getElementType(), optional=True)
    if what == "TupleType":
        parts = [_argument(f"{name}_{i}", part) for i, part in enumerate(kind.elements())]
        known = tuple(part for part in parts if part is not None)
        return _Argument(name, "tuple", known, optional) if len(known) == len(parts) else None
    if what == "ListType" and kind.getElementType().kind() == "TensorType":
        return _Argument(name, "list", optional=optional)
    return None


def _names(argument: _Argument, room: int) -> list[str]:
    if argument.kind == "tensor":
        return [argument.name]
    if argument.kind == "list":
        return [f"{argument.name}_{i}" for i in range(room)]
    return [name for part in argument.parts for name in _names(part, room)]


def _pack(argument: _Argument, rest: list[Any]) -> Any:
    if argument.kind == "tensor":
        return rest.pop(0)
    if argument.kind == "list":
        taken = list(rest)
        rest.clear()
        return taken
    return tuple(_pack(part, rest) for part in argument.parts)


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """The tensors of a result in order, each with where it is (``["out"][0]``); others are left."""
    if isinstance(value, torch.Tensor):
        return [(path, value)]
    if isinstance(value, dict):
        pairs = [(f"[{json.dumps(key)}]", part) for key, part in value.items()]
    elif isinstance(value, list | tuple):
        pairs = [(f"[{index}]", part) for index, part in enumerate(value)]
    else:
        pairs = []
    return [leaf for key, part in pairs for leaf in leaves(part, path + key)]


class Flattened(torch.jit.ScriptModule):
    """A script module around another one, whose ``forward`` takes and gives single tensors.

    Exporters take neither dictionaries nor lists; control flow of the module inside stays.

    Args:
        module: the script module.
        signature: of its ``forward``.
        names: of the tensors that it is given.
        paths: where the tensors of its result are, as :func:`leaves` tells.
    """

    def __init__(
        self, module: Any, signature: Signature, names: Sequence[str], paths: Sequence[str]
    ) -> None:
        super().__init__()
        self.model = module
        taken = [f"a{index}" for index in range(len(names))]
        called = ", ".join(_text(part) for part in signature.pack(taken))
        given = ", ".join(f"result{path}" for path in paths)
        self.define(
            f"def forward(self, {', '.join(f'{name}: Tensor' for name in taken)}):\n"
            f"    result = self.model({called})\n"
            f"    return {given}\n"
        )
        self.eval()


def _text(part: Any) -> str:
    if isinstance(part, tuple):
        return "(" + "".join(f"{_text(p)}, " for p in part) + ")"
    if isinstance(part, list):
        return "[" + ", ".join(_text(p) for p in part) + "]"
    return str(part)
