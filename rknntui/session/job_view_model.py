"""A job as the workbench sees it: what its events tell, and what the user does with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message

from engine import JobProgress
from rknntui.session.messages import JobChanged

JOBS_KEPT = 50

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


class Jobs(dict[str, JobView]):
    """This run's jobs by id, oldest first, and those that were reattached.

    Args:
        publish: tells a message to everybody.
        is_ours: whether a job is about the open model.
    """

    def __init__(
        self, publish: Callable[[Message], None], is_ours: Callable[[JobView], bool]
    ) -> None:
        super().__init__()
        self._publish = publish
        self._is_ours = is_ours

    @property
    def under_way(self) -> list[JobView]:
        """Those that the user waits for: the one that runs, then those that wait for their turn."""
        return [job for job in self.values() if job.running and not job.background]

    @property
    def running(self) -> JobView | None:
        """The job that runs, None when idle."""
        return next(iter(self.under_way), None)

    def newest(self, *methods: str, ours: bool = False) -> JobView | None:
        """Of these methods the job that runs, else the last one; ``ours``: of the open model."""
        asked = (job for job in self.values() if job.method in methods)
        known = [job for job in asked if not ours or self._is_ours(job)]
        return next((job for job in known if job.running), known[-1] if known else None)

    @property
    def building(self) -> bool:
        """Whether a build runs."""
        return any(job.running and job.method == "build" for job in self.values())

    def started(self, job: JobView) -> None:
        """A job was accepted by the worker, or reattached."""
        self[job.id] = job
        for old in [j.id for j in self.values() if not j.running][:-JOBS_KEPT]:
            del self[old]
        self.changed(job)

    def changed(self, job: JobView) -> None:
        """Events of the job were applied."""
        self._publish(JobChanged(job.id))
