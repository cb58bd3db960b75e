"""A job as the workbench sees it: what its events tell, and what the user does with it."""

from __future__ import annotations

from dataclasses import dataclass

from engine import JobProgress

_WORDS = {
    "accuracy": "error analysis",
    "codegen": "project",
    "compare.board": "comparison",
    "compile": "compilation",
    "devices.examine": "examination",
    "devices.perf": "timing",
    "encryption.decrypt": "decryption",
    "encryption.encrypt": "encryption",
    "evaluate": "score",
    "hybrid.propose": "proposal",
    "hybrid.search": "search",
    "load": "conversion",
    "segments.cut": "segments",
    "simulate": "simulation",
    "sweep": "variants",
}


def job_word(method: str) -> str:
    """What a job does, for people."""
    return _WORDS.get(method, method.replace(".", " "))


def job_title(method: str, title: str) -> str:
    """What a job does and on what: records begin with the name of its method."""
    if title == method or title.startswith(f"{method} "):
        return f"{job_word(method)} {title.removeprefix(method).strip()}".strip()
    return title


@dataclass
class JobView(JobProgress):
    """What is known of one job.

    Attributes:
        cancelling: whether it was asked to stop.
        paused: whether the user lets it wait.
        quiet: whether its end is told by the screen that started it alone, with no notice.
        ours: whether this interface started it (else it was reattached).
        background: whether it runs beside what the user waits for, as a monitor does.
    """

    cancelling: bool = False
    paused: bool = False
    quiet: bool = False
    ours: bool = True
    background: bool = False
