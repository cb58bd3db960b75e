"""The operators of a TorchScript file, in the order in which ``forward`` calls them.

``code/**.py`` holds TorchScript's own text form, which is Python's syntax: it is parsed, never run.
Calls of submodules are followed with the tree of modules that ``data.pkl`` describes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.frontends.facts import words
from engine.frontends.pytorch.branches import never_taken
from engine.frontends.pytorch.members import Unit, dotted, gather
from engine.frontends.pytorch.pickles import Made

_MAX_CALLS = 50_000
_MAX_DEPTH = 60

# Bookkeeping of sizes, types and lists that becomes no layer; operators of torch/csrc/jit/runtime
_BOOKKEEPING = words(
    "__and__ __contains__ __derive_index __getitem__ __is__ __isnot__ __not__ __or__ "
    "__range_length _unwrap_optional add_list annotate append ceil_int clear copy device dim "
    "dtype eq_int extend floordiv format get insert is_floating_point items keys len list numel "
    "pop remainder_int setdefault size tuple unchecked_cast values warn"
)


class Unparsable(ValueError):  # noqa: N818 - as Unreadable of the pickles
    """The text is no TorchScript."""


@dataclass(frozen=True)
class Argument:
    """An argument of ``forward`` as its text declares it."""

    name: str
    kind: str
    optional: bool


@dataclass(frozen=True)
class Call:
    """One operator where it is called.

    Attributes:
        op: ``aten::conv2d``, ``quantized::add``, ``prim::If``.
        module: path of the submodule that calls it; empty for the outermost.
        arguments: as they are written, short ones only.
    """

    op: str
    module: str
    arguments: tuple[str, ...]


@dataclass
class Code:
    """Everything under ``code/``.

    Attributes:
        classes: dotted name -> its methods.
        functions: dotted name -> a function outside of classes.
        units: each file.
    """

    classes: dict[str, dict[str, ast.FunctionDef]] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    units: list[Unit] = field(default_factory=list)

    def add(self, module: str, text: str) -> None:
        """Take one file; ``module`` is its dotted name (``__torch__.torch.nn``).

        Raises:
            Unparsable: the text is no TorchScript, or nested beyond measure.
        """
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise Unparsable(f"{module}: {error}") from error
        self.units.append(Unit(module, module, tree))
        for item in tree.body:
            if isinstance(item, ast.ClassDef):
                self.classes[f"{module}.{item.name}"] = {
                    part.name: part for part in item.body if isinstance(part, ast.FunctionDef)
                }
            elif isinstance(item, ast.FunctionDef):
                self.functions[f"{module}.{item.name}"] = item

    def forward(self, root: Made) -> tuple[list[Argument], str]:
        """The arguments of the outermost ``forward``, and the text of its result's type.

        Raises:
            Unparsable: there is no ``forward``.
        """
        method = self.classes.get(root.name, {}).get("forward")
        if method is None:
            raise Unparsable(f"{root.name} has no forward")
        declared = method.args.args[1:]
        plain = len(declared) - len(method.args.defaults)
        return [
            Argument(a.arg, ast.unparse(a.annotation) if a.annotation else "Tensor", i >= plain)
            for i, a in enumerate(declared)
        ], ast.unparse(method.returns) if method.returns else "Tensor"

    def calls(self, root: Made) -> tuple[list[Call], bool]:
        """Every operator below ``forward`` that may run, and whether there were too many."""
        try:
            walk = _Walk(self, never_taken(gather(self.units), self.units))
        except ValueError:  # PyTorch does not load it; the screen says why
            walk = _Walk(self)
        method = self.classes.get(root.name, {}).get("forward")
        complete = method is None or walk.run(method, root, "", 0)
        return walk.found, not complete


# what a variable holds: (submodule, its path), or the name of a function
_Held = tuple[Made, str] | str


class _Walk:
    """Follows calls from method to method; what a variable holds is known where it is a module."""

    def __init__(self, code: Code, untaken: frozenset[int] = frozenset()) -> None:
        self.code = code
        self.untaken = untaken
        self.found: list[Call] = []

    def run(self, method: ast.FunctionDef, owner: Made | None, path: str, depth: int) -> bool:
        """List what one method calls; False where there is too much of it."""
        if depth > _MAX_DEPTH:
            return False
        own = method.args.args[0].arg if method.args.args else ""
        held: dict[str, _Held] = {own: (owner, path)} if owner is not None else {}
        for node in _in_order(method.body, self.untaken):
            if len(self.found) >= _MAX_CALLS:
                return False
            if isinstance(node, ast.Assign):
                self._assign(node, held)
            elif isinstance(node, ast.If | ast.While | ast.For):
                kind = "prim::If" if isinstance(node, ast.If) else "prim::Loop"
                self.found.append(Call(kind, path, ()))
            elif isinstance(node, ast.Call) and not self._called(node, held, path, depth):
                return False
        return True

    def _assign(self, node: ast.Assign, held: dict[str, _Held]) -> None:
        target = node.targets[0]
        if isinstance(target, ast.Name):
            callee = _module_of(node.value, held) or dotted(node.value)
            if isinstance(callee, tuple) or callee in self.code.functions:
                held[target.id] = callee
            else:
                held.pop(target.id, None)

    def _called(self, node: ast.Call, held: dict[str, _Held], path: str, depth: int) -> bool:
        name = dotted(node.func)
        alias = held.get(name)
        name = alias if isinstance(alias, str) else name
        if name.startswith("torch."):
            self._operator("aten", name.removeprefix("torch."), node, path)
        elif name.startswith("ops."):
            space, _, op = name.removeprefix("ops.").partition(".")
            self._operator(space, op, node, path)
        elif name in self.code.functions:
            return self.run(self.code.functions[name], None, path, depth + 1)
        elif isinstance(node.func, ast.Attribute):
            owner = _module_of(node.func.value, held)
            methods = self.code.classes.get(owner[0].name, {}) if owner is not None else {}
            method = methods.get(node.func.attr)
            if owner is not None and method is not None:
                return self.run(method, *owner, depth + 1)
        return True

    def _operator(self, space: str, op: str, node: ast.Call, path: str) -> None:
        if space == "prim" or (space == "aten" and op in _BOOKKEEPING):
            return
        texts = tuple(_short(argument) for argument in node.args[:12])
        self.found.append(Call(f"{space}::{op}", path, texts))


_TESTS: dict[type[ast.AST], int] = {ast.If: 1, ast.While: 1, ast.For: 2}


def _in_order(body: list[Any], untaken: frozenset[int]) -> Iterator[Any]:
    """Statements and calls; inner calls come before outer ones, tests before their branches.

    Nothing is given of a branch that is never taken.
    """
    waiting: list[tuple[Any, bool]] = [(node, False) for node in reversed(body)]
    while waiting:
        node, done = waiting.pop()
        if done:
            yield node
            continue
        children = [child for child in ast.iter_child_nodes(node) if id(child) not in untaken]
        # of If and While the test, of For the variable and what it runs over
        first = _TESTS.get(type(node), len(children))
        ordered = [*((c, False) for c in children[:first]), (node, True)]
        ordered += [(c, False) for c in children[first:]]
        waiting.extend(reversed(ordered))


def _module_of(node: Any, held: dict[str, _Held]) -> tuple[Made, str] | None:
    """The submodule that an expression names: ``self.conv``, ``getattr(self, "0")``, a variable."""
    if isinstance(node, ast.Name):
        module = held.get(node.id)
        return module if isinstance(module, tuple) else None
    attribute = ""
    base: Any = None
    if isinstance(node, ast.Attribute):
        base, attribute = node.value, node.attr
    elif isinstance(node, ast.Call) and dotted(node.func) == "getattr" and len(node.args) == 2:
        base, last = node.args
        attribute = str(last.value) if isinstance(last, ast.Constant) else ""
    owner = held.get(base.id) if isinstance(base, ast.Name) else None
    state = owner[0].state if isinstance(owner, tuple) else None
    part = state.get(attribute) if isinstance(state, dict) else None
    if not isinstance(owner, tuple) or not isinstance(part, Made):
        return None
    return part, f"{owner[1]}.{attribute}" if owner[1] else attribute


_SHORT: dict[type[Any], Callable[[Any], str]] = {
    ast.Name: lambda node: str(node.id),
    ast.Constant: lambda node: repr(node.value)[:60],
    ast.Attribute: lambda node: dotted(node)[:60],
    ast.UnaryOp: lambda node: "-" + _short(node.operand),
    ast.List: lambda node: "[" + ", ".join(_short(e) for e in node.elts[:8]) + "]",
}


def _short(node: Any) -> str:
    return _SHORT.get(type(node), lambda other: "…")(node)
