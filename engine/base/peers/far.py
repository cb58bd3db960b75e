"""The far end: reads requests, runs them and answers, one JSON object a line in both directions.

One file, standard library only, in the language of Python 3.5: it is a part of the engine, and it
is copied as it is beside a script for a vendor's environment. The agent on boards speaks the same
protocol, in C.

To the far end:
    ``{"id": 7, "method": "load", "params": {...}}``: a request;
    ``{"cancel": 7}``: nobody waits for its answer any more.
From it:
    ``{"ready": true, "protocol": 1, "pid": .., "python": "3.8.18", "machine": "aarch64"}``: first;
    ``{"id": 7, "result": {...}}`` or ``{"id": 7, "error": {kind, what, cause, remedy}}``: the
    answer;
    ``{"id": 7, ...}`` without one of these: progress of that request;
    anything without an id: a notice that belongs to no request.
Tensors travel as files whose paths are in the messages.
"""

import _thread
import functools
import gc
import json
import math
import os
import queue
import sys
import threading
import traceback
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

PROTOCOL = 1

LINE_LIMIT = 256 << 20
"""Longest line that is read, in bytes."""

_CHUNK = 1 << 16

BROKEN = 12
"""Exit code of a process that cannot tell any more what happened."""

_START_SECONDS = 30.0

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
"""Parameters of ``mallopt``, by <malloc.h> of glibc."""
_KEPT_BLOCK, _KEPT_HEAP = 64 << 20, 256 << 20
_OBJECTS = 10000

Message = Dict[str, Any]

# its put is safe in a signal handler; before Python 3.7 there is none
_Queue = getattr(queue, "SimpleQueue", queue.Queue)  # type: Any


class ProtocolError(ValueError):
    """A line that is not of this protocol; the text says why."""


class Refused(Exception):  # noqa: N818 - it is an answer
    """What a method raises to tell the user what is wrong, in the parts of the engine's errors."""

    def __init__(self, what: str, cause: str = "", remedy: str = "", kind: str = "worker") -> None:
        super().__init__(what)
        self.said = {"kind": kind, "what": what, "cause": cause, "remedy": remedy}


