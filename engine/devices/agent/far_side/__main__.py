"""The agent: ``python3 AGENT`` converses; ``python3 AGENT --request IN --reply OUT`` runs once.

See :mod:`engine.base.peers.far` for the protocol. One-shot mode is for boards whose ``adbd`` gives
a program no streams of its own: IN holds ``{"requests": [[method, params]..], "seconds": S}``, OUT
``{"answers": [{"result"}|{"error"}..]}``, written whole. With ``seconds`` it ends after so long,
and the answers that are missing by then are errors.
"""

import functools
import json
import os
import signal
import sys
import threading
from typing import Any, Callable, Dict, List

from engine.base.peers.far import FarEnd, Message, Refused, Request, outcome, take_streams
from engine.devices.agent.far_side import files
from engine.devices.agent.far_side.noise import Noise
from engine.devices.agent.far_side.session import Session

__all__ = ["main"]

_BESIDE = ("read", "watch", "digest")
"""Methods that are answered at once, whatever the NPU does."""

_MOST_BESIDE = 8

Methods = Dict[str, Callable[[Any], Message]]


def main(arguments: List[str]) -> int:
    """Serve one conversation or one file of requests; the exit code."""
    noise = Noise()
    clocks = files.Clocks()
    session = Session(noise)
    methods = {
        "open": session.open,
        "run": session.run,
        "memory": session.memory,
        "close": session.close,
        "read": lambda request: files.read(request.params),
        "watch": files.watch,
        "write_clocks": lambda request: clocks.write(request.params),
        "restore_clocks": lambda request: clocks.restore(request.params),
        "digest": lambda request: files.digest(request.params),
    }  # type: Methods
    ending = Ending(noise, clocks)
    if len(arguments) == 4 and arguments[0] == "--request" and arguments[2] == "--reply":
        take_streams(noise.descriptor)
        ending.listen()
        noise.start()
        OneShot(methods, ending).serve(arguments[1], arguments[3])
        return 0
    if arguments:
        sys.stderr.write("usage: AGENT [--request IN.json --reply OUT.json]\n")
        return 2
    reads, writes = take_streams(noise.descriptor)
    ending.listen()
    noise.start()
    Conversation(methods).serve(reads, writes, ending)
    return 0


class Ending:
    """The end of this process, whatever its main thread does.

    Clocks are restored before it, but after a file of requests: those that follow are another
    process, and who asked restores them, at the next start at the latest.
    """

    def __init__(self, noise: Noise, clocks: files.Clocks) -> None:
        self._noise = noise
        self._clocks = clocks
        self._lock = threading.Lock()

    def listen(self) -> None:
        """Hear signals in a thread: one that is in a call of the library hears none.

        Before any other thread starts: one that does not block them would end the process.
        """
        signals = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        thread = threading.Thread(target=self._hear, args=(signals,), name="signals", daemon=True)
        thread.start()

    def _hear(self, signals: List[signal.Signals]) -> None:
        number = signal.sigwait(signals)
        self.now(128 + int(number))

    def now(self, code: int = 0, restore: bool = True) -> None:
        """End."""
        with self._lock:  # two threads may come here; the second waits for the end
            try:
                if restore:
                    self._clocks.restore_all()
                self._noise.drain()
            finally:
                os._exit(code)


class Conversation:
    """Requests from the input until it ends, and the process with it."""

    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        self._room = threading.Semaphore(_MOST_BESIDE)

    def serve(self, reads: int, writes: int, ending: Ending) -> None:
        """Serve; it does not come back."""
        far = FarEnd(reads, writes, accept=self._beside, ended=ending.now)
        far.serve(self._methods)
        ending.now()

    def _beside(self, request: Request) -> bool:
        if request.method not in _BESIDE:
            return False
        if not self._room.acquire(blocking=False):
            what = "More than {} requests are under way.".format(_MOST_BESIDE)
            request.answer({"error": Refused(what, kind="device").said})
            return True
        threading.Thread(target=self._answer, args=(request,), daemon=True).start()
        return True

    def _answer(self, request: Request) -> None:
        method = self._methods[request.method]
        try:
            request.answer(outcome(functools.partial(method, request)))
        finally:
            self._room.release()


class Asked:
    """A request of one-shot mode: nobody hears its progress, and nobody cancels it."""

    cancelled = False

    def __init__(self, params: Any) -> None:
        self.params = params if isinstance(params, dict) else {}  # type: Message

    def check_cancelled(self) -> None:
        """Nobody cancels it."""

    def progress(self, content: Message) -> None:
        """Nobody hears it."""


class OneShot:
    """Requests of a file, answered by a file."""

    def __init__(self, methods: Methods, ending: Ending) -> None:
        self._methods = methods
        self._ending = ending
        self._answers = []  # type: List[Message]
        self._lock = threading.Lock()

    def serve(self, request: str, reply: str) -> None:
        """Answer all; it does not come back."""
        asked, seconds = _requests(request)
        if seconds is not None:
            late = threading.Timer(seconds, self._late, args=(len(asked), seconds, reply))
            late.daemon = True
            late.start()
        for method, params in asked:
            function = self._methods.get(method)
            if function is None or method == "watch":
                what = "There is no method {!r} in one-shot mode.".format(method[:80])
                self._answers.append({"error": Refused(what, kind="device").said})
            else:
                self._answers.append(outcome(functools.partial(function, Asked(params))))
        self._finish(self._answers, reply)

    def _late(self, count: int, seconds: float, reply: str) -> None:
        what = "It was not finished after {:g} s.".format(seconds)
        cause = "The NPU hangs, or the time was too short."
        late = {"error": Refused(what, cause, kind="device").said}
        answers = list(self._answers)
        self._finish(answers + [late] * (count - len(answers)), reply)

    def _finish(self, answers: List[Message], reply: str) -> None:
        with self._lock:
            text = json.dumps({"answers": answers}, separators=(",", ":"))
            try:
                files.write_whole(reply, text.encode("ascii"))
            finally:
                self._ending.now(restore=False)


def _requests(path: str) -> Any:
    """Pairs of method and parameters, and the seconds, of a file of requests."""
    try:
        with open(path, "rb") as stream:
            content = json.loads(stream.read(1 << 24).decode("utf-8"))
        asked = [(str(method), params) for method, params in content["requests"]]
        seconds = content.get("seconds")
        return asked, None if seconds is None else float(seconds)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        sys.stderr.write("{}: {}\n".format(path, error))
        os._exit(2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
