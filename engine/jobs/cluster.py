"""A Dask cluster that runs tasks of JSON text: local by default, another one by its address.

Dask's own wire format pickles. What it carries here is the name of one function of this program and
JSON text in both directions; a local cluster listens on loopback only, a remote one is reached over
TLS, so that nobody else can speak to it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError, WorkerError
from engine.base.events import Reporter
from engine.base.text import printable

__all__ = ["Cluster", "ClusterAddress", "open_cluster"]

_LOOK_SECONDS = 0.1
_CONNECT_SECONDS = 15
_LOOPBACK = ("127.", "localhost", "[::1]")
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
            UsageError: the address is not TLS and not of this machine, or a file is missing.
        """
        scheme, _, host = self.address.partition("://")
        if scheme not in ("tls", "tcp") or not host:
            raise UsageError(
                f"{printable(self.address, 80)!r} is no address of a Dask scheduler.",
                remedy="Give it as tls://HOST:8786.",
            )
        if scheme == "tcp" and not host.startswith(_LOOPBACK):
            raise UsageError(
                f"{printable(self.address, 80)} is not encrypted.",
                cause="Dask's messages are Python objects: whoever can speak to a client or a "
                "scheduler can run programs there.",
                remedy="Start the cluster with TLS and give its address as tls://..., with the "
                "files of authority, certificate and key.",
            )
        files = (self.authority, self.certificate, self.key)
        if scheme == "tls" and not all(path is not None and path.is_file() for path in files):
            raise UsageError(
                "A TLS cluster needs three files: authority, certificate and key.",
                remedy="Give all three as PEM files that exist.",
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
                if reporter.finish_asked():
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
        return error if isinstance(error, Exception) else WorkerError(printable(repr(error), 300))


@contextlib.contextmanager
def open_cluster(where: ClusterAddress | None, workers: int) -> Iterator[Cluster]:
    """A cluster for as long as the context lasts.

    Args:
        where: of a cluster that runs; None starts one of processes on this machine, on loopback
            and without a dashboard.
        workers: processes of the local one, of one thread each.

    Raises:
        UsageError: Dask is not installed, or the address does not do.
        WorkerError: the cluster does not answer.
    """
    if importlib.util.find_spec("distributed") is None:
        raise UsageError(
            "A sweep needs Dask, which is not installed.",
            remedy="Install this program with its extra sweep (docs/installation.md).",
        )
    if where is not None:
        where.check()
    import dask
    from distributed import Client

    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(_CONFIG))
        target, security = (_local(stack, workers), None) if where is None else _remote(where)
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
                f"The Dask cluster does not answer: {printable(str(error), 200)}",
                cause="The address is wrong, its scheduler is not running, or its certificate is "
                "of another authority.",
                remedy="Check the address and the three PEM files, or leave the address out.",
            ) from error
        yield Cluster(client)


def _local(stack: contextlib.ExitStack, workers: int) -> Any:
    from distributed import LocalCluster

    # native libraries would start a thread a core in every process
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    try:
        return stack.enter_context(
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                worker_dashboard_address=None,
                memory_limit=0,
                env={**one, "ORT_DISABLE_TELEMETRY": "1", "PYTHONSAFEPATH": "1"},
                silence_logs=50,
            )
        )
    except (OSError, RuntimeError, TimeoutError) as error:
        raise WorkerError(
            "The processes of the sweep could not be started.",
            cause=f"One was killed, or memory or a folder is missing: {printable(str(error), 200)}",
            remedy="Try again, with fewer processes (--workers) where memory is short.",
        ) from error


def _remote(where: ClusterAddress) -> tuple[str, Any]:
    from distributed import Security

    if where.address.startswith("tcp://"):
        return where.address, None
    return where.address, Security(
        tls_ca_file=os.fspath(where.authority or ""),
        tls_client_cert=os.fspath(where.certificate or ""),
        tls_client_key=os.fspath(where.key or ""),
        require_encryption=True,
    )