def _finite(value: Any) -> Any:
    """``value`` with None in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def encode(message: Message) -> bytes:
    """One line; numbers that JSON does not have become null."""
    try:
        text = json.dumps(message, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(message), separators=(",", ":"), allow_nan=False)
    return text.encode("ascii") + b"\n"


def decode(line: bytes) -> Message:
    """The message of a line.

    Raises:
        ProtocolError: it is not a JSON object.
    """
    try:
        message = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a line is not JSON") from error
    if not isinstance(message, dict):
        raise ProtocolError("a line is not an object")
    return message


class Lasting:
    """A daemon thread that its process cannot do without: where it fails, the process ends.

    :class:`threading.Thread` is not used: its ``start`` waits without end for a thread that had no
    memory for its first steps (https://github.com/python/cpython/issues/140746), and nobody
    misses one that fails later. The near end hears of a process that ended.

    Args:
        function: what it does.
    """

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._begun = threading.Event()
        self._over = threading.Event()

    def start(self) -> "Lasting":
        """Start it.

        Raises:
            RuntimeError: the system has no thread left.
        """
        _thread.start_new_thread(self._run, ())
        if not self._begun.wait(_START_SECONDS):
            os._exit(BROKEN)
        return self

    def join(self, seconds: float) -> bool:
        """Wait for its end, for so long at most; whether it is over."""
        return self._over.wait(seconds)

    def _run(self) -> None:
        try:
            self._begun.set()
            self._function()
            self._over.set()
        except BaseException:  # noqa: BLE001 - such as memory that is too short for the error itself
            try:
                traceback.print_exc()
            finally:
                os._exit(BROKEN)


class Lines:
    """Cuts a stream of bytes into lines; one that is too long takes no memory.

    Args:
        limit: the longest line, in bytes.
    """

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._parts = []  # type: List[bytes]
        self._size = 0

    @property
    def overlong(self) -> bool:
        """Whether the line that has begun is already too long."""
        return self._size > self._limit

    def feed(self, data: bytes) -> List[Optional[bytes]]:
        """The lines that end in ``data``; None in place of one that was too long."""
        lines = []  # type: List[Optional[bytes]]
        *ends, rest = data.split(b"\n")
        for part in ends:
            self._add(part)
            lines.append(None if self.overlong else b"".join(self._parts))
            self._parts, self._size = [], 0
        self._add(rest)
        return lines

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self.overlong:
            self._parts = []
        elif part:
            self._parts.append(part)


class Request:
    """A request under way.

    Attributes:
        number: its id.
        method: what is asked.
        params: its arguments.
        cancelled: whether nobody waits for the answer any more.
    """

    def __init__(self, far: "FarEnd", message: Message) -> None:
        self._far = far
        number = message.get("id")
        self.number = number if isinstance(number, int) else None
        self.method = str(message.get("method"))
        params = message.get("params")
        self.params = dict(params) if isinstance(params, dict) else {}  # type: Message
        self.cancelled = False

    def check_cancelled(self) -> None:
        """End here where the request was cancelled.

        Raises:
            Refused: it was.
        """
        if self.cancelled:
            raise Refused("The request was cancelled.", kind="cancelled")

    def progress(self, content: Message) -> None:
        """Tell something before the answer."""
        self._far.send(dict(content, id=self.number))

    def answer(self, message: Message) -> None:
        """Send the answer: ``result`` or ``error``."""
        self._far.forget(self)
        try:
            self._far.send(dict(message, id=self.number))
        except Exception as error:  # noqa: BLE001 - it is no JSON, or too large to be written
            self._far.send({"id": self.number, "error": describe(error)})


def outcome(
    function: Callable[[], Message],
    describe_error: Optional[Callable[[Exception], Message]] = None,
) -> Message:
    """What answers a request: the ``result`` that ``function`` returns, or the ``error``."""
    try:
        return {"result": function()}
    except Exception as error:  # noqa: BLE001 - nobody else would tell the user
        return {"error": (describe_error or describe)(error)}


def describe(error: Exception) -> Message:
    """An exception as the ``error`` of an answer; a mistake's traceback goes to stderr."""
    if isinstance(error, Refused):
        return dict(error.said)
    traceback.print_exception(type(error), error, error.__traceback__)
    what = "{}: {}".format(type(error).__name__, error)
    remedy = "Report it with what the program wrote to its log."
    return {"kind": "internal", "what": what, "cause": "", "remedy": remedy}


class FarEnd:
    """Requests come in by a thread of its own, and messages go out by another.

    A near end that does not read stops nobody; one that has gone is noticed at once.

    Args:
        reads: descriptor of the requests.
        writes: descriptor of the messages.
        accept: shown each request by the reading thread; True where it keeps it, so that
            :meth:`next` does not give it.
        ended: called by the reading thread at the end of the input. Without it the process ends
            there, whatever it does.
        limit: the longest line, in bytes.
    """

    def __init__(
        self,
        reads: int,
        writes: int,
        accept: Optional[Callable[[Request], bool]] = None,
        ended: Optional[Callable[[], None]] = None,
        limit: int = LINE_LIMIT,
    ) -> None:
        self._reads = reads
        self._writes = writes
        self._accept = accept
        self._ended = ended
        self._lines = Lines(limit)
        self._asked = _Queue()
        self._outgoing = _Queue()
        self._under_way = {}  # type: Dict[Optional[int], Request]
        self._told = {}  # type: Dict[str, bool]
        self._writer = Lasting(self._write)

    def start(self) -> None:
        """Greet the near end and serve."""
        self.send(
            {
                "ready": True,
                "protocol": PROTOCOL,
                "pid": os.getpid(),
                "python": "{}.{}.{}".format(*sys.version_info[:3]),
                "machine": os.uname().machine,
            }
        )
        self._writer.start()
        Lasting(self._read).start()

    def next(self, seconds: Optional[float] = None) -> Optional[Request]:
        """Wait for a request; None at the end of the input, or where none came for so long."""
        try:
            request = self._asked.get(timeout=seconds)  # type: Optional[Request]
        except queue.Empty:
            return None
        return request

    def serve(self, methods: Mapping[str, Callable[[Request], Message]]) -> None:
        """Answer one request after another by the function of its method, until the input ends."""
        self.start()
        for request in iter(self.next, None):
            function = methods.get(request.method)
            if function is None:
                known = ", ".join(sorted(methods))
                what = "There is no method {!r}; there are {}.".format(request.method[:80], known)
                request.answer({"error": Refused(what).said})
            else:
                request.answer(outcome(functools.partial(function, request)))
        self.close()

    def send(self, message: Message, once: str = "") -> None:
        """Queue a message; with a key ``once`` only where no other of that key still waits."""
        if once in self._told:
            return
        line = encode(message)
        if once:
            self._told[once] = True
        self._outgoing.put((line, functools.partial(self._told.pop, once, None)))

    def flush(self, seconds: float) -> None:
        """Wait until what is queued by now is written, for so long at most.

        Needed before native code that keeps the interpreter's lock from the writing thread.
        """
        written = threading.Event()
        self._outgoing.put((b"", written.set))
        written.wait(seconds)

    def forget(self, request: Request) -> None:
        """The request is answered: it can no longer be cancelled."""
        self._under_way.pop(request.number, None)

    def close(self, seconds: float = 2.0) -> None:
        """Write what is queued, for so long at most."""
        self._outgoing.put(None)
        self._writer.join(seconds)

    def _read(self) -> None:
        try:
            while True:
                data = os.read(self._reads, _CHUNK)
                if not data:
                    break
                for line in self._lines.feed(data):
                    self._take(line)
        except OSError:
            pass
        if self._ended is None:
            os._exit(0)
        self._asked.put(None)
        self._ended()

    def _take(self, line: Optional[bytes]) -> None:
        try:
            if line is None:
                raise ProtocolError("a line is too long")
            message = decode(line)
        except ProtocolError as error:
            what = "A line of the protocol could not be read: {}.".format(error)
            self.send({"error": Refused(what).said})
            return
        if "cancel" in message:
            number = message["cancel"]
            request = self._under_way.get(number) if isinstance(number, int) else None
            if request is not None:
                request.cancelled = True
            return
        request = Request(self, message)
        if request.number is not None:
            self._under_way[request.number] = request
        if self._accept is None or not self._accept(request):
            self._asked.put(request)

    def _write(self) -> None:
        while True:
            item = self._outgoing.get()  # type: Optional[Tuple[bytes, Callable[[], object]]]
            if item is None:
                return
            line, tell = item
            tell()
            rest = memoryview(line)
            try:
                while rest:
                    rest = rest[os.write(self._writes, rest) :]
            except OSError:  # nobody reads any more; what runs goes on
                self._writes = -1


def take_streams(noise: Optional[int] = None) -> Tuple[int, int]:
    """Descriptors 0 and 1 under other numbers, out of reach of libraries that read and print.

    Args:
        noise: descriptor for what is written to 1 and 2 from now on; None sends both to 2.

    Returns:
        The descriptors for :class:`FarEnd`.
    """
    reads, writes = os.dup(0), os.dup(1)
    silence = os.open(os.devnull, os.O_RDONLY)
    os.dup2(silence, 0)
    os.close(silence)
    os.dup2(2 if noise is None else noise, 1)
    if noise is not None:
        os.dup2(noise, 2)
    return reads, writes


def keep_memory() -> None:
    """Have this process keep what it frees for what it takes next, and look for garbage less often.

    The graph of ResNet-18 is written and read several times: glibc maps each copy (45 MB) anew, and
    a third of the system's time in a build is pages that are mapped. Blocks above 64 MiB still go
    back at once, and :func:`engine.base.peers.limits.trim` gives back the rest. The garbage
    collector looks at every 700 new objects by default: making a graph or importing a framework
    makes millions, and none of it is garbage.
    """
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes

        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, ImportError):  # another C library
        return
    # glibc before 2.35 takes half of it at most; one that takes neither stays as it is
    for block in (_KEPT_BLOCK, _KEPT_BLOCK // 2):
        if mallopt(_MMAP_THRESHOLD, block):
            mallopt(_TRIM_THRESHOLD, _KEPT_HEAP)
            return
