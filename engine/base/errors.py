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
        exit_code: the process exit code that the command line documents for this kind.
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

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


class UsageError(EngineError):
    """A call or command with arguments that do not fit."""

    kind = "usage"
    exit_code = 2


class RecipeError(EngineError):
    """A recipe or an option that cannot be used."""

    kind = "recipe"
    exit_code = 3


class SourceModelError(EngineError):
    """A model file that cannot be read or converted."""

    kind = "source model"
    exit_code = 4


class SeveralFilesError(SourceModelError):
    """Several files could be the other half of a model: which one, the user has to say."""

    kind = "several files"


class UnsupportedOperatorError(SourceModelError):
    """A model with an operator that this version cannot take."""

    kind = "unsupported operator"
    exit_code = 5


class GraphError(EngineError):
    """A graph that breaks a rule of the IR."""

    kind = "graph"
    exit_code = 4


class PassError(GraphError):
    """A graph rewrite failed; names the pass and those that ran before it."""

    kind = "pass"


class DatasetError(EngineError):
    """A dataset, or a sample of it, that cannot be used."""

    kind = "dataset"
    exit_code = 6


class QuantizationError(EngineError):
    """Calibration or quantization failed."""

    kind = "quantization"
    exit_code = 7


class SimulationError(EngineError):
    """A float or quantized graph did not run here."""

    kind = "simulation"
    exit_code = 8


class ShortOfMemoryError(SimulationError):
    """Memory ran out while a graph ran: nothing is known of the graph itself."""

    kind = "short of memory"


class ContainerError(EngineError):
    """A ``.rknn`` file that is corrupt, foreign or newer than this version."""

    kind = "container"
    exit_code = 9


class KeyNeededError(ContainerError):
    """A container is encrypted, and nobody gave its key."""

    kind = "key needed"


class WrongKeyError(ContainerError):
    """A container is encrypted with another key than the one that was given."""

    kind = "wrong key"


class OutputError(EngineError):
    """A result could not be written."""

    kind = "output"
    exit_code = 10


class OutputExistsError(OutputError):
    """A result would overwrite a file and nobody allowed it."""

    kind = "output exists"
    exit_code = 11


class WorkerError(EngineError):
    """The worker process ended or could not be started."""

    kind = "worker"
    exit_code = 12


class DeviceError(EngineError):
    """A board cannot be reached or used."""

    kind = "device"
    exit_code = 13


class DeviceLostError(DeviceError):
    """A board that was there has gone: cable, reboot, network, or its server."""

    kind = "device lost"


class DeviceAccessError(DeviceError):
    """A board does not let this user or this machine in, or it is not the one that is known."""

    kind = "device access"


class DeviceTimeoutError(DeviceError):
    """A board did not answer within the time that it is given."""

    kind = "device timeout"


class DeviceStorageError(DeviceError):
    """A file could not be read, written or found on a board."""

    kind = "device storage"


class RuntimeLibraryError(DeviceError):
    """The runtime library of a board is missing, does not fit, or refuses the model or the call."""

    kind = "runtime library"


class ToolkitError(EngineError):
    """A toolkit of the vendor is not set up, is broken, or does not have what is asked for."""

    kind = "toolkit"
    exit_code = 15


class CompilerError(ToolkitError):
    """The vendor's compiler refused a model, or its process crashed, hung or was ended."""

    kind = "compiler"
    exit_code = 16


class InternalError(EngineError):
    """A mistake of this program; the traceback is in the log file."""

    kind = "internal"
    exit_code = 70


class JobCancelledError(EngineError):
    """The user cancelled a job."""

    kind = "cancelled"
    exit_code = 130


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
