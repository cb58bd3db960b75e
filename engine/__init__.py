"""The engine of RKNN TUI: load, optimise, quantize, simulate, analyse and export models for Rockchip NPUs.

Importable alone. Names are loaded on first use (PEP 562), so that ``import engine`` costs nothing.
A front end may import only what ``__all__`` names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "ArtifactWritten": "engine.base.events",
    "CONTAINER_NOTE": "engine.report",
    "EngineError": "engine.base.errors",
    "Event": "engine.base.events",
    "Finished": "engine.base.events",
    "JobCancelledError": "engine.base.errors",
    "LogLine": "engine.base.events",
    "OPTIONS": "engine.options",
    "Option": "engine.options",
    "OutputExistsError": "engine.base.errors",
    "Progress": "engine.base.events",
    "RKNN": "engine.api",
    "RecipeError": "engine.base.errors",
    "SECTIONS": "engine.options",
    "StageFinished": "engine.base.events",
    "StageStarted": "engine.base.events",
    "UsageError": "engine.base.errors",
    "WorkerError": "engine.base.errors",
    "atomic_write": "engine.base.files",
    "check_values": "engine.options",
    "config_folder": "engine.base.folders",
    "did_you_mean": "engine.base.text",
    "folders": "engine.base.folders",
    "human_bytes": "engine.base.text",
    "log_crash": "engine.base.folders",
    "option": "engine.options",
    "printable": "engine.base.text",
    "shape_text": "engine.base.text",
    "state_folder": "engine.base.folders",
    "summary_sections": "engine.report",
    "summary_text": "engine.report",
}

__all__ = [
    "CONTAINER_NOTE",
    "OPTIONS",
    "RKNN",
    "SECTIONS",
    "ArtifactWritten",
    "EngineError",
    "Event",
    "Finished",
    "JobCancelledError",
    "LogLine",
    "Option",
    "OutputExistsError",
    "Progress",
    "RecipeError",
    "StageFinished",
    "StageStarted",
    "UsageError",
    "WorkerError",
    "__version__",
    "atomic_write",
    "check_values",
    "config_folder",
    "did_you_mean",
    "folders",
    "human_bytes",
    "log_crash",
    "option",
    "printable",
    "shape_text",
    "state_folder",
    "summary_sections",
    "summary_text",
]

if TYPE_CHECKING:
    from engine.api import RKNN
    from engine.base.errors import (
        EngineError,
        JobCancelledError,
        OutputExistsError,
        RecipeError,
        UsageError,
        WorkerError,
    )
    from engine.base.events import (
        ArtifactWritten,
        Event,
        Finished,
        LogLine,
        Progress,
        StageFinished,
        StageStarted,
    )
    from engine.base.files import atomic_write
    from engine.base.folders import config_folder, folders, log_crash, state_folder
    from engine.base.text import did_you_mean, human_bytes, printable, shape_text
    from engine.options import OPTIONS, SECTIONS, Option, check_values, option
    from engine.report import CONTAINER_NOTE, summary_sections, summary_text


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(home), name)
