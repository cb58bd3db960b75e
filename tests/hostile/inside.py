"""The command line in one process: requests go through the worker's functions and its protocol's
encoding, without the process in between.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from engine.base.errors import InternalError, error_from_dict
from engine.base.events import NullReporter
from engine.base.peers.far import decode, encode
from engine.jobs import worker
from engine.services.registry import QUERIES, TASKS
from engine.wire.codec import encode as plain

__all__ = ["COMMANDS", "inside"]

COMMANDS = tuple(import_module(f"rknntui.cli.{name}") for name in ("commands.judge", "verb"))
"""Modules whose ``with_worker`` is to be replaced by :func:`inside`."""


class Inside:
    """The session of a command, without a worker process."""

    async def call(self, method: Any, params: Any) -> Any:
        return _told(method, worker._resolve(QUERIES[method.name]), params)

    async def run(self, method: Any, params: Any) -> Any:
        return _told(method, worker._resolve(TASKS[method.name]), params, NullReporter())

    run_after = run


def _told(method: Any, handler: Any, params: Any, *reporter: NullReporter) -> Any:
    try:
        asked = decode(encode(plain(params)))
        return method.read(decode(encode({"result": handler(asked, *reporter)}))["result"])
    except Exception as error:
        told = worker._as_error(error)
        if isinstance(told, InternalError):
            raise
        raise error_from_dict(decode(encode(told.to_dict()))) from error


def inside(action: Any, _on_event: Any) -> Any:
    coroutine = action(Inside())
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("nothing here waits")
