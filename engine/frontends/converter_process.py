"""Converter processes: a framework's own code converts in a warm child; torch and TensorFlow load
there.

A child is a far end (:mod:`engine.base.peers`) with one method, ``convert``, whose parameters are
``{"request": {...}, "out": "/.../model.onnx", "seconds": 60, "growth": 1073741824, "reads": []}``.
One that crashes, hangs or eats memory costs one call: the next one starts another. Standard library
only.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from engine.base.errors import SourceModelError, WorkerError, error_from_dict
from engine.base.events import LogLine, Reporter
from engine.base.leftovers import OWNER, let_go, let_go_empty, make_owned
from engine.base.paths import state_folder
from engine.base.peers.child import Child
from engine.base.peers.far import Message
from engine.base.peers.limits import resident_bytes
from engine.base.peers.near import LOOK_SECONDS, PeerEndedError
from engine.base.plain import JsonObject
from engine.base.process import child_environment, engine_command
from engine.base.version import install_line

_ANSWER_LIMIT = 64 << 20
_DEFAULT_GROWTH = 1 << 30
# a child that holds more than this beyond its framework is not kept: it gives nothing back
_KEPT_GROWTH = 1 << 30
_MODULE = "engine.frontends.converter_child"
_ANSWER = "answer-"
_FILE = "model.onnx"


@dataclass(frozen=True)
class Converter:
    """A framework whose own code converts its models.

    Attributes:
        words: its name, as a user knows it.
        child: module with ``convert(request: dict, out: Path) -> dict``, imported there only.
        needs: modules that the child imports.
        extra: of this program, which brings them.
        environment: variables of the child.
        resident: bytes that a child has once the framework is imported.
    """

    words: str
    child: str
    needs: tuple[str, ...] = ()
    extra: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    resident: int = 0


FRAMEWORKS: dict[str, Converter] = {
    "tensorflow": Converter(
        "TensorFlow",
        "engine.frontends.tensorflow.child",
        ("tensorflow", "tf2onnx"),
        "tensorflow",
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
    "pytorch": Converter(
        "PyTorch",
        "engine.frontends.pytorch.child",
        ("torch", "onnxscript"),
        "torch",
        {"CUDA_VISIBLE_DEVICES": "-1"},
        resident=500 << 20,
    ),
}


class _Converter:
    """A child process, and the folder that it may write in."""

    def __init__(self, kind: Converter) -> None:
        self.kind = kind
        self.folder = _new_folder(None)
        own = {"TMPDIR": str(self.folder), **kind.environment}
        arguments = (kind.child, str(log_path(kind)), str(self.folder))
        try:
            self.child = Child(
                engine_command(_MODULE, *arguments),
                child_environment(os.environ | own),
                f"The process for {kind.words}",
                limit=_ANSWER_LIMIT,
            )
        except WorkerError:
            let_go(self.folder)
            raise

    def ask(self, order: Message, out: Path, reporter: Reporter) -> Message:
        """Send a request and wait for its answer, looking after the child meanwhile.

        Raises:
            PeerEndedError: it ended instead of answering.
            WorkerError: it took longer than ``seconds`` or ``growth`` bytes more than before, or
                answered with something else.
            JobCancelledError: as ``reporter`` says.
        """
        words, pid = self.kind.words, self.child.process.pid
        seconds, growth = order["seconds"], order["growth"]
        ceiling = max(resident_bytes(pid), self.kind.resident) + growth
        deadline = time.monotonic() + seconds

        def look() -> None:
            reporter.check_cancelled()
            if time.monotonic() > deadline:
                raise WorkerError(
                    f"{words} was stopped: it had worked for more than {seconds:.0f} s.",
                    cause="The model is very large, or it sends the converter in circles.",
                    remedy="Try again on a quieter machine, or convert the model to ONNX and load "
                    "that.",
                )
            if resident_bytes(pid) > ceiling:
                raise WorkerError(
                    f"{words} was stopped: it had taken more than {growth >> 20} MiB of memory.",
                    cause="The model is damaged, or larger than this program expects of such a "
                    "file.",
                    remedy="Check the file, or convert the model to ONNX and load that.",
                )

        peer = self.child.peer
        try:
            return peer.wait(peer.request("convert", {**order, "out": str(out)}), look)
        except PeerEndedError:
            if not peer.fault:
                raise
            raise WorkerError(
                f"The process for {words} gave no answer that can be read: {peer.fault}.",
                remedy="Try again; where it stays so, convert the model to ONNX and load that.",
            ) from None

    def end(self, *, kill: bool) -> None:
        """Let it go or kill it; it is gone afterwards, and so is what it left but for answers."""
        self.child.end(kill=kill)
        with contextlib.suppress(OSError):  # what it left beside its answers
            for left in self.folder.iterdir():
                if not left.name.startswith((_ANSWER, OWNER)):
                    left.unlink() if not left.is_dir() else shutil.rmtree(left)
        let_go_empty(self.folder)  # an answer may still be read: then its reader does it


_children: dict[str, _Converter] = {}
_locks: dict[str, threading.Lock] = {name: threading.Lock() for name in FRAMEWORKS}


@contextlib.contextmanager
def convert(
    framework: str,
    request: JsonObject,
    reporter: Reporter,
    *,
    seconds: float = 60,
    growth: int = _DEFAULT_GROWTH,
    reads: Sequence[Path] = (),
) -> Iterator[tuple[Path, Message]]:
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
    order: Message = {
        "request": dict(request),
        "seconds": seconds,
        "growth": growth,
        "reads": [str(path.resolve()) for path in reads],
    }
    folders: list[Path] = []
    try:
        with _turn(framework, reporter):
            answer = _asked(framework, order, reporter, folders)
        yield folders[-1] / _FILE, answer
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            # only where the child has gone, and all of it
            if folder.parent not in [one.folder for one in _children.values()]:
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
            remedy=install_line(kind.extra),
        )


def close(framework: str | None = None) -> None:
    """Let the warm children go: one, or all of them."""
    for name in [framework] if framework is not None else list(_children):
        converter = _children.pop(name, None)
        if converter is not None:
            converter.end(kill=False)


atexit.register(close)


def log_path(kind: Converter) -> Path:
    """Where everything goes that the framework prints."""
    return state_folder() / "logs" / f"{kind.words.lower()}.log"


@contextlib.contextmanager
def _turn(framework: str, reporter: Reporter) -> Iterator[None]:
    """Wait until no other thread uses the child."""
    lock = _locks.setdefault(framework, threading.Lock())
    while not lock.acquire(timeout=LOOK_SECONDS):
        reporter.check_cancelled()
    try:
        yield
    finally:
        lock.release()


def _asked(framework: str, order: Message, reporter: Reporter, folders: list[Path]) -> Message:
    """The answer of the child; ``folders`` gets those that it may have written in."""
    kind = FRAMEWORKS[framework]
    converter, warm = _converter_of(framework, reporter)
    try:
        try:
            reply = converter.ask(order, _file_in(converter, folders), reporter)
        except PeerEndedError:
            if not (warm and converter.child.returncode() == 0):
                raise
            # its two minutes were over while the request was on its way
            close(framework)
            converter, _ = _converter_of(framework, reporter)
            reply = converter.ask(order, _file_in(converter, folders), reporter)
    except BaseException as error:
        _children.pop(framework, None)
        returncode = converter.child.returncode() if isinstance(error, PeerEndedError) else None
        converter.end(kill=True)
        if isinstance(error, PeerEndedError):
            raise converter.child.lost(
                f"The process in which {kind.words} converted the model",
                returncode,
                f"Check the model; what {kind.words} said last stands in {log_path(kind)}. "
                "The next load starts a new process.",
            ) from None
        raise
    if resident_bytes(converter.child.process.pid) > kind.resident + _KEPT_GROWTH:
        close(framework)
    if "error" in reply:
        raise error_from_dict(reply["error"])
    answer: Message = reply["result"]
    return answer


def _file_in(converter: _Converter, folders: list[Path]) -> Path:
    """Where an answer is written: in a new folder, which ``folders`` gets."""
    folders.append(_new_folder(converter.folder))
    return folders[-1] / _FILE


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


def _converter_of(framework: str, reporter: Reporter) -> tuple[_Converter, bool]:
    """The child of a framework, and whether it had been there before."""
    converter = _children.get(framework)
    if converter is not None and converter.child.alive:
        return converter, True
    close(framework)
    reporter.emit(LogLine(f"Starting {FRAMEWORKS[framework].words} in a process of its own."))
    _children[framework] = converter = _Converter(FRAMEWORKS[framework])
    return converter, False
