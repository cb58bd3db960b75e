"""The engine of RKNN TUI: load, optimise, quantize, simulate, analyse and export models for
Rockchip NPUs.

Importable alone. Names are loaded on first use (PEP 562), so that ``import engine`` costs nothing.
A front end may import only what ``__all__`` names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "ALGORITHMS": "engine.options",
    "ArtifactWritten": "engine.base.events",
    "CONTAINER_NOTE": "engine.report",
    "CallbackReporter": "engine.base.events",
    "ContainerError": "engine.base.errors",
    "DTYPES": "engine.options",
    "DatasetError": "engine.base.errors",
    "EngineError": "engine.base.errors",
    "Event": "engine.base.events",
    "Finding": "engine.base.findings",
    "Finished": "engine.base.events",
    "GRANULARITIES": "engine.options",
    "GraphError": "engine.base.errors",
    "InternalError": "engine.base.errors",
    "Job": "engine.jobs.job",
    "JobCancelledError": "engine.base.errors",
    "JobRecord": "engine.jobs.history",
    "LogLine": "engine.base.events",
    "NullReporter": "engine.base.events",
    "OPTIONS": "engine.options",
    "Option": "engine.options",
    "OutputError": "engine.base.errors",
    "OutputExistsError": "engine.base.errors",
    "PassError": "engine.base.errors",
    "Partial": "engine.base.events",
    "Progress": "engine.base.events",
    "QuantizationError": "engine.base.errors",
    "RKNN": "engine.api",
    "RecipeError": "engine.base.errors",
    "Reporter": "engine.base.events",
    "SECTIONS": "engine.options",
    "STAGES": "engine.options",
    "SimulationError": "engine.base.errors",
    "SourceModelError": "engine.base.errors",
    "StageFinished": "engine.base.events",
    "StageStarted": "engine.base.events",
    "UnsupportedOperatorError": "engine.base.errors",
    "UsageError": "engine.base.errors",
    "Worker": "engine.jobs.client",
    "WorkerError": "engine.base.errors",
    "atomic_write": "engine.base.files",
    "attach": "engine.jobs.history",
    "cache_folder": "engine.base.folders",
    "check_values": "engine.options",
    "chips": "engine.chips",
    "config_folder": "engine.base.folders",
    "did_you_mean": "engine.base.text",
    "error_from_dict": "engine.base.errors",
    "event_from_dict": "engine.base.events",
    "event_to_dict": "engine.base.events",
    "folders": "engine.base.folders",
    "human_bytes": "engine.base.text",
    "job_record": "engine.jobs.history",
    "list_jobs": "engine.jobs.history",
    "log_crash": "engine.base.folders",
    "resource_error": "engine.base.resources",
    "named_option": "engine.options",
    "option": "engine.options",
    "printable": "engine.base.text",
    "read_bounded": "engine.base.files",
    "read_events": "engine.jobs.history",
    "read_log": "engine.jobs.history",
    "read_result": "engine.jobs.history",
    "run_job": "engine.jobs.client",
    "refuse_existing": "engine.base.files",
    "sha256_of": "engine.base.files",
    "shape_text": "engine.base.text",
    "state_folder": "engine.base.folders",
    "summary_sections": "engine.report",
    "summary_text": "engine.report",
}

__all__ = [
    "ALGORITHMS",
    "CONTAINER_NOTE",
    "DTYPES",
    "GRANULARITIES",
    "OPTIONS",
    "RKNN",
    "SECTIONS",
    "STAGES",
    "ArtifactWritten",
    "CallbackReporter",
    "ContainerError",
    "DatasetError",
    "EngineError",
    "Event",
    "Finding",
    "Finished",
    "GraphError",
    "InternalError",
    "Job",
    "JobCancelledError",
    "JobRecord",
    "LogLine",
    "NullReporter",
    "Option",
    "OutputError",
    "OutputExistsError",
    "Partial",
    "PassError",
    "Progress",
    "QuantizationError",
    "RecipeError",
    "Reporter",
    "SimulationError",
    "SourceModelError",
    "StageFinished",
    "StageStarted",
    "UnsupportedOperatorError",
    "UsageError",
    "Worker",
    "WorkerError",
    "__version__",
    "atomic_write",
    "attach",
    "cache_folder",
    "check_values",
    "chips",
    "config_folder",
    "did_you_mean",
    "error_from_dict",
    "event_from_dict",
    "event_to_dict",
    "folders",
    "human_bytes",
    "job_record",
    "list_jobs",
    "log_crash",
    "named_option",
    "option",
    "printable",
    "read_bounded",
    "read_events",
    "read_log",
    "read_result",
    "refuse_existing",
    "resource_error",
    "run_job",
    "sha256_of",
    "shape_text",
    "state_folder",
    "summary_sections",
    "summary_text",
]

if TYPE_CHECKING:
    from engine.api import RKNN
    from engine.base.errors import (
        ContainerError,
        DatasetError,
        EngineError,
        GraphError,
        InternalError,
        JobCancelledError,
        OutputError,
        OutputExistsError,
        PassError,
        QuantizationError,
        RecipeError,
        SimulationError,
        SourceModelError,
        UnsupportedOperatorError,
        UsageError,
        WorkerError,
        error_from_dict,
    )
    from engine.base.events import (
        ArtifactWritten,
        CallbackReporter,
        Event,
        Finished,
        LogLine,
        NullReporter,
        Partial,
        Progress,
        Reporter,
        StageFinished,
        StageStarted,
        event_from_dict,
        event_to_dict,
    )
    from engine.base.files import atomic_write, read_bounded, refuse_existing, sha256_of
    from engine.base.findings import Finding
    from engine.base.folders import cache_folder, config_folder, folders, log_crash, state_folder
    from engine.base.resources import resource_error
    from engine.base.text import did_you_mean, human_bytes, printable, shape_text
    from engine.chips import chips
    from engine.jobs.client import Worker, run_job
    from engine.jobs.history import (
        JobRecord,
        attach,
        job_record,
        list_jobs,
        read_events,
        read_log,
        read_result,
    )
    from engine.jobs.job import Job
    from engine.options import (
        ALGORITHMS,
        DTYPES,
        GRANULARITIES,
        OPTIONS,
        SECTIONS,
        STAGES,
        Option,
        check_values,
        named_option,
        option,
    )
    from engine.report import CONTAINER_NOTE, summary_sections, summary_text


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(home), name)
