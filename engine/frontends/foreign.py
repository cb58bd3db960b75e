"""Conversions by a framework's own code, in a warm child process: torch and TensorFlow load there.

A child answers one request after another, a JSON object a line in both directions:
``{"request": {...}, "out": "/.../model.onnx", "seconds": 60, "growth": 1073741824, "reads": []}``
is answered by ``{"answer": {...}}`` or ``{"error": {kind, what, cause, remedy}}``. A child that
crashes, hangs or eats memory costs one call: the next one starts another. Standard library only.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.base.errors import EngineError, SourceModelError, WorkerError, error_from_dict
from engine.base.events import LogLine, Reporter
from engine.base.folders import state_folder
from engine.base.leftovers import OWNER, let_go, let_go_empty, make_owned
from engine.base.process import death_of, start_child

__all__ = ["FRAMEWORKS", "Foreign", "close", "convert", "log_path", "require", "resident_bytes"]

_POLL_SECONDS = 0.1
_GOODBYE_SECONDS = 1.0
_ANSWER_LIMIT = 64 << 20
_DEFAULT_GROWTH = 1 << 30
# a child that holds more than this beyond its framework is not kept: it gives nothing back
_KEPT_GROWTH = 1 << 30
_MODULE = "engine.frontends.foreign_child"
_ANSWER = "answer-"
_FILE = "model.onnx"


@dataclass(frozen=True)
class Foreign:
    """A framework whose own code converts its models.

    Attributes:
        words: its name, as a user knows it.
        child: module with ``convert(request: dict, out: Path) -> dict``, imported there only.
        needs: modules that the child imports.
        packages: what pip installs for them, as this program's extras ask for it.
        environment: variables of the child.
        resident: bytes that a child has once the framework is imported.
    """

    words: str
    child: str
    needs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    resident: int = 0


FRAMEWORKS: dict[str, Foreign] = {
    "tensorflow": Foreign(
        "TensorFlow",
        "engine.frontends.tensorflow.child",
        ("tensorflow", "tf2onnx"),
        ("tensorflow-cpu~=2.21.0", "tf2onnx~=1.17"),
        {
            # oneDNN reorders sums: the numbers would differ from a plain build's
            "TF_ENABLE_ONEDNN_OPTS": "0",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "CUDA_VISIBLE_DEVICES": "-1",
            "TF_NUM_INTRAOP_THREADS": "2",
            "TF_NUM_INTEROP_THREADS": "1",
        },
        resident=700 << 20,
    ),
    "pytorch": Foreign(
        "PyTorch",
        "engine.frontends.pytorch.child",
        ("torch", "onnxscript"),
        ("torch~=2.13", "onnxscript~=0.7.2"),
        {"CUDA_VISIBLE_DEVICES": "-1"},
        resident=500 << 20,
    ),
}


class _EndedError(Exception):
    """The child has closed its output; ``idle`` where it had ended before the request came."""

    def __init__(self, returncode: int | None) -> None:
        super().__init__()
        self.returncode = returncode
        self.idle = returncode == 0


class _Child:
    """One process, its two pipes, and the folder that it may write in."""

    def __init__(self, kind: Foreign) -> None:
        self.kind = kind
        self.folder = _new_folder(None)
        own = {"TMPDIR": str(self.folder), **kind.environment}
        try:
            process = start_child(
                _MODULE,
                kind.child,
                str(log_path(kind)),
                str(self.folder),
                environment=os.environ | own,
            )
        except OSError as error:
            let_go(self.folder)
            raise WorkerError(
                f"The process for {kind.words} could not be started: {error.strerror or error}.",
                cause="There is no memory or no process left for it.",
                remedy="End other programs and try again.",
            ) from error
        if process.stdin is None or process.stdout is None:
            raise WorkerError(
                f"The process for {kind.words} was started without pipes.", remedy="Try again."
            )
        self.process = process
        self._input = process.stdin
        self._output = process.stdout.fileno()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, message: Mapping[str, Any], reporter: Reporter) -> dict[str, Any]:
        """Send a request and wait for its answer, looking after the child meanwhile.

        Raises:
            _EndedError: it ended instead of answering.
            WorkerError: it took longer than the message's ``seconds`` or ``growth`` bytes more
                than before.
            JobCancelledError: as ``reporter`` says.
        """
        seconds, growth = float(message["seconds"]), int(message["growth"])
        ceiling = max(resident_bytes(self.process.pid), self.kind.resident) + growth
        deadline = time.monotonic() + seconds
        try:
            self._send(message)
        except BrokenPipeError:
            raise _EndedError(self._returncode()) from None
        line = bytearray()
        while not line.endswith(b"\n"):
            reporter.check_cancelled()
            if select.select([self._output], [], [], _POLL_SECONDS)[0]:
                part = os.read(self._output, 1 << 16)
                line += part
                if not part:
                    raise _EndedError(self._returncode())
                if len(line) > _ANSWER_LIMIT:
                    raise WorkerError(
                        f"The answer of {self.kind.words} is too long.",
                        remedy="Convert the model to ONNX and load that.",
                    )
            elif time.monotonic() > deadline:
                raise self._too_long(seconds)
            elif resident_bytes(self.process.pid) > ceiling:
                raise self._too_large(growth)
        return _decoded(line, self.kind)

    def _send(self, message: Mapping[str, Any]) -> None:
        rest = memoryview(json.dumps(message, allow_nan=False).encode("ascii") + b"\n")
        while rest:
            rest = rest[os.write(self._input.fileno(), rest) :]

    def _too_long(self, seconds: float) -> WorkerError:
        return WorkerError(
            f"{self.kind.words} was stopped: it had worked for more than {seconds:.0f} s.",
            cause="The model is very large, or it sends the converter in circles.",
            remedy="Try again on a quieter machine, or convert the model to ONNX and load that.",
        )

    def _too_large(self, growth: int) -> WorkerError:
        return WorkerError(
            f"{self.kind.words} was stopped: it had taken more than {growth >> 20} MiB of memory.",
            cause="The model is damaged, or larger than this program expects of such a file.",
            remedy="Check the file, or convert the model to ONNX and load that.",
        )

    def _returncode(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(_GOODBYE_SECONDS)
        return None

    def end(self, *, kill: bool) -> None:
        """Let it go (it ends when its input is closed) or kill it; it is gone afterwards."""
        if kill and self.alive:
            self.process.send_signal(signal.SIGKILL)
        self._input.close()
        self._returncode()
        if self.alive:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        with contextlib.suppress(OSError):  # what it left beside its answers
            for left in self.folder.iterdir():
                if not left.name.startswith((_ANSWER, OWNER)):
                    left.unlink() if not left.is_dir() else shutil.rmtree(left)
        let_go_empty(self.folder)  # an answer may still be read: then its reader does it


_children: dict[str, _Child] = {}
_locks: dict[str, threading.Lock] = {name: threading.Lock() for name in FRAMEWORKS}


@contextlib.contextmanager
def convert(
    framework: str,
    request: Mapping[str, Any],
    reporter: Reporter,
    *,
    seconds: float = 60,
    growth: int = _DEFAULT_GROWTH,
    reads: Sequence[Path] = (),
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Let a framework's own code write an ONNX file, for the time of the block.

    Where the kernel can do it (:mod:`engine.base.confine`), the child writes in its own folder
    only, connects to nothing, starts nothing, and reads libraries and ``reads``.

    The child is started by the first call, stays for two minutes, and is stopped when the user
    cancels.

    Args:
        framework: a name of :data:`FRAMEWORKS`.
        request: plain data for the child's ``convert``.
        reporter: told of the start of a child; asked ten times a second whether to stop.
        seconds: how long the conversion may take.
        growth: bytes of memory that it may take beyond what the child has before.
        reads: files and folders of the request.

    Yields:
        The ONNX file (with its external data beside it), gone after the block, and what the child's
        ``convert`` returned.

    Raises:
        EngineError: as the child raised it.
        SourceModelError: the framework is not installed.
        WorkerError: the child crashed, took too long or too much memory.
        JobCancelledError: the user cancelled.
    """
    require(framework)
    message = {
        "request": dict(request),
        "seconds": seconds,
        "growth": growth,
        "reads": [str(path.resolve()) for path in reads],
    }
    folders: list[Path] = []
    try:
        with _turn(framework, reporter):
            answer = _asked(framework, message, reporter, folders)
        yield folders[-1] / _FILE, answer
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            # only where the child has gone, and all of it
            if folder.parent not in [child.folder for child in _children.values()]:
                let_go_empty(folder.parent)


