"""The process behind a toolkit: how it is started, ended and heard.

Its folder holds ``code`` (what runs there) and all that it may write: ``work`` (its current
folder), ``home``, ``temporary`` and ``arrays``. It is confined (:mod:`engine.base.confine`) before
it imports the toolkit.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engine.base import confine
from engine.base.errors import ToolkitError, WorkerError
from engine.base.leftovers import let_go
from engine.base.paths import private_folder
from engine.base.peers import far
from engine.base.peers.child import Child
from engine.base.peers.near import LOOK_SECONDS, Peer, ladder
from engine.base.plain import JsonObject
from engine.toolkit.bridge import values, worker
from engine.toolkit.bridge.log import ToolkitLog
from engine.toolkit.environments import using
from engine.wire.vendor import ToolkitEnvironment

_TERMINATE_SECONDS = 0.5  # a command that was stopped leaves no toolkit a second later
_HANG_UP_SECONDS = 2.0
_ANSWER_LIMIT = 64 << 20
_WRITABLE = ("work", "home", "temporary", "arrays")
_BOARD_PROGRAMS = ("adb", "npu_transfer_proxy")
_DROPPED = ("PYTHON", "XDG_", "LC_", "VIRTUAL_ENV", "CONDA_", "LANG")


@dataclass(frozen=True)
class Reach:
    """What a toolkit needs beside its own folder.

    Attributes:
        files: and folders that it reads.
        board: whether it talks to a board: by the network, USB, adb or the vendor's proxy.
    """

    files: tuple[Path, ...] = ()
    board: bool = False


class ToolkitProcess:
    """A process with the far side of the bridge, in a session of its own.

    It ends with this process, however that ends.

    Args:
        environment: of the toolkit.
        folder: of the process, made by :func:`engine.base.leftovers.make_owned`; removed at its
            end.
        log: takes what it prints; closed at its end.
        memory: bytes of private memory that it may have; None: no limit.
        reach: what it needs beside its folder.

    Attributes:
        work, arrays: parts of its folder.

    Raises:
        ToolkitError: its Python does not start, or its environment is being removed.
        OSError: the folder cannot be filled.
    """

    def __init__(
        self,
        environment: ToolkitEnvironment,
        folder: Path,
        log: ToolkitLog,
        memory: int | None,
        reach: Reach,
    ) -> None:
        self._folder, self._log, self._owner = folder, log, os.getpid()
        self.work = private_folder(folder / "work")
        self.arrays = private_folder(folder / "arrays")
        code = _copy_code(folder)
        with contextlib.ExitStack() as undo:
            undo.enter_context(using(environment))  # `vendor remove` says then that it is in use
            theirs, self._lifeline = os.pipe()
            undo.callback(os.close, self._lifeline)
            try:
                self._child = self._start(environment, code, theirs, memory, reach)
            finally:
                os.close(theirs)
            self._held = undo.pop_all()

    @property
    def peer(self) -> Peer:
        """Who is asked."""
        return self._child.peer

    @property
    def pid(self) -> int:
        """Its number."""
        return self._child.process.pid

    def hear(self) -> None:
        """Take what it has printed by now."""
        if self._lifeline >= 0:
            self._child.peer.hear()

    def stop(self) -> None:
        """End it and all that it started: terminated, then killed.

        Nothing can be cancelled in there: native code hears nobody.
        """
        peer = self.peer
        self._signal(signal.SIGTERM)
        over = lambda: not peer.open  # noqa: E731
        for seconds in ladder(over, [partial(self._signal, signal.SIGKILL)], _TERMINATE_SECONDS):
            peer.pump(seconds)
        self.end(kill=True)

    def returncode(self, seconds: float = 1.0) -> int | None:
        """Its exit code, where it ends within so long; what it started is killed."""
        end = time.monotonic() + seconds
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT  # its number stays its own until it is reaped
        while time.monotonic() < end:
            with contextlib.suppress(ChildProcessError):
                if os.waitid(os.P_PID, self.pid, flags) is None:
                    time.sleep(LOOK_SECONDS / 10)
                    continue
            break
        self._signal(signal.SIGKILL)
        return self._child.returncode()

    def end(self, *, kill: bool) -> None:
        """Let it go, or kill it; nothing of it is left but the log. Twice is no error."""
        if self._lifeline < 0 or os.getpid() != self._owner:  # a fork's copy ends nothing
            return
        if self.peer.open and not kill:
            self.peer.hang_up()
            self.returncode(_HANG_UP_SECONDS)
        self._signal(signal.SIGKILL)
        self.hear()
        self._child.end(kill=True)
        self._log.close()
        self._held.close()
        self._lifeline = -1
        let_go(self._folder)

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and all that it started."""
        if self._child.process.returncode is None:  # not reaped: the number is still its own
            with contextlib.suppress(OSError):
                os.killpg(self.pid, number)

    def _start(
        self,
        environment: ToolkitEnvironment,
        code: Path,
        lifeline: int,
        memory: int | None,
        reach: Reach,
    ) -> Child:
        variables = _variables(self._folder)
        settings = {
            "folder": str(self.arrays),
            "work": str(self.work),
            "lifeline": lifeline,
            "memory": memory,
            "confine": _confined(self._folder, reach, variables.get("PATH")),
        }
        # -I: neither the current folder nor what the user's variables name is searched for modules
        python = [environment.python, "-I", "-B", "-u"]
        try:
            return Child(
                [*python, str(code / "worker.py"), json.dumps(settings)],
                variables,
                "The process of the toolkit",
                keep=(lifeline,),
                heard=self._log.add,
                limit=_ANSWER_LIMIT,
            )
        except WorkerError as error:
            raise ToolkitError(
                f"The Python of the toolkit could not be started: {environment.python}",
                cause=error.what,
                remedy=f"Check it: rknntui vendor check {environment.name}",
            ) from error


def _copy_code(folder: Path) -> Path:
    code = private_folder(folder / "code")
    for module in (worker, values, far):
        source = Path(str(module.__file__))
        (code / source.name).write_bytes(source.read_bytes())
    package = Path(str(confine.__file__)).parent
    shutil.copytree(package, code / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    return code


def _confined(folder: Path, reach: Reach, path: str | None) -> JsonObject:
    """Arguments of :func:`engine.base.confine.confine_toolkit`; names as they are on the disk."""
    programs = [shutil.which(name, path=path) for name in _BOARD_PROGRAMS] if reach.board else []
    return {
        "writable": [str(folder.resolve() / name) for name in _WRITABLE],
        "readable": [str(folder.resolve()), *(str(file.resolve()) for file in reach.files)],
        "programs": [program for program in programs if program is not None],
        "board": reach.board,
    }


def _variables(folder: Path) -> dict[str, str]:
    """The environment of the process: the user's, without what changes Python or the home."""
    home, temporary = private_folder(folder / "home"), private_folder(folder / "temporary")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_DROPPED)}
    return kept | {
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "LC_ALL": "C.UTF-8",
        "ORT_DISABLE_TELEMETRY": "1",
    }
