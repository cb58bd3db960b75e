"""The vendor's toolkit as a program that is asked: one process of it, in a folder of its own.

::

    with Toolkit(environments.find(2), folder, reporter) as toolkit:
        rknn = toolkit.rknn(verbose=True)
        rknn.call("config", target_platform="rk3588")
        mark = toolkit.mark
        if rknn.call("load_onnx", model=str(path)) != 0:
            raise toolkit.refused("load_onnx", mark)

Nothing of the vendor is imported here: ``bridge/worker.py`` runs in the environment of the toolkit,
and the two speak the protocol of :mod:`engine.base.peers`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from engine.base.errors import (
    CompilerError,
    EngineError,
    ToolkitError,
    UsageError,
    error_from_dict,
)
from engine.base.events import LogLine, NullReporter, Reporter
from engine.base.files import output_errors
from engine.base.leftovers import let_go, make_owned
from engine.base.paths import private_folder, state_folder
from engine.base.peers.near import PeerEndedError
from engine.base.plain import JsonObject
from engine.base.process import exit_reason
from engine.base.text import sanitize
from engine.toolkit.bridge.log import ToolkitLog, about_sandbox, new_log
from engine.toolkit.bridge.process import Reach, ToolkitProcess
from engine.toolkit.bridge.values import Arrays, Unpackable, pack, unpack
from engine.toolkit.environments.places import toolkit_words
from engine.wire.vendor import ToolkitEnvironment

_RELEASE_SECONDS = 10.0
_SILENT_SECONDS = 60.0
"""Without a word from the toolkit until it is told that it still works."""
_ENOUGH_ROOM = 1 << 20
_KEPT = 10
"""Logs of failed runs that stay; the oldest go first."""
_COMPILER_ADVICE = "Try another chip, dtype or option, or leave out the layer."
_ADVICE = dict.fromkeys(
    ("RKNN()", "list_devices", "init_runtime", "inference", "eval_perf", "eval_memory"),
    "Check the toolkit (rknntui vendor check) and, where there is one, the board and its cable.",
)


class Toolkit:
    """One process of a toolkit of the vendor. For one thread at a time; two at once are no trouble.

    Its current folder, its home and its temporary files are in a private folder, which goes at the
    end, also after a kill. It ends with this process, however that ends. Where the kernel can do it
    (:mod:`engine.base.confine`), it writes in that folder only, reads its libraries and ``reads``,
    and connects to nothing but boards.

    Args:
        environment: where the toolkit is installed.
        folder: where the private folder is made and the log stays: ``toolkit.log``, written anew,
            or ``toolkit-2.log`` where another toolkit works there now. None: among the temporary
            files, and the log with those of this program, of which the last ones stay.
        reporter: told every line that the toolkit prints; asked ten times a second whether to stop.
        memory: bytes of private memory that it may have; None: no limit.
        reads: files and folders that it reads where they are; what is in :attr:`work` needs none.
        board: whether it talks to a board.

    Attributes:
        environment: as given.
        run_folder: the private folder.
        stopped: whether it was ended while it worked, by the user or after too long a time.

    Raises:
        ToolkitError: the environment is not there, or its Python does not start.
        OutputError: the folder cannot be made.
    """

    def __init__(
        self,
        environment: ToolkitEnvironment,
        folder: Path | None = None,
        reporter: Reporter | None = None,
        *,
        memory: int | None = None,
        reads: Iterable[Path] = (),
        board: bool = False,
    ) -> None:
        self.environment = environment
        self._reporter = reporter or NullReporter()
        self.stopped = False
        self._fault: EngineError | None = None
        self._objects: list[RemoteRKNN] = []
        if not os.access(environment.python, os.X_OK):
            raise _gone(environment)
        with contextlib.ExitStack() as undo, output_errors(folder or Path(tempfile.gettempdir())):
            self.run_folder = (
                make_owned("toolkit") if folder is None else make_owned("", folder, "toolkit")
            )
            undo.callback(let_go, self.run_folder)
            self._log = (
                ToolkitLog(new_log(environment.name), reporter)
                if folder is None
                else ToolkitLog.in_folder(folder, reporter)
            )
            undo.callback(self._log.close)
            self._process = ToolkitProcess(
                environment, self.run_folder, self._log, memory, Reach(tuple(reads), board)
            )
            self._arrays = Arrays(str(self._process.arrays), "near")
            # also of one that nobody closed, at the latest with the interpreter
            weakref.finalize(self, self._process.end, kill=True)
            undo.pop_all()

    @property
    def words(self) -> str:
        """``rknn-toolkit2 2.3.2``."""
        return toolkit_words(self.environment)

    @property
    def log(self) -> Path:
        """The file of all that it printed."""
        return self._log.path

    @property
    def mark(self) -> int:
        """Where the log stands now."""
        self._process.hear()
        return self._log.mark

    def since(self, mark: int) -> str:
        """What was printed since a :attr:`mark`, without colours; of very much the end."""
        self._process.hear()
        return self._log.since(mark)

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    @property
    def work(self) -> Path:
        """Its current folder, in the private one: for files that only the toolkit needs."""
        return self._process.work

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._fault is None

    def rknn(
        self, *, verbose: bool | str = True, verbose_file: str | None = None, seconds: float = 600
    ) -> RemoteRKNN:
        """A new object of the vendor's class; the first one imports the toolkit.

        Args:
            verbose: as the class has it.
            verbose_file: the same; nothing is needed here, as all that is printed is kept.
            seconds: how long the import may take.

        Raises:
            ToolkitError: it cannot be imported.
            CompilerError: its process ended or took too long.
            JobCancelledError: the user cancelled.
        """
        params: dict[str, Any] = {"verbose": verbose}
        if verbose_file is not None:
            params["verbose_file"] = verbose_file
        answer = self._ask("make", params, "RKNN()", seconds)
        remote = RemoteRKNN(self, int(answer["object"]))
        self._objects.append(remote)
        return remote

    def refused(self, method: str, mark: int, result: object = -1) -> CompilerError:
        """The error of a method that returned something else than 0: with what it printed."""
        self._process.hear()
        said = self._log.errors() if self._log.mark > mark else ""
        said = said or self._log.last_lines(3)
        layer = self._log.layer()
        return CompilerError(
            f"{method} of the toolkit failed and returned {sanitize(repr(result), 40)}"
            + (f", at {layer}." if layer else "."),
            cause=self._circumstances()
            or (f"It said last: {said}{about_sandbox(said)}" if said else ""),
            remedy=f"All that it printed is in {self.log}.",
        )

    def close(self, *, kill: bool = False) -> None:
        """Let the process go, or kill it, and remove its folder. Twice is no error."""
        if not kill and self._fault is None:
            for one in list(self._objects):
                with contextlib.suppress(EngineError):
                    one.release(seconds=_RELEASE_SECONDS)
        self._fault = self._fault or _closed("let go")
        self._process.end(kill=kill)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(kill=kind is not None)

    def ask(
        self, object_: int, method: str, args: Any, keywords: Any, seconds: float | None
    ) -> Any:
        """As :meth:`RemoteRKNN.call`."""
        try:
            with output_errors(self._process.arrays):
                params = {
                    "object": object_,
                    "method": method,
                    "args": pack(list(args), self._arrays),
                    "keywords": {k: pack(v, self._arrays) for k, v in keywords.items()},
                }
        except Unpackable as error:
            raise UsageError(
                f"{method} cannot be asked of the toolkit's process: it was given {error}.",
                remedy="Give numbers, texts, lists, dicts and numpy arrays of numbers.",
            ) from None
        answer = self._ask("call", params, method, seconds)
        try:
            return unpack(answer.get("value"), self._arrays)
        except (Unpackable, OSError) as error:
            raise self._lost(method, f"sent {error}") from None

    def forget(self, one: RemoteRKNN) -> None:
        """An object is not used any more."""
        if one in self._objects:
            self._objects.remove(one)
            self._ask("drop", {"object": one.number}, "release", _RELEASE_SECONDS)

    def _ask(
        self, request: str, params: JsonObject, name: str, seconds: float | None
    ) -> dict[str, Any]:
        if self._fault is not None:
            raise self._fault
        peer = self._process.peer
        call = peer.request(request, params)
        try:
            reply = peer.wait(call, self._look(name, seconds))
        except PeerEndedError:
            raise self._ended(name) from None
        except BaseException as error:
            self.stopped = True
            self._process.stop()
            self._fault = error if isinstance(error, CompilerError) else _closed("stopped")
            raise
        self._process.hear()
        if "error" in reply:
            raise self._told(name, reply["error"])
        answer: dict[str, Any] = reply["result"]
        return answer

    def _look(self, name: str, seconds: float | None) -> Callable[[], None]:
        begun = time.monotonic()
        deadline = None if seconds is None else begun + seconds
        heard, since, patience = self._log.mark, begun, _SILENT_SECONDS

        def look() -> None:
            nonlocal heard, since, patience
            self._reporter.check_cancelled()
            now = time.monotonic()
            if self._log.mark != heard:
                heard, since, patience = self._log.mark, now, _SILENT_SECONDS
            elif now - since > patience:
                patience *= 2
                self._reporter.emit(LogLine(self._still(name, now - begun, now - since)))
            if deadline is not None and time.monotonic() > deadline:
                raise CompilerError(
                    f"{name} of the toolkit was stopped: it had worked for more than {seconds:g} s"
                    + self._place(),
                    cause=self._said() or "It printed nothing.",
                    remedy="Allow it more time, or use a smaller model or fewer samples.",
                )

        return look

    def _still(self, name: str, seconds: float, silent: float) -> str:
        """That it works on, where it has printed nothing for long."""
        step = self._log.step() or self._log.last_lines(1)
        last = f" It said last: {step}." if step else ""
        return (
            f"{self.words} still works on {name} after {seconds:.0f} s, and has printed nothing "
            f"for {silent:.0f} s.{last} Cancel ends it at once; --seconds sets a limit for it; a "
            "smaller input takes less time."
        )

    def _told(self, name: str, error: Mapping[str, Any]) -> EngineError:
        """The error that the far side gave, with what is known here."""
        read_error = error_from_dict(dict(error))
        if read_error.kind == "worker" or read_error.kind == "internal":
            return self._lost(name, f"answered with an error of its own: {read_error.what}")
        if isinstance(read_error, ToolkitError):
            cause = self._circumstances() or read_error.cause
            said = self._said()
            if "sandbox" not in f"{cause}{said}":  # toolkit 2 packs what was raised into a text
                said += about_sandbox(read_error.what)
            return type(read_error)(
                read_error.what,
                cause=" ".join(part.strip() for part in (cause, said) if part),
                remedy=read_error.remedy,
            )
        return read_error

    def _ended(self, name: str) -> CompilerError:
        """The process has gone, or does not keep to the protocol, instead of answering."""
        fault = self._process.peer.fault
        if fault:
            return self._lost(name, f"gave no answer that can be read: {fault}")
        returncode = self._process.returncode()
        how, cause = exit_reason(returncode)
        return self._lost(name, how, cause)

    def _lost(self, name: str, how: str, cause: str = "") -> CompilerError:
        place = self._place()
        self._process.end(kill=True)
        said = self._said()
        # "memory ran out" and the like are guesses: an error that the toolkit printed is none
        parts = (self._circumstances() or ("" if self._log.errors(1) else cause), said)
        error = CompilerError(
            f"The process of {self.words} {how} during {name}{place}",
            cause=" ".join(part for part in parts if part),
            remedy=f"All that it printed is in {self.log}. {_ADVICE.get(name, _COMPILER_ADVICE)}",
        )
        self._fault = error
        return error

    def _place(self) -> str:
        """`` at layer X, in step Y.``, as far as the log names them."""
        self._process.hear()
        layer, step = self._log.layer(), self._log.step()
        text = (f", at {layer}" if layer else "") + (f", in its step {step}" if step else "")
        return text + "."

    def _said(self) -> str:
        said = self._log.errors(2) or self._log.last_lines(3)
        return f"It said last: {said}{about_sandbox(said)}" if said else ""

    def _circumstances(self) -> str:
        """What is wrong around it, and explains most failures."""
        if not os.access(self.environment.python, os.X_OK):
            return f"Its environment {self.environment.folder} is not there any more."
        for folder in (self.run_folder, self.log.parent):
            with contextlib.suppress(OSError):
                room = os.statvfs(folder)
                if room.f_bavail * room.f_frsize < _ENOUGH_ROOM:
                    return f"The disk of {folder} is full."
        return ""


class RemoteRKNN:
    """An object of the vendor's ``RKNN`` class in the toolkit's process.

    Attributes:
        toolkit: whose it is.
        number: of it there.
    """

    def __init__(self, toolkit: Toolkit, number: int) -> None:
        self.toolkit = toolkit
        self.number = number

    def call(
        self, method: str, /, *args: Any, seconds: float | None = None, **keywords: Any
    ) -> Any:
        """Call a method by its name, with the vendor's arguments.

        Args:
            method: of :data:`engine.toolkit.bridge.worker.METHODS`.
            args, keywords: None, numbers, texts, paths, bytes, numpy arrays of numbers, and lists,
                tuples and dicts of these; a class, as ``reg_custom_op`` takes one, as a
                :class:`~engine.toolkit.bridge.values.ClassInFile`.
            seconds: how long it may take; None: no limit.

        Returns:
            What the method returns, of the same kinds: 0 and -1 are returned as they are.

        Raises:
            UsageError: there is no such method, or a value cannot be sent.
            ToolkitError: this toolkit has no such method.
            CompilerError: it raised, or its process crashed, ended, or took too long. After the
                last three the toolkit cannot be asked any more.
            OutputError: no room for its files.
            JobCancelledError: the user cancelled; the process is gone.
        """
        return self.toolkit.ask(self.number, method, args, keywords, seconds)

    def do(self, method: str, /, *args: Any, seconds: float | None = None, **keywords: Any) -> None:
        """Call a method that returns 0, or nothing.

        Raises:
            CompilerError: it returned something else, with what it printed.
            EngineError: as :meth:`call`.
        """
        mark = self.toolkit.mark
        status = self.call(method, *args, seconds=seconds, **keywords)
        if status not in (0, None):
            raise self.toolkit.refused(method, mark, status)

    def release(self, *, seconds: float | None = None) -> None:
        """Free what it holds; it cannot be used afterwards.

        Raises:
            EngineError: as :meth:`call`.
        """
        try:
            self.call("release", seconds=seconds)
        finally:
            self.toolkit.forget(self)


def _closed(how: str) -> ToolkitError:
    return ToolkitError(f"The process of the toolkit was {how}.", remedy="Start another one.")


def _gone(environment: ToolkitEnvironment) -> ToolkitError:
    return ToolkitError(
        f"The Python of the toolkit {environment.name} is not there: {environment.python}",
        cause="Its environment was removed, moved, or is not finished.",
        remedy=f"Look at it: rknntui vendor check {environment.name}. Make one: rknntui vendor "
        "install",
    )


@contextlib.contextmanager
def one_run(
    environment: ToolkitEnvironment,
    reporter: Reporter | None = None,
    *,
    reads: Iterable[Path] = (),
    board: bool = False,
) -> Iterator[RemoteRKNN]:
    """An object of a toolkit for one piece of work; arguments as of :class:`Toolkit`.

    The log stays where it fails.

    Raises:
        ToolkitError: the environment is not there, or does not start.
    """
    logs = private_folder(state_folder() / "toolkit")
    folder = private_folder(logs / f"run-{secrets.token_hex(6)}")
    try:
        with Toolkit(environment, folder, reporter, reads=reads, board=board) as toolkit:
            yield toolkit.rknn()
    except BaseException:
        _forget_old(logs)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _forget_old(logs: Path) -> None:
    with contextlib.suppress(OSError):
        kept = sorted(logs.glob("run-*"), key=lambda path: path.stat().st_mtime)
        for old in kept[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
