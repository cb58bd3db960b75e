"""The command line in one process: requests go through the worker's functions and its protocol's
encoding, without the process in between.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from engine.base.errors import InternalError, error_from_dict
from engine.base.events import NullReporter
from engine.jobs import worker
from engine.jobs.protocol import decode, encode

__all__ = ["COMMANDS", "inside"]

COMMANDS = tuple(
    import_module(f"rknntui.cli.commands.{name}")
    for name in ("inspect", "build", "simulate", "accuracy")
)
"""Modules whose ``with_worker`` is to be replaced by :func:`inside`."""


class Inside:
    """The session of a command, without a worker process."""

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        function = worker._resolve(worker.QUERIES[method])
        return _told(lambda: function(decode(encode(params))))

    async def run(self, method: str, **params: Any) -> dict[str, Any]:
        function = worker._resolve(worker.TASKS[method])
        return _told(lambda: function(decode(encode(params)), NullReporter()))

    run_after = run


def _told(work: Any) -> dict[str, Any]:
    try:
        return decode(encode({"result": work()}))["result"]
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