def require(framework: str) -> None:
    """Refuse a framework that is not installed, before a child is started for it.

    Raises:
        SourceModelError: with the line that installs it.
    """
    kind = FRAMEWORKS[framework]
    missing = [name for name in kind.needs if find_spec(name) is None]
    if missing:
        raise SourceModelError(
            f"{kind.words} models are converted by {' and '.join(kind.needs)}, and "
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed.",
            cause="It is large, so it is an extra of this program.",
            remedy=shlex.join([sys.executable, "-m", "pip", "install", *kind.packages]),
        )


def close(framework: str | None = None) -> None:
    """Let the warm children go: one, or all of them."""
    for name in [framework] if framework is not None else list(_children):
        child = _children.pop(name, None)
        if child is not None:
            child.end(kill=False)


atexit.register(close)


def log_path(kind: Foreign) -> Path:
    """Where everything goes that the framework prints."""
    return state_folder() / "logs" / f"{kind.words.lower()}.log"


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in use now, 0 where there is none (proc(5), statm)."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def _turn(framework: str, reporter: Reporter) -> Iterator[None]:
    """Wait until no other thread uses the child."""
    lock = _locks.setdefault(framework, threading.Lock())
    while not lock.acquire(timeout=_POLL_SECONDS):
        reporter.check_cancelled()
    try:
        yield
    finally:
        lock.release()


