"""``onnx_ir`` without sympy, whose import takes longer than those of numpy, onnx and onnxruntime.

``onnx_ir._core`` names sympy for arithmetic of symbolic sizes alone: no build needs any. Here it is
given stand-ins, in the place of ``sympy`` and of the one module of onnx_ir that is made of it. The
first attribute that is asked of a stand-in imports the module, as an import inside the function
would. ``sys.modules`` never holds a stand-in, so other threads and other programs import sympy as
ever.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_PACKAGE = "onnx_ir"
_CORE = f"{_PACKAGE}._core"
_SHAPES = "_symbolic_shapes"
_SYMPY = "sympy"


class _WhereUsed(ModuleType):
    """A module that is imported where an attribute of it is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


def _import(name: str, *rest: Any) -> ModuleType:
    """The statement ``import`` in onnx_ir's core; ``rest`` as of :func:`__import__`."""
    if name == _SYMPY and not any(rest[2:3]) and _SYMPY not in sys.modules:
        return _WhereUsed(_SYMPY)
    return builtins.__import__(name, *rest)


class _CoreLoader(SourceFileLoader):
    """Executes onnx_ir's core with the stand-ins."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute it."""
        package = sys.modules[_PACKAGE]
        if not hasattr(package, _SHAPES):
            setattr(package, _SHAPES, _WhereUsed(f"{_PACKAGE}.{_SHAPES}"))
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import}
        super().exec_module(module)


class _CoreFinder:
    """Finds onnx_ir's core for its loader, once, and nothing else.

    No ``MetaPathFinder``: importing that takes longer than ``engine`` does.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the core where it is a file of Python; None for all others."""
        if fullname != _CORE:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _CoreLoader(spec.loader.name, spec.loader.path)
        return spec


def spare_sympy() -> None:
    """Give onnx_ir the stand-ins when anyone imports it; one that is there stays as it is."""
    if _PACKAGE not in sys.modules:
        sys.meta_path.insert(0, _CoreFinder())
