"""What the text of a TorchScript archive tells of classes: their members, and the class of a value.

Types are kept as the text writes them. Where several assignments give a name different types, or
one is not understood, the type is unknown. Standard library only; nothing is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

OWN = "__torch__"
"""Where the file's own classes and functions are."""

_MAX_DEPTH = 60
_CASTS = ("annotate", "unchecked_cast", "uninitialized")
_UNWRAPPED = ("ops.prim.unchecked_unwrap_optional", "torch._unwrap_optional")
# of a class: what it is made of (torch/csrc/jit/serialization/import_source.cpp)
_BASES = ("Module", "NamedTuple", "Enum", "Interface", "ModuleInterface")
_ANNOTATIONS = "__annotations__"
_NEW = "__new__"

Type = ast.expr | None


@dataclass(frozen=True)
class Unit:
    """A file of code.

    Attributes:
        record: its name in the archive.
        path: ``__torch__.torch.nn.modules.conv``.
        tree: its text, parsed.
    """

    record: str
    path: str
    tree: ast.Module


@dataclass(frozen=True)
class _Class:
    attributes: dict[str, Type] = field(default_factory=dict)
    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)
    enum: bool = False


@dataclass(frozen=True)
class Module:
    """Everything that the archive defines, by dotted name."""

    classes: dict[str, _Class] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)

    def knows(self, path: str) -> bool:
        """Whether a dotted name is a class, a function, or a member of a class (of an Enum)."""
        if path in self.classes or path in self.functions:
            return True
        owner, _, member = path.rpartition(".")
        known_class = self.classes.get(owner)
        return known_class is not None and (member == _NEW or member in known_class.attributes)


def gather(units: Sequence[Unit]) -> Module:
    """The classes and functions of all files.

    Raises:
        ValueError: two have one name, or a class has a base that PyTorch does not write.
    """
    module = Module()
    for unit in units:
        for item in unit.tree.body:
            if not isinstance(item, ast.ClassDef | ast.FunctionDef):
                continue
            path = f"{unit.path}.{item.name}"
            if not all(part.isidentifier() for part in path.split(".")):
                raise ValueError(f"{unit.record} is not a name of a module")
            if path in module.classes or path in module.functions:
                raise ValueError(f"{path} is defined twice")
            if isinstance(item, ast.FunctionDef):
                module.functions[path] = item
            else:
                module.classes[path] = _class(item, path)
    return module


def _class(item: ast.ClassDef, path: str) -> _Class:
    bases = [dotted(base) for base in item.bases]
    if not set(bases) <= set(_BASES) or item.keywords or item.decorator_list:
        raise ValueError(f"{path} has another base than PyTorch writes")
    declared = _Class(enum="Enum" in bases)
    for part in item.body:
        if isinstance(part, ast.FunctionDef):
            if part.name in declared.methods:
                raise ValueError(f"{path}.{part.name} is defined twice")
            declared.methods[part.name] = part
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            declared.attributes[part.target.id] = part.annotation
        elif isinstance(part, ast.Assign):
            _assigned(part, declared)
    return declared


def _assigned(part: ast.Assign, declared: _Class) -> None:
    """``RED = 1`` of an Enum; ``__annotations__["0"] = TYPE`` of names that are no identifiers."""
    target = part.targets[0]
    if isinstance(target, ast.Name):
        declared.attributes[target.id] = None
    elif isinstance(target, ast.Subscript) and dotted(target.value) == _ANNOTATIONS:
        key = target.slice
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            declared.attributes[key.value] = part.value