def _asked(
    framework: str, message: Mapping[str, Any], reporter: Reporter, folders: list[Path]
) -> dict[str, Any]:
    """The answer of the child; ``folders`` gets those that it may have written in."""
    kind = FRAMEWORKS[framework]
    child, warm = _child_of(framework, reporter)
    try:
        try:
            found = child.ask(_with_folder(message, child, folders), reporter)
        except _EndedError as ended:
            if not (warm and ended.idle):
                raise
            # its two minutes were over while the request was on its way
            close(framework)
            child, _ = _child_of(framework, reporter)
            found = child.ask(_with_folder(message, child, folders), reporter)
    except BaseException as error:
        _children.pop(framework, None)
        child.end(kill=True)
        if isinstance(error, _EndedError):
            raise _death(kind, error.returncode) from None
        raise
    if resident_bytes(child.process.pid) > kind.resident + _KEPT_GROWTH:
        close(framework)
    if "error" in found:
        raise error_from_dict(found["error"])
    answer: dict[str, Any] = found["answer"]
    return answer


def _with_folder(message: Mapping[str, Any], child: _Child, folders: list[Path]) -> dict[str, Any]:
    folders.append(_new_folder(child.folder))
    return {**message, "out": str(folders[-1] / _FILE)}


def _new_folder(inside: Path | None) -> Path:
    """A folder that only this user may read: a child's, or inside it that of one answer."""
    try:
        if inside is None:
            return make_owned("convert")
        return Path(tempfile.mkdtemp(prefix=_ANSWER, dir=inside))
    except OSError as error:
        raise WorkerError(
            f"No folder for the conversion could be made: {error.strerror or error}.",
            cause=f"The temporary folder ({inside or tempfile.gettempdir()}) cannot be written to, "
            "or is full.",
            remedy="Make room there, or set TMPDIR to another folder.",
        ) from error


def _child_of(framework: str, reporter: Reporter) -> tuple[_Child, bool]:
    """The child of a framework, and whether it had been there before."""
    child = _children.get(framework)
    if child is not None and child.alive:
        return child, True
    close(framework)
    reporter.emit(LogLine(f"Starting {FRAMEWORKS[framework].words} in a process of its own."))
    _children[framework] = child = _Child(FRAMEWORKS[framework])
    return child, False


def _death(kind: Foreign, returncode: int | None) -> EngineError:
    how, cause = death_of(returncode)
    return WorkerError(
        f"The process in which {kind.words} converted the model {how}.",
        cause=cause,
        remedy=f"Check the model; what {kind.words} said last stands in {log_path(kind)}. "
        "The next load starts a new process.",
    )


def _decoded(line: bytes | bytearray, kind: Foreign) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict) or not ({"answer", "error"} & message.keys()):
        raise WorkerError(
            f"The process for {kind.words} answered with something else than JSON.",
            remedy="Try again; where it stays so, convert the model to ONNX and load that.",
        )
    return message
