"""Inspects a TorchScript file without torch and without executing anything of it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.base.errors import EngineError, UnsupportedOperatorError
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.facts import words
from engine.frontends.pytorch.branches import never_taken
from engine.frontends.pytorch.members import Module, Unit, dotted, gather
from engine.frontends.pytorch.pickles import Archive, Made, Unreadable, all_tensors, read_values
from engine.frontends.pytorch.screen import refusal_of, screen
from engine.frontends.source import SourceLayer, SourceModel, SourceSummary, SourceTensor

# The operators of a TorchScript file, in the order in which ``forward`` calls them.
#
# ``code/**.py`` holds TorchScript's own text form, which is Python's syntax: it is parsed, never
# run. Calls of submodules are followed with the tree of modules that ``data.pkl`` describes.

_MAX_CALLS = 50_000
_MAX_DEPTH = 60

# Bookkeeping of sizes, types and lists that becomes no layer; operators of torch/csrc/jit/runtime
_BOOKKEEPING = words(
    "__and__ __contains__ __derive_index __getitem__ __is__ __isnot__ __not__ __or__ "
    "__range_length _unwrap_optional add_list annotate append ceil_int clear copy device dim "
    "dtype eq_int extend floordiv format get insert is_floating_point items keys len list numel "
    "pop remainder_int setdefault size tuple unchecked_cast values warn"
)


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


def _forward(module: Module, root: Made) -> ast.FunctionDef:
    owner = module.classes.get(root.name)
    method = None if owner is None else owner.methods.get("forward")
    if method is None:
        raise Unreadable(f"{root.name} has no forward")
    return method


# what a variable holds: (submodule, its path), or the name of a function
_Held = tuple[Made, str] | str


class _Walk:
    """Follows calls from method to method; what a variable holds is known where it is a module."""

    def __init__(self, code: Module, untaken: frozenset[int]) -> None:
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
            known = None if owner is None else self.code.classes.get(owner[0].name)
            method = None if known is None else known.methods.get(node.func.attr)
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


_MAX_PICKLE = 64 << 20
_MAX_CODE = 6 << 20
_MAX_VERSION = 64
_READS = "1 to 10"


def inspect(source: SourceModel) -> SourceSummary:
    """The pre-flight of a TorchScript file.

    Raises:
        SourceModelError: it is damaged.
    """
    with Archive(source.model) as archive:
        model = _read(archive)
        digest = archive.digest()
        unsafe = _unsafe(archive)
    layers = _layers(model.calls)
    tensors = [tensor for _, tensor in all_tensors(model.root)]
    return SourceSummary(
        framework="pytorch",
        format=f"TorchScript ({'traced' if model.traced else 'scripted'}), "
        f"file format {model.version}",
        version=(("file format", model.version, _READS),),
        files=((source.model.name, digest),),
        inputs=_inputs(model),
        outputs=_outputs(model.result),
        layers=layers,
        findings=(*(_problems(layers) or unsafe), *([] if unsafe else model.findings)),
        parameters=sum(tensor.elements for tensor in tensors),
        weights_bytes=sum(tensor.bytes for tensor in tensors),
        notes=_notes(model),
    )


def _unsafe(archive: Archive) -> list[Finding]:
    """What :func:`screen` refuses, which also sees what ``forward`` does not call."""
    try:
        screen(archive.path.name, archive.records.items(), archive.read)
    except EngineError as error:
        refused = isinstance(error, UnsupportedOperatorError)
        code = "operator-refused" if refused else "torchscript-unclear"
        return [Finding.of_error(code, sanitize(archive.path.name), error)]
    return []


def traced_inputs(archive: Archive) -> list[tuple[list[int], str]]:
    """(shape, dtype) of each input that a traced model was traced with; empty where unknown."""
    if "traced_inputs.pkl" not in archive.records:
        return []
    try:
        value = read_values(archive.read("traced_inputs.pkl", _MAX_PICKLE))
    except Unreadable:
        return []
    known = value.get("forward") if isinstance(value, dict) else None
    return [(list(tensor.shape), tensor.dtype) for _, tensor in all_tensors(known)]


@dataclass
class _Found:
    version: str
    root: Made
    arguments: list[tuple[str, str]]
    result: str
    calls: list[Call]
    traced: list[tuple[list[int], str]]
    findings: list[Finding]


def _read(archive: Archive) -> _Found:
    name = sanitize(archive.path.name)
    model = _Found(_version(archive), Made("?"), [], "", [], traced_inputs(archive), [])
    try:
        root = read_values(archive.read("data.pkl", _MAX_PICKLE))
        if not isinstance(root, Made):
            raise Unreadable("data.pkl describes no module")
        model.root = root
        module, units = _code(archive)
        forward = _forward(module, root)
        model.arguments = [(a.arg, _type_text(a.annotation)) for a in forward.args.args[1:]]
        model.result = _type_text(forward.returns)
        walk = _Walk(module, never_taken(module, units))
        cut = not walk.run(forward, root, "", 0)
        model.calls = walk.found
    except (Unreadable, RecursionError) as error:
        what = f"A part of the file could not be read without torch: {sanitize(str(error))}"
        cause = "It is damaged, or of a version whose form is not known here."
        remedy = "Load it: torch may still read it."
        unclear = Finding("torchscript-unclear", "warning", name, what, cause, remedy)
        model.findings.append(unclear)
        return model
    if cut:
        what = f"Only the first {len(model.calls)} operators are listed."
        model.findings.append(Finding("torchscript-long", "info", name, what))
    return model


def _version(archive: Archive) -> str:
    for record in ("version", ".data/version"):
        if record in archive.records:
            text = archive.read(record, _MAX_VERSION).decode("ascii", "replace").strip()
            return sanitize(text, 20)
    return "unknown"


def _type_text(kind: ast.expr | None) -> str:
    return ast.unparse(kind) if kind else "Tensor"


def _code(archive: Archive) -> tuple[Module, list[Unit]]:
    """Everything under ``code/``, parsed.

    Raises:
        Unreadable: a text is no TorchScript, or nested beyond measure.
    """
    names = [n for n in archive.records if n.startswith("code/") and n.endswith(".py")]
    if sum(archive.records[n] for n in names) > _MAX_CODE:
        raise Unreadable(f"its code has more than {_MAX_CODE >> 20} MiB")
    units = []
    try:
        for name in names:
            path = name.removeprefix("code/").removesuffix(".py").replace("/", ".")
            text = archive.read(name, _MAX_CODE).decode("utf-8", "replace")
            units.append(Unit(name, path, ast.parse(text, path)))
        return gather(units), units
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(str(error)) from error


def _layers(calls: list[Call]) -> tuple[SourceLayer, ...]:
    counts: dict[str, int] = {}
    layers = []
    for call in calls:
        kind = call.op.partition("::")[2]
        base = f"{call.module}.{kind}" if call.module else kind
        counts[base] = counts.get(base, 0) + 1
        number = counts[base]
        layers.append(
            SourceLayer(
                name=sanitize(base if number == 1 else f"{base}_{number}", 200),
                op=sanitize(call.op, 100),
                attributes=(("arguments", sanitize(", ".join(call.arguments), 300)),)
                if call.arguments
                else (),
                refused=sanitize(refusal_of(call.op, graph=True), 200),
            )
        )
    return tuple(layers)


def _problems(layers: tuple[SourceLayer, ...]) -> list[Finding]:
    first: dict[str, SourceLayer] = {}
    for layer in layers:
        if layer.refused:
            first.setdefault(layer.op, layer)
    return [
        Finding(
            code="operator-refused",
            severity="error",
            where=layer.name,
            what=f"{layer.op} is refused: {layer.refused}.",
            remedy="Trace the part of the network before it.",
        )
        for layer in first.values()
    ]


def _inputs(model: _Found) -> tuple[SourceTensor, ...]:
    """The arguments of ``forward``; a traced model tells the sizes that it was traced with."""
    sizes = list(model.traced)
    single = [kind for _, kind in model.arguments if kind in ("Tensor", "Optional[Tensor]")]
    matched = len(single) == len(sizes) == len(model.arguments)
    tensors = []
    for index, (name, kind) in enumerate(model.arguments):
        shape, dtype = sizes[index] if matched else (None, "")
        tensors.append(
            SourceTensor(
                sanitize(name),
                tuple(shape) if shape is not None else None,
                dtype or (kind if kind != "Tensor" else ""),
            )
        )
    return tuple(tensors)


def _outputs(result: str) -> tuple[SourceTensor, ...]:
    """Names as a load gives them, where the type of the result tells how many there are."""
    inside = result.removeprefix("Tuple[").removesuffix("]")
    parts = [part.strip() for part in inside.split(",")]
    if result.startswith("Tuple[") and all(part == "Tensor" for part in parts):
        return tuple(SourceTensor(f"output{i}", None, "") for i in range(len(parts)))
    return (SourceTensor("output", None, "" if result == "Tensor" else sanitize(result, 80)),)


def _notes(model: _Found) -> tuple[str, ...]:
    notes = []
    if model.traced:
        shapes = [shape for shape, _ in model.traced]
        notes.append(f"It was traced with input_size_list {shapes}.")
    elif model.arguments:
        notes.append("The file does not have the sizes of its inputs: give input_size_list.")
    integers = any(tensor.dtype.startswith("q") for _, tensor in all_tensors(model.root))
    if integers or any(call.op.startswith("quantized::") for call in model.calls):
        notes.append("It computes in integers: its scales are kept.")
    elif any("fake_quant" in call.op for call in model.calls):
        notes.append("It has fake quantization: its scales are kept.")
    return tuple(notes)