class Scope:
    """One function, or what stands outside of functions in a file.

    Attributes:
        name: of the function, with its class.
        module: the archive's definitions.
        body: what it consists of.
        values: name -> the expressions that are stored under it, in the order of the text; None for
            one that is not known. The first of a parameter is its type.
        stored: names that something is stored under in it.
    """

    def __init__(
        self, module: Module, name: str, body: Sequence[ast.AST], owner: ast.expr | None = None
    ) -> None:
        self.name = name
        self.module = module
        self.body = body
        self._owner = owner  # the class of a method, whatever the text says of its first argument
        self._types: dict[str, Type] = {}
        self.values = self._values()
        self.stored = frozenset(self.values)
        for stored, kinds in self.values.items():  # in the text's order: later ones need earlier
            self._types[stored] = self._common(kinds)

    @classmethod
    def all_of(cls, module: Module, unit: Unit) -> Iterator[Scope]:
        """Those of one file."""
        outside: list[ast.AST] = []
        for item in unit.tree.body:
            if isinstance(item, ast.FunctionDef):
                yield cls(module, item.name, [item])
            elif isinstance(item, ast.ClassDef):
                owner = _named(f"{unit.path}.{item.name}")
                for part in item.body:
                    if isinstance(part, ast.FunctionDef):
                        yield cls(module, f"{item.name}.{part.name}", [part], owner)
                    else:
                        outside += _head(part)
            else:
                outside.append(item)
        yield cls(module, "", outside)

    def nodes(self) -> Iterator[ast.AST]:
        """Every node, outer ones first."""
        for part in self.body:
            yield from ast.walk(part)

    def is_inner(self, node: ast.AST) -> bool:
        """Whether a node defines something inside of this scope."""
        return isinstance(node, ast.FunctionDef | ast.ClassDef) and node not in self.body

    def members(self, value: ast.expr) -> frozenset[str] | None:
        """What the class of a value has; None where it is none of the file's, or not known."""
        known_class = self._class(self._type(value))
        if known_class is None or known_class.enum:
            return None
        return frozenset(known_class.attributes) | frozenset(known_class.methods)

    def _values(self) -> dict[str, list[Type]]:
        """Name -> the expressions that are stored under it; None for one that is not known."""
        known: dict[int, ast.expr] = {}
        arguments: list[ast.arg] = []
        stores: list[ast.Name] = []
        for node in self.nodes():
            if isinstance(node, ast.arg):
                arguments.append(node)
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                known |= _parts(node.targets[0], node.value)
            elif isinstance(node, ast.AnnAssign):
                known[id(node.target)] = _of_type(node.annotation)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                stores.append(node)
        values: dict[str, list[Type]] = {}
        for number, argument in enumerate(arguments):
            kind = self._owner if number == 0 and self._owner else argument.annotation
            values.setdefault(argument.arg, []).append(_of_type(kind) if kind else None)
        for store in sorted(stores, key=lambda name: (name.lineno, name.col_offset)):
            values.setdefault(store.id, []).append(known.get(id(store)))
        return values

    def _common(self, values: Sequence[Type]) -> Type:
        """The type of all values, where they have one."""
        types = [None if value is None else self._type(value) for value in values]
        first = types[0]
        if first is None or any(t is None or ast.dump(t) != ast.dump(first) for t in types):
            return None
        return first

    def _class(self, kind: Type) -> _Class | None:
        return None if kind is None else self.module.classes.get(dotted(kind))

    def _type(self, value: ast.expr, depth: int = 0) -> Type:
        """The type of an expression as the text writes it; None where it is not known."""
        if depth > _MAX_DEPTH:
            return None
        if isinstance(value, ast.Name):
            return self._types.get(value.id)
        if isinstance(value, ast.Attribute):
            return self._member_type(value.value, value.attr, depth)
        if isinstance(value, ast.Subscript):
            return _item(self._type(value.value, depth + 1), value.slice)
        if isinstance(value, ast.Call):
            return self._result(value, depth)
        return None

    def _member_type(self, owner: ast.expr, name: str, depth: int) -> Type:
        known_class = self._class(self._type(owner, depth + 1))
        return None if known_class is None else known_class.attributes.get(name)

    def _result(self, call: ast.Call, depth: int) -> Type:
        """What a call gives: of a cast, of one of the file's functions, classes and methods."""
        name = dotted(call.func)
        if name in _CASTS and call.args:
            return call.args[0]
        if name in _UNWRAPPED and call.args:
            kind = self._type(call.args[0], depth + 1)
            inner = isinstance(kind, ast.Subscript) and dotted(kind.value) == "Optional"
            return kind.slice if inner and isinstance(kind, ast.Subscript) else kind
        if name == "getattr" and len(call.args) == 2 and isinstance(call.args[1], ast.Constant):
            return self._member_type(call.args[0], str(call.args[1].value), depth)
        class_name = name.removesuffix(f".{_NEW}")
        if class_name in self.module.classes:
            return _named(class_name)
        if name in self.module.functions:
            return self.module.functions[name].returns
        if isinstance(call.func, ast.Attribute):
            owner = self._class(self._type(call.func.value, depth + 1))
            method = None if owner is None else owner.methods.get(call.func.attr)
            return None if method is None else method.returns
        return None


def _head(part: ast.stmt) -> list[ast.AST]:
    """What is looked at of a statement in a class: ``__annotations__`` is PyTorch's own."""
    target = part.targets[0] if isinstance(part, ast.Assign) else None
    if isinstance(target, ast.Subscript) and dotted(target.value) == _ANNOTATIONS:
        return [target.slice, part.value] if isinstance(part, ast.Assign) else [part]
    return [part]


def _parts(target: ast.expr, value: ast.expr) -> dict[int, ast.expr]:
    """Node that is stored to -> what it gets; a tuple gets the elements of the value."""
    if isinstance(target, ast.Tuple | ast.List):
        return {
            id(part): ast.Subscript(value, ast.Constant(number), ast.Load())
            for number, part in enumerate(target.elts)
        }
    return {id(target): value}


def _of_type(kind: ast.expr) -> ast.expr:
    """An expression of a type."""
    return ast.Call(ast.Name(_CASTS[0], ast.Load()), [kind], [])


def _item(kind: Type, place: ast.expr) -> Type:
    """The type of an element of a list, a dictionary or a tuple."""
    if not isinstance(kind, ast.Subscript):
        return None
    holder, inner = dotted(kind.value), kind.slice
    if holder == "List":
        return inner
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if holder == "Dict":
        return parts[1] if len(parts) == 2 else None
    number = place.value if isinstance(place, ast.Constant) else None
    if holder == "Tuple" and type(number) is int and 0 <= number < len(parts):
        return parts[number]
    return None


def _named(path: str) -> ast.expr:
    """The expression of a dotted name."""
    first, *rest = path.split(".")
    expression: ast.expr = ast.Name(first, ast.Load())
    for part in rest:
        expression = ast.Attribute(expression, part, ast.Load())
    return expression


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of names alone; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])
