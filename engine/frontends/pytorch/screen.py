"""The code of a TorchScript archive, looked through before PyTorch loads or runs any of it.

PyTorch compiles what stands under ``code/`` and runs parts of it while it loads
(``__setstate__``). Everything that the text can name is resolved here as PyTorch resolves it
(torch/csrc/jit/serialization/import_source.cpp and frontend/ir_emitter.cpp): operators
(``torch.NAME``, ``ops.SPACE.NAME``, members of values), the file's own classes and functions, and
native classes. What is not on the list is refused, in
functions that nothing calls too. The few names that PyTorch's own functions have in branches which
this file never takes (:mod:`engine.frontends.pytorch.branches`) are taken there.
Standard library only; nothing is executed.

The list (``allowed.toml``) is one of what is allowed, not of what is forbidden: PyTorch runs the
model to compare numbers, and a part of it while it loads (``__setstate__``), and PyTorch has
operators that read and write files (``aten::save``, ``aten::from_file``), call other machines and
run Python. What stands there computes numbers, or is bookkeeping of sizes, lists and texts; much of
it has no form in ONNX.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable

from engine.base.errors import EngineError, SourceModelError, UnsupportedOperatorError
from engine.base.text import human_bytes, sanitize
from engine.frontends.facts import facts, words
from engine.frontends.pytorch.branches import never_taken
from engine.frontends.pytorch.members import OWN, Module, Scope, Unit, dotted, gather

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


_MAX_CODE = 8 << 20
_MAX_PICKLE = 256 << 20
_PLAIN = re.compile(r"[\n\x20-\x7e]*\Z")
_NATIVE = "torch.classes."
_TYPE = re.compile(r"#\s*type\s*:")
_LEGACY = "model.json"
_CODE = "code/"
_SELF_MADE = ("torch", "ops", "CONSTANTS", OWN)
_UNTAKEN = frozenset(f"torch.{name}" for name in UNTAKEN)
_NODES = (
    ast.Module, ast.ClassDef, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign,
    ast.AnnAssign, ast.AugAssign, ast.For, ast.While, ast.If, ast.With, ast.withitem, ast.Assert,
    ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp,
    ast.Dict, ast.List, ast.Tuple, ast.Compare, ast.Call, ast.keyword, ast.Constant, ast.Attribute,
    ast.Subscript, ast.Slice, ast.Name, ast.expr_context, ast.boolop, ast.operator, ast.unaryop,
    ast.cmpop,
)  # fmt: skip


class _Refusal(Exception):  # noqa: N818 - carried out of the walk, then made one of the errors
    """What is not taken: an operator, or a form of code that PyTorch does not write."""

    def __init__(self, what: str, line: int, why: str = "") -> None:
        super().__init__(what)
        self.what, self.line, self.why = what, line, why


def screen(
    name: str, records: Iterable[tuple[str, int]], read: Callable[[str, int], bytes]
) -> None:
    """Refuse an archive whose code or objects could do something else than compute.

    Args:
        name: of the file, for the error.
        records: (name, size in bytes) of every record, without the outer folder.
        read: the bytes of a record, of at most a limit.

    Raises:
        UnsupportedOperatorError: the code names an operator that is not on the list; the error
            says where.
        SourceModelError: two records of one name (PyTorch does not tell capital letters), a form
            that PyTorch no longer writes, code that is too long, or text that is not as PyTorch
            writes it.
    """
    sizes = _distinct(name, records)
    code = [r for r in sizes if r.lower().startswith(_CODE) and r.lower().endswith(".py")]
    if sum(sizes[record] for record in code) > _MAX_CODE:
        raise _odd(name, f"its code has more than {human_bytes(_MAX_CODE)}")
    for record in sizes:
        if record.lower().endswith(".pkl") and not record.lower().endswith("debug_pkl"):
            _screen_pickle(name, record, read(record, _MAX_PICKLE))
    units = [_unit(name, record, read(record, _MAX_CODE)) for record in code]
    try:
        module = gather(units)
    except ValueError as error:
        raise _odd(name, str(error)) from error
    try:
        untaken = never_taken(module, units)
    except RecursionError as error:
        raise _odd(name, "its code is nested too deeply") from error
    for unit in units:
        for scope in Scope.all_of(module, unit):
            try:
                _screen_scope(scope, untaken)
            except _Refusal as found:
                raise _refused(name, found, unit.record, scope.name) from None
            except RecursionError as error:
                raise _odd(name, f"{unit.record} is nested too deeply") from error


def _distinct(name: str, records: Iterable[tuple[str, int]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    seen: set[str] = set()
    for record, size in records:
        folded = record.lower()
        if folded in seen:
            raise _odd(name, f"it has two records {record!r}")
        if folded == _LEGACY:
            raise _odd(name, "it is of the form before PyTorch 1.4")
        seen.add(folded)
        sizes[record] = size
    return sizes


def _screen_pickle(name: str, record: str, data: bytes) -> None:
    """Native classes that a pickle names: their ``__setstate__`` is C++ and has every right.

    A name is two lines of a pickle, so that a search in the bytes finds each.
    """
    text = data.replace(b"\n", b".")
    start = 0
    while (place := text.find(_NATIVE.encode(), start)) >= 0:
        start = place + len(_NATIVE)
        rest = text[start : start + 200].decode("ascii", "replace")
        if not any(rest.startswith(f"{known}.") for known in NATIVE_CLASSES):
            shown = ".".join(rest.split(".")[:2])
            refusal = _Refusal(f"the native class {_NATIVE}{sanitize(shown, 60)}", 0)
            raise _refused(name, refusal, record)


def _unit(name: str, record: str, data: bytes) -> Unit:
    """One file of code, parsed.

    PyTorch has a parser of its own. It writes plain ASCII, each statement on lines of its own;
    with nothing else in the text, both parsers see the same tokens.
    """
    text = data.decode("latin-1")
    if not _PLAIN.match(text) or "\\\n" in text:
        raise _odd(name, f"{record} has characters that PyTorch does not write there")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _odd(name, f"{record} is not TorchScript: {error}") from error
    if (line := _type_comment(text)) > 0:
        refusal = _Refusal("a type comment, which declares what this program does not read", line)
        raise _refused(name, refusal, record)
    return Unit(record, record[len(_CODE) : -len(".py")].replace("/", "."), tree)


def _type_comment(text: str) -> int:
    """The line of a ``# type:`` comment; 0 where there is none.

    PyTorch takes the declaration of a parameter from it, so that what is looked up here as a method
    of one class would be that of another. PyTorch itself writes annotations.
    """
    if not _TYPE.search(text):
        return 0
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return next(
        (at.start[0] for at in tokens if at.type == tokenize.COMMENT and _TYPE.match(at.string)), 0
    )


def _screen_scope(scope: Scope, untaken: frozenset[int]) -> None:
    """Refuse what one function, or the head of a class, may not name."""
    inside: set[int] = set()
    for node in scope.nodes():
        if not isinstance(node, _NODES) or scope.is_inner(node):
            raise _Refusal(f"the construct {type(node).__name__}", getattr(node, "lineno", 0))
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            raise _Refusal("bytes", node.lineno)
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            raise _Refusal("a decorator", node.lineno)
        if isinstance(node, ast.keyword) and not (id(node) in untaken and node.arg in UNTAKEN):
            _screen_keyword(node)
        if isinstance(node, ast.Name):
            _screen_name(node, scope, inside)
        elif isinstance(node, ast.Attribute):
            if id(node) in untaken and dotted(node) in _UNTAKEN:
                inside.add(id(node.value))  # torch
            else:
                _screen_attribute(node, scope, inside)
        elif isinstance(node, ast.Call):
            _screen_getattr(node, scope, inside)


def _screen_name(node: ast.Name, scope: Scope, inside: set[int]) -> None:
    if id(node) in inside:
        return
    if isinstance(node.ctx, ast.Store):
        if node.id in _SELF_MADE:
            raise _Refusal(f"the name {node.id} for a value of its own", node.lineno)
        return
    if node.id not in BUILTINS and node.id not in scope.stored:
        raise _Refusal(f"the name {sanitize(node.id, 60)}", node.lineno)


def _screen_attribute(node: ast.Attribute, scope: Scope, inside: set[int]) -> None:
    """``torch.NAME``, ``ops.SPACE.NAME``, ``CONSTANTS.c0``, ``__torch__...``, or a member."""
    if id(node) in inside:
        return
    path = dotted(node)
    first = path.partition(".")[0]
    if first in _SELF_MADE and first not in scope.stored:
        inside.update(id(part) for part in ast.walk(node))
        _screen_path(path, node, scope.module)
        return
    _screen_member(node.value, node.attr, scope, node.lineno)


def _screen_path(path: str, node: ast.Attribute, module: Module) -> None:
    first, _, rest = path.partition(".")
    if first == "CONSTANTS" and "." not in rest:
        return
    if first == OWN:
        native = rest.removeprefix(_NATIVE)
        if module.knows(path) or (native != rest and native in NATIVE_CLASSES):
            return
        raise _Refusal(f"{sanitize(path, 120)}, which is not in the file", node.lineno)
    space, _, operator = ("aten", "", rest) if first == "torch" else rest.partition(".")
    if operator in TAKEN.get(space, ()):
        return
    op = f"{space}::{operator}" if operator else path
    raise _Refusal(sanitize(op, 100), node.lineno, sanitize(refusal_of(op), 200))


def _screen_member(owner: ast.expr, attribute: str, scope: Scope, line: int) -> None:
    """A member of a value: of the file's own class, or what PyTorch takes as an operator."""
    members = scope.members(owner)
    if members is not None and attribute in members:
        return
    if members is None and attribute in MEMBERS:
        return
    op = f"aten::{sanitize(attribute, 80)}"
    raise _Refusal(op, line, refusal_of(op) or "the class of its object has no such member")


