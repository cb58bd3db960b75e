"""The engine of RKNN TUI: load, optimise, quantize, simulate, analyse and export models for
Rockchip NPUs.

Importable alone. Names are loaded on first use (PEP 562), so that ``import engine`` costs nothing.
A front end may import only what ``__all__`` names; ``__init__.pyi`` lists it.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from engine.base.onnx_ir_import import spare_sympy

spare_sympy()


def _read_homes() -> dict[str, str]:
    """Name -> module, of the lines ``from MODULE import NAME as NAME`` of the stub."""
    lines = Path(__file__).with_suffix(".pyi").read_text("utf-8").splitlines()
    found = (line.split() for line in lines if line.startswith("from "))
    return {name: module for _, module, _, name, *_ in found}


_HOMES = _read_homes()
__all__ = [*_HOMES]  # noqa: PLE0604  # read, not written a second time


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(home), name)
