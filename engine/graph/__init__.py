"""The graph: its form (``ir``), its execution (``execute``), its rewrites (``passes``)."""

import importlib
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader

__all__: list[str] = []


class _WhereUsed(MetaPathFinder):
    """Has two modules executed at their first use.

    ``onnx_ir`` needs sympy for arithmetic of symbolic sizes alone, and importing it takes more time
    than numpy and onnx together.
    """

    names = ("sympy", "onnx_ir._symbolic_shapes")

    def find_spec(self, fullname: str, path: object = None, _: object = None) -> ModuleSpec | None:
        """The spec of one of these modules; None for all others."""
        if fullname not in self.names:
            return None
        spec = PathFinder.find_spec(fullname, path)  # type: ignore[arg-type]
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def _import_onnx_ir() -> None:
    """Import ``onnx_ir`` before anyone here does, without what it needs once in a while."""
    finder = _WhereUsed()
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module("onnx_ir")
    finally:
        sys.meta_path.remove(finder)


_import_onnx_ir()
