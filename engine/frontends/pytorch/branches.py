"""Branches of a TorchScript archive that nothing takes, known from its text alone.

PyTorch's own functions name all that they could do: ``F.interpolate`` has an operator for each
mode, and ``F.normalize`` writes into ``out=`` where that is given. A branch is never taken where
its condition is decided by constants: those that the text has there, and those that every call of
the function in the archive gives. A name has all values that are stored under it anywhere in its
function, whatever the order; what is not understood has any value. So a branch may be taken that
is not, and none is left out that is. Standard library only; nothing is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from engine.frontends.pytorch.members import Module, Scope, Unit, dotted

_MAX_DEPTH = 40
_MOST = 8
"""Values of one name; with more it has any value."""

_Constant = str | int | float | bool | None
_Constants = frozenset[tuple[type, _Constant]]
_Known = _Constants | None  # None: any value
_CASTS = ("annotate", "unchecked_cast")


@dataclass
class _Function:
    """One function: its parameters, and what calls it, with the arguments by name."""

    scope: Scope
    node: ast.FunctionDef
    calls: list[tuple[Scope, ast.Call, dict[str | None, ast.expr]]] = field(default_factory=list)
    elsewhere: bool = False  # it is named in another way than to be called


def never_taken(module: Module, units: Sequence[Unit]) -> frozenset[int]:
    """The ``id`` of every node in a branch that is never taken; the trees must be kept.

    Args:
        module: the archive's definitions.
        units: all of its code.
    """
    return _Branches(module, units).dead()


class _Branches:
    def __init__(self, module: Module, units: Sequence[Unit]) -> None:
        self._scopes: list[Scope] = []
        self._functions: dict[str, _Function] = {}
        self._of: dict[int, _Function] = {}  # by the scope
        self._kept: dict[tuple[int, str], _Known] = {}
        self._parameters: dict[int, frozenset[str]] = {}  # by the scope
        for unit in units:
            plain = {id(item) for item in unit.tree.body}
            for scope in Scope.all_of(module, unit):
                self._scopes.append(scope)
                self._parameters[id(scope)] = frozenset(
                    node.arg for node in scope.nodes() if isinstance(node, ast.arg)
                )
                node = scope.body[0] if scope.body else None
                if isinstance(node, ast.FunctionDef) and id(node) in plain:
                    function = _Function(scope, node)
                    self._functions[f"{unit.path}.{node.name}"] = function
                    self._of[id(scope)] = function
        for scope in self._scopes:
            self._find_calls(scope)

    def dead(self) -> frozenset[int]:
        return frozenset(
            id(inner)
            for scope in self._scopes
            for node in scope.nodes()
            if isinstance(node, ast.If)
            for statement in self._untaken(scope, node)
            for inner in ast.walk(statement)
        )

    def _untaken(self, scope: Scope, node: ast.If) -> Iterator[ast.stmt]:
        known = self._value(scope, node.test, 0)
        if known == _only(False):
            yield from node.body
        elif known == _only(True):
            yield from node.orelse

    # -- calls -----------------------------------------------------------------------------------

    def _find_calls(self, scope: Scope) -> None:
        """``F(x)``, or ``a = F`` and ``a(x)``; any other mention of F is not followed, nor are
        names of several functions.
        """
        aliases: dict[str, _Function | None] = {}
        followed: set[int] = set()
        for node in scope.nodes():
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                assigned = self._functions.get(dotted(node.value))
                if assigned is not None and len(node.targets) == 1:
                    known = aliases.setdefault(node.targets[0].id, assigned)
                    if known is assigned:
                        followed.add(id(node.value))
                    elif known is not None:
                        known.elsewhere = True
                        aliases[node.targets[0].id] = None
        for node in scope.nodes():
            if isinstance(node, ast.Call):
                name = dotted(node.func)
                called = self._functions.get(name) or aliases.get(name)
                if called is not None:
                    named = {keyword.arg: keyword.value for keyword in node.keywords}
                    called.calls.append((scope, node, named))
                    called.elsewhere |= len(named) < len(node.keywords)  # one is given twice
                    followed.add(id(node.func))
        for node in scope.nodes():
            if id(node) in followed or not isinstance(node, ast.Attribute | ast.Name):
                continue
            name = dotted(node)
            if name in self._functions:
                self._functions[name].elsewhere = True
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                function = aliases.get(name)
                if function is not None:
                    function.elsewhere = True

    def _given(self, function: _Function, name: str, depth: int) -> _Known:
        """What all calls give a parameter."""
        declared = function.node.args
        order = [argument.arg for argument in declared.args]
        at = order.index(name) if name in order else -1
        if at < 0 or function.elsewhere or not function.calls:
            return None
        first = len(order) - len(declared.defaults)
        default = declared.defaults[at - first] if at >= first else None
        known: _Known = frozenset()
        for scope, call, named in function.calls:
            value = call.args[at] if at < len(call.args) else named.get(name, default)
            if value is None or known is None or None in named:
                return None
            where = function.scope if value is default else scope
            known = _union(known, self._value(where, value, depth + 1))
        return known

    # -- values ----------------------------------------------------------------------------------

    def _value(self, scope: Scope, node: ast.expr, depth: int) -> _Known:
        """All values that an expression can have; None where it can have any."""
        if depth > _MAX_DEPTH:
            return None
        if isinstance(node, ast.Constant):
            kept = isinstance(node.value, str | int | float | None)
            return frozenset({(type(node.value), node.value)}) if kept else None  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            return self._name(scope, node.id, depth)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Tuple):
            at = node.slice.value if isinstance(node.slice, ast.Constant) else None
            parts = node.value.elts
            known = type(at) is int and 0 <= at < len(parts)
            return self._value(scope, parts[at], depth + 1) if known else None  # type: ignore[index]
        return self._call(scope, node, depth) if isinstance(node, ast.Call) else None

    def _name(self, scope: Scope, name: str, depth: int) -> _Known:
        key = id(scope), name
        if key in self._kept:
            return self._kept[key]
        self._kept[key] = None  # of itself nothing is known
        values: _Known = frozenset()
        function = self._of.get(id(scope))
        for value in scope.values.get(name, [None]):
            known = None if value is None else self._value(scope, value, depth + 1)
            values = _union(values, known)
        if name in self._parameters[id(scope)]:
            stored = len(scope.values.get(name, ())) - 1
            known = None if function is None else self._given(function, name, depth)
            values = known if stored == 0 else None
        self._kept[key] = values
        return values

    def _call(self, scope: Scope, node: ast.Call, depth: int) -> _Known:
        name = dotted(node.func)
        if node.keywords or name.partition(".")[0] in scope.stored:
            return None
        if name in _CASTS and len(node.args) == 2:
            return self._value(scope, node.args[1], depth + 1)
        judge, count = _JUDGES.get(name, (None, 0))
        if judge is None or len(node.args) != count:
            return None
        arguments = [self._value(scope, argument, depth + 1) for argument in node.args]
        first, last = arguments[0], arguments[-1]
        if first is None or last is None:
            return None
        judged = {judge(one, other) for one in first for other in last}
        if None in judged:
            return None
        return frozenset((bool, value) for value in judged)


def _only(value: bool) -> _Constants:
    return frozenset({(bool, value)})


def _union(one: _Known, other: _Known) -> _Known:
    if one is None or other is None or len(one | other) > _MOST:
        return None
    return one | other


_Pair = tuple[type, _Constant]
_Judge = Callable[[_Pair, _Pair], bool | None]


def _equal(one: _Pair, other: _Pair) -> bool | None:
    """Of texts, or of whole numbers; PyTorch's other comparisons are not followed."""
    return one[1] == other[1] if one[0] is other[0] and one[0] in (str, int) else None


def _same(one: _Pair, other: _Pair) -> bool | None:
    """``is``, which TorchScript has for None."""
    return one[1] is other[1] if None in (one[1], other[1]) else None


def _not(judge: _Judge) -> _Judge:
    def negated(one: _Pair, other: _Pair) -> bool | None:
        judged = judge(one, other)
        return None if judged is None else not judged

    return negated


def _truth(one: _Pair, _other: _Pair) -> bool | None:
    return bool(one[1]) if one[0] is bool else None


_JUDGES: dict[str, tuple[_Judge, int]] = {
    "torch.eq": (_equal, 2),
    "torch.ne": (_not(_equal), 2),
    "torch.__is__": (_same, 2),
    "torch.__isnot__": (_not(_same), 2),
    "torch.__not__": (_not(_truth), 1),
}
"""Operators that decide a condition -> how, of how many arguments."""
