"""The user's own Python, named as ``FILE.py:Name``: it runs only where the user trusts the file.

Custom operators and scoring functions come in through here (SECURITY.md): a file runs where it was
given on the command line, for that request, or where it was confirmed in the workbench and has the
same bytes still.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Collection
from functools import lru_cache
from importlib.abc import SourceLoader
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isclass
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.base.errors import RecipeError, SourceModelError, UsageError
from engine.base.files import read_bounded
from engine.base.findings import Finding
from engine.base.paths import log_crash
from engine.base.text import did_you_mean, sanitize
from engine.base.trust import trusted_digest
from engine.graph.ir.custom import (
    CustomOperator,
    CustomOperators,
    custom_names,
    from_class,
    is_custom,
)
from engine.graph.ir.graph import Graph
from engine.recipe import Recipe

_CODE_LIMIT = 4 << 20
_PREFIX = "rknntui_user_code_"


def code_error(option: str, what: str, cause: str = "", remedy: str = "") -> RecipeError:
    """An error that names its option: the form shows it there."""
    return RecipeError(f"{option}: {what}", cause=cause, remedy=remedy)


def named_object(
    code: str,
    allowed: Collection[Path],
    option: str,
    wanted: Callable[[Any], bool],
    kind: str,
) -> Any:
    """What ``FILE.py:Name`` names; runs the file.

    Args:
        code: the file's path, a colon and the name.
        allowed: files that the user named on the command line, absolute.
        option: that names it, for messages.
        wanted: of what the file holds, what could have been meant.
        kind: how messages call that: ``class``.

    Raises:
        RecipeError: the file is missing, was neither named nor confirmed, does not run, or has no
            such name.
    """
    file, _, name = code.rpartition(":")
    path = Path(file)
    data = _read(path, option)
    digest = hashlib.sha256(data).hexdigest()
    if path.resolve() not in allowed:
        _require_confirmed(path, digest, option)
    try:
        module = _module(path, digest, data)
    except SourceModelError as error:
        raise code_error(option, error.what, error.cause, error.remedy) from error.__cause__
    named = getattr(module, name, None)
    if named is None:
        names = [n for n, value in vars(module).items() if wanted(value) and not n.startswith("__")]
        raise code_error(
            option,
            f"{sanitize(str(path))} has no {kind} {sanitize(name, 80)}.",
            f"It has {', '.join(names[:8]) or f'no {kind}'}.",
            did_you_mean(name, names) or "Correct the name.",
        )
    return named


def _read(path: Path, option: str) -> bytes:
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise code_error(
                option, f"{sanitize(str(path))} is not a file.", remedy="Give a Python file."
            )
        return read_bounded(path, _CODE_LIMIT, f"a file of {option}")
    except SourceModelError as error:
        raise code_error(option, error.what, error.cause, error.remedy) from error


def _require_confirmed(path: Path, digest: str, option: str) -> None:
    known = trusted_digest(path)
    if known == digest:
        return
    shown = sanitize(str(path))
    why = "nobody allowed it" if known is None else "it has changed since it was confirmed"
    raise code_error(
        option,
        f"the recipe wants to run the Python of {shown}, and {why}. Nothing of it ran.",
        "Recipes may come from elsewhere, and Python can do whatever you can.",
        f"Read the file (SHA-256 {digest}). Then give --allow-code {shown} on the command "
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
        SourceModelError: running it raised.
    """
    name = _PREFIX + hashlib.sha256(f"{path}\0{digest}".encode()).hexdigest()[:16]
    spec = spec_from_file_location(name, path, loader=_Bytes(path, data))
    if spec is None or spec.loader is None:
        raise SourceModelError(
            f"{sanitize(str(path))} cannot be loaded as Python.",
            remedy="Give a Python file (.py) that you may read.",
        )
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        log = log_crash(error)
        beside = " Modules beside it are not found: only the file itself was allowed."
        raise SourceModelError(
            f"{sanitize(str(path))} does not run: {type(error).__name__}: "
            f"{sanitize(str(error), 300)}",
            cause="The Python in it raised this when it was imported."
            + (beside if isinstance(error, ImportError) else ""),
            remedy="Correct the file" + (f"; the traceback is in {log}." if log else "."),
        ) from error
    return module


# The custom operators of a recipe: classes from Python files, and packages of generation 1.


def load_custom_ops(recipe: Recipe, *, allowed: Collection[Path] = ()) -> CustomOperators:
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
        raise code_error("custom_ops", error.what, error.cause, error.remedy) from error
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
    return CustomOperator(name, None, None, f"package {sanitize(path.name, 120)}")


def note_of(graph: Graph) -> Finding | None:
    """What a build with custom operators is told: who computes them here, and who on a board."""
    counts = Counter(node.op_type for node in graph.nodes if is_custom(node))
    if not counts:
        return None
    known = graph.operators
    parts = [
        f"{sanitize(op, 80)} ({count}) by {known[op].origin if op in known else 'nothing'}"
        for op, count in sorted(counts.items())
    ]
    return Finding(
        "custom-operators",
        "info",
        "model",
        f"The model has custom operators, computed here: {', '.join(parts)}.",
        cause="They are not operators of ONNX.",
        remedy="A board needs the same in C, registered with the runtime there "
        "(rknn_register_custom_ops of the RKNN SDK).",
    )


def _from_file(code: str, allowed: Collection[Path]) -> CustomOperator:
    """The operator of one ``FILE.py:Name``."""
    operator_class = named_object(code, allowed, "custom_ops", isclass, "class")
    path = Path(code.rpartition(":")[0])
    try:
        return from_class(operator_class, f"{sanitize(path.name, 120)}:{code.rpartition(':')[2]}")
    except UsageError as error:
        raise code_error("custom_ops", error.what, error.cause, error.remedy) from error
