"""The custom operators of a recipe: classes from Python files, and packages of generation 1."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from importlib.abc import SourceLoader
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isclass
from pathlib import Path
from types import ModuleType

from engine.base.errors import RecipeError, SourceModelError, UsageError
from engine.base.files import read_bounded
from engine.base.findings import Finding
from engine.base.folders import log_crash
from engine.base.text import did_you_mean, printable
from engine.graph.ir.custom import (
    CustomOperator,
    CustomOperators,
    custom_names,
    from_class,
    is_custom,
)
from engine.graph.ir.graph import Graph
from engine.jobs.confirmed import confirmed_digest
from engine.recipe import Recipe

__all__ = ["note_of", "operator_of_package", "operators_of"]

_CODE_LIMIT = 4 << 20
_PREFIX = "rknntui_user_code_"


def operators_of(recipe: Recipe, *, allowed: Collection[Path] = ()) -> CustomOperators:
    """The operators that a recipe names; runs its Python files only where they may run.

    Args:
        recipe: its paths absolute.
        allowed: files that the user named on the command line, absolute.

    Raises:
        RecipeError: a file is missing, was neither named nor confirmed, does not run, or does not
            hold the class.
        ContainerError: a package cannot be read.
    """
    source = recipe.source
    classes = [_from_file(code, allowed) for code in source.custom_ops or ()]
    try:
        operators = CustomOperators(classes)
    except UsageError as error:
        raise _refused(error.what, cause=error.cause, remedy=error.remedy) from error
    for path in source.op_packages or ():
        package = None if path is None else operator_of_package(Path(path))
        # a class for the same operator knows more
        if package is not None and package.op_type not in operators:
            operators = operators.replaced(package)
    return operators


def operator_of_package(path: Path) -> CustomOperator | None:
    """The opaque operator of an ``.rknnop``; None where its name is one of ONNX's own.

    Such a package replaces what an operator of the source framework runs on the NPU: its meaning,
    and so what is simulated here, stays.

    Raises:
        ContainerError: missing, damaged, or no package.
    """
    from engine.container.vendor import inspect_op_package

    name = inspect_op_package(path).name
    if not custom_names(name):
        return None
    return CustomOperator(name, None, None, f"package {printable(path.name, 120)}")


def note_of(graph: Graph) -> Finding | None:
    """What a build with custom operators is told: who computes them here, and who on a board."""
    counts = Counter(node.op_type for node in graph.nodes if is_custom(node))
    if not counts:
        return None
    known = graph.operators
    parts = [
        f"{printable(op, 80)} ({count}) by {known[op].origin if op in known else 'nothing'}"
        for op, count in sorted(counts.items())
    ]
    return Finding(
        "custom-operators",
        "info",
        "model",
        f"The model has custom operators, computed here: {', '.join(parts)}.",
        cause="They are no operators of ONNX.",
        remedy="A board needs the same in C, registered with the runtime there "
        "(rknn_register_custom_ops of the RKNN SDK).",
    )


def _refused(what: str, *, cause: str = "", remedy: str = "") -> RecipeError:
    """An error that names its option: the form shows it there."""
    return RecipeError(f"custom_ops: {what}", cause=cause, remedy=remedy)


def _from_file(code: str, allowed: Collection[Path]) -> CustomOperator:
    """The operator of one ``FILE.py:Name``."""
    file, _, name = code.rpartition(":")
    path = Path(file)
    data = _read(path)
    digest = hashlib.sha256(data).hexdigest()
    if path.resolve() not in allowed:
        _require_confirmed(path, digest)
    module = _module(path, digest, data)
    found = getattr(module, name, None)
    if found is None:
        classes = [n for n, value in vars(module).items() if isclass(value)]
        raise _refused(
            f"{printable(str(path))} has no class {printable(name, 80)}.",
            cause=f"It has {', '.join(classes[:8]) or 'no class'}.",
            remedy=did_you_mean(name, classes) or "Correct the name.",
        )
    try:
        return from_class(found, f"{printable(path.name, 120)}:{name}")
    except UsageError as error:
        raise _refused(error.what, cause=error.cause, remedy=error.remedy) from error


def _read(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise _refused(f"{printable(str(path))} is no file.", remedy="Give a Python file.")
        return read_bounded(path, _CODE_LIMIT, "a file of custom operators")
    except SourceModelError as error:
        raise _refused(error.what, cause=error.cause, remedy=error.remedy) from error


def _require_confirmed(path: Path, digest: str) -> None:
    known = confirmed_digest(path)
    if known == digest:
        return
    shown = printable(str(path))
    why = "nobody allowed it" if known is None else "it has changed since it was confirmed"
    raise _refused(
        f"the recipe wants to run the Python of {shown}, and {why}. Nothing of it ran.",
        cause="Recipes may come from elsewhere, and Python can do whatever you can.",
        remedy=f"Read the file (SHA-256 {digest}). Then give --allow-code {shown} on the command "
        "line, or confirm it in the workbench, which asks when the recipe is opened.",
    )


class _Bytes(SourceLoader):
    """Loads a module from the very bytes that were hashed; leaves no ``__pycache__`` behind."""

    def __init__(self, path: Path, data: bytes) -> None:
        self._path = str(path)
        self._data = data

    def get_filename(self, fullname: str) -> str:
        """Where the code is from, for tracebacks."""
        return self._path

    def get_data(self, path: str | bytes) -> bytes:
        """The source; there is no compiled form."""
        if str(path) != self._path:
            raise OSError("there is no such file")
        return self._data


@lru_cache(maxsize=16)
def _module(path: Path, digest: str, data: bytes) -> ModuleType:
    """The module of a file, run once for each content.

    Its folder is not searched for further modules: they would run without being confirmed.

    Raises:
        RecipeError: running it raised.
    """
    name = _PREFIX + hashlib.sha256(f"{path}\0{digest}".encode()).hexdigest()[:16]
    spec = spec_from_file_location(name, path, loader=_Bytes(path, data))
    if spec is None or spec.loader is None:
        raise _refused(f"{printable(str(path))} cannot be loaded as Python.")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        log = log_crash(error)
        beside = " Modules beside it are not found: only the file itself was allowed."
        raise _refused(
            f"{printable(str(path))} does not run: {type(error).__name__}: "
            f"{printable(str(error), 300)}",
            cause="The Python in it raised this when it was imported."
            + (beside if isinstance(error, ImportError) else ""),
            remedy="Correct the file" + (f"; the traceback is in {log}." if log else "."),
        ) from error
    return module