def _screen_keyword(node: ast.keyword) -> None:
    """An operator that writes into ``out=`` believes its shape in places; None is no tensor."""
    nothing = isinstance(node.value, ast.Constant) and node.value.value is None
    if node.arg is None or (node.arg in REFUSED_KEYWORDS and not nothing):
        raise _Refusal(f"the argument {node.arg or '**'}=", node.lineno)


def _screen_getattr(node: ast.Call, scope: Scope, inside: set[int]) -> None:
    """``getattr(self, "0")`` is how PyTorch writes names that are no identifiers."""
    if not (isinstance(node.func, ast.Name) and node.func.id == "getattr"):
        return
    inside.add(id(node.func))
    name = node.args[1] if len(node.args) == 2 and not node.keywords else None
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        raise _Refusal("getattr without a name", node.lineno)
    _screen_member(node.args[0], name.value, scope, node.lineno)


def _refused(name: str, refusal: _Refusal, record: str, function: str = "") -> EngineError:
    line = f", line {refusal.line}" if refusal.line else ""
    where = f"{record}{line}, in {function}" if line and function else f"{record}{line}"
    return UnsupportedOperatorError(
        f"{sanitize(name)} uses {refusal.what}, which is not taken ({sanitize(where, 300)}).",
        cause=f"{refusal.why[:1].upper()}{refusal.why[1:]}."
        if refusal.why
        else "PyTorch would run it, and it is not on the list of what only computes.",
        remedy="Leave it out of the module that is scripted or traced. If somebody else made the "
        "file, ask why it is in there before you run it with PyTorch.",
    )


def _odd(name: str, why: str) -> SourceModelError:
    return SourceModelError(
        f"{sanitize(name)} is not a TorchScript file as PyTorch writes it: {sanitize(why, 300)}.",
        cause="It is damaged, made by another program, or by a PyTorch before 1.4.",
        remedy="Save it again with torch.jit.save.",
    )
