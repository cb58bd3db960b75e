"""The engine of RKNN TUI: load, optimise, quantize, simulate, analyse and export models for Rockchip NPUs.

Importable alone. Names are loaded on first use (PEP 562), so that ``import engine`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "EngineError": "engine.base.errors",
    "JobCancelledError": "engine.base.errors",
    "OPTIONS": "engine.options",
    "RKNN": "engine.api",
}

__all__ = ["OPTIONS", "RKNN", "EngineError", "JobCancelledError", "__version__"]

if TYPE_CHECKING:
    from engine.api import RKNN
    from engine.base.errors import EngineError, JobCancelledError
    from engine.options import OPTIONS


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(home), name)
