"""A Dask cluster that runs tasks of JSON text: local by default, another one by its address.

Dask's own wire format pickles: whoever can speak to a scheduler, a worker or a client can run code
as its owner. What it carries here is the name of one function of this program and JSON text in both
directions, always over TLS where both sides show a certificate. Loopback alone keeps nobody out: a
machine's other users reach it too. A local cluster's certificate and key are made for that one
sweep and known to its processes only; nothing of it speaks HTTP.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import queue
import resource
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Nanny, Scheduler, Worker

from engine.base.errors import UsageError, WorkerError
from engine.base.events import Reporter
from engine.base.files import read_bounded
from engine.base.leftovers import owned_folder
from engine.base.text import sanitize
from engine.base.version import install_line

_LOOK_SECONDS = 0.1
_CONNECT_SECONDS = 15
_PEM_LIMIT = 1 << 20
_START_SECONDS = 60.0
_START_SECONDS_EACH = 5.0
_END_SECONDS = 30.0
# open files of this process, as counted: the scheduler's and the client's, and each worker's
_FILES = 24
_FILES_EACH = 12
_CONFIG = {
    # a task whose process dies is told as failed; it would die again
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.diagnostics.nvml": False,
    "distributed.logging.distributed": "error",
    "distributed.worker.daemon": True,
}


@dataclass(frozen=True)
class ClusterAddress:
    """Where a cluster is, and the files that prove who speaks.

    Attributes:
        address: of its scheduler, as ``tls://host:8786``.
        authority, certificate, key: PEM files: of the authority, and of this client.
    """

    address: str
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def check(self) -> None:
        """Refuse a way that others could read or speak on.

        Raises:
            UsageError: the address is not TLS (also where it is of this machine), a file is
                missing, or the key has a password.
        """
        scheme, _, host = self.address.partition("://")
        if scheme not in ("tls", "tcp") or not host:
            raise UsageError(
                f"{sanitize(self.address, 80)!r} is not an address of a Dask scheduler.",
                remedy="Give it as tls://HOST:8786.",
            )
        if scheme == "tcp":
            raise UsageError(
                f"{sanitize(self.address, 80)} is not encrypted.",
                cause="Dask's messages are Python objects: whoever can speak to a client or a "
                "scheduler can run programs there. On loopback every user of the machine can.",
                remedy="Start the cluster with TLS and give its address as tls://..., with the "
                "files of authority, certificate and key; or leave the address out.",
            )
        files = (self.authority, self.certificate, self.key)
        if not all(path is not None and path.is_file() for path in files):
            raise UsageError(
                "A TLS cluster needs three files: authority, certificate and key.",
                remedy="Give all three as PEM files that exist.",
            )
        # OpenSSL would ask for the password at the terminal, where nobody waits for it
        if self.key is not None and b"ENCRYPTED" in read_bounded(self.key, _PEM_LIMIT, "a key"):
            raise UsageError(
                f"The key {sanitize(str(self.key))} has a password.",
                cause="Nobody can type it while the sweep connects.",
                remedy="Give a key file without a password that only you may read.",
            )


class Cluster:
    """Runs tasks; made by :func:`open_cluster`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(
        self, function: Callable[[str], str], texts: Mapping[int, str], reporter: Reporter
    ) -> Iterator[tuple[int, str | Exception]]:
        """Run ``function`` on every text; yield (number, answer or what went wrong) as they end.

        Ends early, without what is not done yet, where the reporter says so.

        Raises:
            JobCancelledError: the user cancelled.
            WorkerError: the cluster went away.
        """
        from distributed import wait

        futures = {
            self._client.submit(function, text, pure=False): number
            for number, text in texts.items()
        }
        try:
            while futures:
                reporter.check_cancelled()
                if reporter.finish_requested():
                    return
                with contextlib.suppress(TimeoutError), self._client.as_current():
                    wait(list(futures), timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED")
                for future in [future for future in futures if future.done()]:
                    yield futures.pop(future), self._answer(future)
        finally:
            self._client.cancel(list(futures), force=True)

    def _answer(self, future: Any) -> str | Exception:
        if future.status == "cancelled":
            raise WorkerError(
                "The cluster went away while tasks were running.",
                cause="Its scheduler ended, or the connection was lost.",
                remedy="Start it again; finished stages are taken from the caches.",
            )
        error = future.exception()
        if error is None:
            return str(future.result())
        return (
            error
            if isinstance(error, Exception)
            else WorkerError(
                sanitize(repr(error), 300),
                remedy="Build only this combination; its log has the details.",
            )
        )


@contextlib.contextmanager
def open_cluster(where: ClusterAddress | None, workers: int) -> Iterator[Cluster]:
    """A cluster for as long as the context lasts.

    Args:
        where: of a cluster that runs; None starts one of processes on this machine, on loopback,
            over TLS with a certificate of its own, and without HTTP. Its processes write to one
            folder of the user's own (0700), gone at the end, and import nothing from it.
        workers: processes of the local one, of one thread each.

    Raises:
        UsageError: Dask is not installed, or the address does not do.
        WorkerError: the cluster does not answer.
    """
    needs = {"distributed": "Dask"} | ({} if where else {"cryptography": "cryptography"})
    missing = [words for name, words in needs.items() if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"A sweep needs {' and '.join(missing)}, which is not installed.",
            cause="Sweeps are an extra of this program.",
            remedy=install_line("sweep"),
        )
    if where is not None:
        where.check()
    import dask
    from distributed import Client

    with contextlib.ExitStack() as stack:
        try:
            # Dask's own place is one in TMPDIR whose name every user knows: whoever makes it first
            # owns what every node reads, locks and imports
            own = stack.enter_context(owned_folder("sweep"))
        except OSError as error:
            raise WorkerError(
                "The folder of the sweep could not be made.",
                cause=f"The folder for temporary files: {sanitize(str(error), 200)}",
                remedy="Make room there, or set TMPDIR to another folder.",
            ) from error
        stack.enter_context(dask.config.set({**_CONFIG, "temporary-directory": str(own)}))
        target, security = _local(stack, workers, own) if where is None else _remote(where)
        try:
            client = stack.enter_context(
                Client(
                    target,
                    security=security,
                    timeout=_CONNECT_SECONDS,
                    set_as_default=False,
                    heartbeat_interval="5s",
                )
            )
        except (OSError, TimeoutError, ValueError) as error:
            raise WorkerError(
                f"The Dask cluster does not answer: {sanitize(str(error), 200)}",
                cause="The address is wrong, its scheduler is not running, or its certificate is "
                "of another authority.",
                remedy="Check the address and the three PEM files, or leave the address out.",
            ) from error
        yield Cluster(client)


def _local(stack: contextlib.ExitStack, workers: int, own: Path) -> tuple[Any, Any]:
    from distributed import Security, SpecCluster

    _room_for_files(_FILES + workers * _FILES_EACH)
    # native libraries would start a thread a core in every process
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    try:
        security = Security.temporary()
        place = {"host": "127.0.0.1", "protocol": "tls://", "security": security}
        worker = {
            "nthreads": 1,
            "memory_limit": 0,
            "worker_class": QuietWorker,
            "local_directory": str(own),
            "env": {
                **one,
                "ORT_DISABLE_TELEMETRY": "1",
                "PYTHONSAFEPATH": "1",
                "TMPDIR": str(own),
            },
            "silence_logs": 50,
            **place,
        }
        cluster = _within(
            _START_SECONDS + workers * _START_SECONDS_EACH,
            lambda: SpecCluster(
                scheduler={"cls": QuietScheduler, "options": {"port": 0, **place}},
                workers={
                    number: {"cls": QuietNanny, "options": dict(worker)}
                    for number in range(workers)
                },
                security=security,
                silence_logs=50,
            ),
        )
    except (OSError, RuntimeError, TimeoutError) as error:
        raise WorkerError(
            "The processes of the sweep could not be started.",
            cause=f"One was killed, or memory or a folder is missing: {sanitize(str(error), 200)}",
            remedy="Try again, with fewer processes (--workers) where memory is short.",
        ) from error
    stack.callback(_end, cluster)
    return cluster, security


def _end(cluster: Any) -> None:
    # what does not end in time ends with this process, as its workers notice
    with contextlib.suppress(OSError, RuntimeError, TimeoutError):
        _within(_END_SECONDS, lambda: cluster.__exit__(None, None, None))


def _within(seconds: float, function: Callable[[], Any]) -> Any:
    """What ``function`` returns, called on a thread of its own: Dask waits for ever where its event
    loop lost an answer, as it does without free file descriptors.

    Raises:
        TimeoutError: it took longer than ``seconds``.
    """
    answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def call() -> None:
        try:
            answers.put((function(), None))
        except BaseException as error:  # noqa: BLE001 - raised again by who waits for it
            answers.put((None, error))

    threading.Thread(target=call, name="cluster", daemon=True).start()
    try:
        answer, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer in {seconds:.0f} s") from None
    if error is not None:
        raise error
    return answer


def _room_for_files(count: int) -> None:
    """Allow this process and its children ``count`` more open files.

    Raises:
        WorkerError: the hard limit does not.
    """
    try:
        needed = sum(1 for _ in Path("/proc/self/fd").iterdir()) + count
    except OSError:  # no /proc: what a process has from its start
        needed = 16 + count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise WorkerError(
            f"The sweep needs {needed} open files at a time, and {hard} are allowed.",
            cause="The limit of open files (ulimit -n) is too low for so many processes.",
            remedy="Raise it, or take fewer processes (--workers).",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _remote(where: ClusterAddress) -> tuple[str, Any]:
    from distributed import Security

    return where.address, Security(
        tls_ca_file=os.fspath(where.authority or ""),
        tls_client_cert=os.fspath(where.certificate or ""),
        tls_client_key=os.fspath(where.key or ""),
        require_encryption=True,
    )


# Dask's nodes without HTTP servers and imports. Imports Dask: import it where it is used.
#
# Dask starts an HTTP server on every node, also where no dashboard is wanted; the scheduler's tells
# anybody its address and what it runs. It has no option for none.
#
# Every node also puts the folder that it writes to first on ``sys.path``, for files that a client
# uploads. This program uploads none. A process gives its path to those that it starts, so it is
# taken off in each kind of node.


class _Closed:
    """A node that imports nothing from the folder that it writes to."""

    local_directory: str

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        with contextlib.suppress(ValueError):
            sys.path.remove(self.local_directory)


class _Quiet(_Closed):
    """A node that listens on its own port only."""

    def start_http_server(self, *_arguments: Any, **_options: Any) -> None:
        """Start none."""


class QuietScheduler(_Quiet, Scheduler):  # type: ignore[misc]
    """A scheduler that listens on its own port only."""


class QuietWorker(_Quiet, Worker):  # type: ignore[misc]
    """A worker that listens on its own port only."""


class QuietNanny(_Closed, Nanny):  # type: ignore[misc]
    """Starts a worker, and starts it again where it died."""
