"""The one tree of exceptions that leaves the engine.

Each error says what happened, the likely cause and the remedy, in words a user understands.
Front ends map it to an exit code, a dialog or an entry of ``--json``; nobody shows a traceback.
"""

from __future__ import annotations

from typing import ClassVar

from engine.base.text import sanitize

PART_LIMIT = 2000
"""Characters of one part of an error that are kept."""


def _shown(text: str) -> str:
    """``text`` as a screen may show it: line by line, as a remedy may have several."""
    return "\n".join(sanitize(line, PART_LIMIT) for line in text[: 4 * PART_LIMIT].split("\n"))


class EngineError(Exception):
    """Base of all errors of the engine.

    Names in its texts come from files, models and other processes: control characters in them are
    removed here, so that no front end can show them by mistake. Line breaks stay.

    Attributes:
        what: what happened, naming the file, node or line.
        cause: the likely cause; empty where ``what`` says it all.
        remedy: what the user can do next.
        kind: by which another process makes the same class of it again. A class names its own, else
            it has that of the class above it.
        exit_code: the process exit code that the command line documents for this kind.
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init_subclass__(cls, *, kind: str | None = None, exit_code: int | None = None) -> None:
        super().__init_subclass__()
        cls.kind = kind or cls.kind
        cls.exit_code = exit_code or cls.exit_code

    def __init__(self, what: str, *, cause: str = "", remedy: str = "") -> None:
        self.what = _shown(what)
        self.cause = _shown(cause)
        self.remedy = _shown(remedy)
        super().__init__(self.what)

    def __str__(self) -> str:
        parts = [self.what]
        if self.cause:
            parts.append(f"Likely cause: {self.cause}")
        if self.remedy:
            parts.append(f"Fix: {self.remedy}")
        return "\n".join(parts)

    @property
    def advice(self) -> str:
        """Likely cause and remedy, as one text."""
        return " ".join(part for part in (self.cause, self.remedy) if part)

    def to_dict(self) -> dict[str, str | int]:
        """The error as plain data: kind, what, cause, remedy, exit_code."""
        return {
            "kind": self.kind,
            "what": self.what,
            "cause": self.cause,
            "remedy": self.remedy,
            "exit_code": self.exit_code,
        }


class UsageError(EngineError, kind="usage", exit_code=2):
    """A call or command with arguments that do not fit."""


class RecipeError(EngineError, kind="recipe", exit_code=3):
    """A recipe or an option that cannot be used."""


class SourceModelError(EngineError, kind="source model", exit_code=4):
    """A model file that cannot be read or converted."""


class SeveralFilesError(SourceModelError, kind="several files"):
    """Several files could be the other half of a model: which one, the user has to say."""


class UnsupportedOperatorError(SourceModelError, kind="unsupported operator", exit_code=5):
    """A model with an operator that this version cannot take."""


class GraphError(EngineError, kind="graph", exit_code=4):
    """A graph that breaks a rule of the IR."""


class PassError(GraphError, kind="pass"):
    """A graph rewrite failed; names the pass and those that ran before it."""


class DatasetError(EngineError, kind="dataset", exit_code=6):
    """A dataset, or a sample of it, that cannot be used."""


class QuantizationError(EngineError, kind="quantization", exit_code=7):
    """Calibration or quantization failed."""


class SimulationError(EngineError, kind="simulation", exit_code=8):
    """A float or quantized graph did not run here."""


class ShortOfMemoryError(SimulationError, kind="short of memory"):
    """Memory ran out while a graph ran: nothing is known of the graph itself."""


class ContainerError(EngineError, kind="container", exit_code=9):
    """A ``.rknn`` file that is corrupt, foreign or newer than this version."""


class KeyNeededError(ContainerError, kind="key needed"):
    """A container is encrypted, and nobody gave its key."""


class WrongKeyError(ContainerError, kind="wrong key"):
    """A container is encrypted with another key than the one that was given."""


class OutputError(EngineError, kind="output", exit_code=10):
    """A result could not be written."""


class OutputExistsError(OutputError, kind="output exists", exit_code=11):
    """A result would overwrite a file and nobody allowed it."""


class WorkerError(EngineError, kind="worker", exit_code=12):
    """The worker process ended or could not be started."""


class DeviceError(EngineError, kind="device", exit_code=13):
    """A board cannot be reached or used."""


class DeviceLostError(DeviceError, kind="device lost"):
    """A board that was there has gone: cable, reboot, network, or its server."""


class DeviceAccessError(DeviceError, kind="device access"):
    """A board does not let this user or this machine in, or it is not the one that is known."""


class DeviceTimeoutError(DeviceError, kind="device timeout"):
    """A board did not answer within the time that it is given."""


class DeviceStorageError(DeviceError, kind="device storage"):
    """A file could not be read, written or found on a board."""


class RuntimeLibraryError(DeviceError, kind="runtime library"):
    """The runtime library of a board is missing, does not fit, or refuses the model or the call."""


class ToolkitError(EngineError, kind="toolkit", exit_code=15):
    """A toolkit of the vendor is not set up, is broken, or does not have what is asked for."""


class CompilerError(ToolkitError, kind="compiler", exit_code=16):
    """The vendor's compiler refused a model, or its process crashed, hung or was ended."""


class InternalError(EngineError, kind="internal", exit_code=70):
    """A mistake of this program; the traceback is in the log file."""


class JobCancelledError(EngineError, kind="cancelled", exit_code=130):
    """The user cancelled a job."""


def job_cancelled() -> JobCancelledError:
    """What a job ends with that was asked to stop."""
    return JobCancelledError("The job was cancelled.", remedy="Start it again when ready.")


def internal_error(error: BaseException, remedy: str) -> InternalError:
    """What the user is told of an exception that nobody expected."""
    return InternalError(
        f"Internal error; please report it: {type(error).__name__}: {sanitize(str(error), 200)}",
        cause="A bug in this program.",
        remedy=remedy,
    )


def _kinds(root: type[EngineError]) -> dict[str, type[EngineError]]:
    known = {root.kind: root}
    for child in root.__subclasses__():
        for kind, cls in _kinds(child).items():
            known.setdefault(kind, cls)  # a class without a kind of its own stands for its parent
    return known


def error_from_dict(data: dict[str, str | int]) -> EngineError:
    """Rebuild an error from :meth:`EngineError.to_dict`; an unknown kind becomes the base class."""
    cls = _kinds(EngineError).get(str(data.get("kind", "")), EngineError)
    return cls(
        str(data.get("what", "unknown error")),
        cause=str(data.get("cause", "")),
        remedy=str(data.get("remedy", "")),
    )
