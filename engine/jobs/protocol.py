"""The worker's wire: one JSON object per line, in both directions. Standard library only.

Client to worker: ``{"id": 7, "method": "open", "params": {...}}``.
Worker to client:
    ``{"id": 7, "result": {...}}`` or ``{"id": 7, "error": {kind, what, cause, remedy,
    exit_code}}``: the answer;
    ``{"id": 7, "job": "20261121-...", "folder": "/..."}``: a job was accepted, with the folder of
    its record;
    ``{"job": "20261121-..."}``: that job's ``events.jsonl`` has grown (the pipe only wakes the
    reader).
"""

from __future__ import annotations

import json
import math
from typing import Any

from engine.base.errors import WorkerError

__all__ = ["LINE_LIMIT", "Message", "decode", "encode"]

Message = dict[str, Any]

LINE_LIMIT = 256 << 20
"""Longest line that is read, in bytes."""


def _finite(value: Any) -> Any:
    """``value`` with None in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
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
        WorkerError: it is not a JSON object.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WorkerError(
            "A line of the worker protocol is not JSON.",
            remedy="Try again; where it stays so, install this program anew.",
        ) from error
    if not isinstance(message, dict):
        raise WorkerError(
            "A line of the worker protocol is not an object.",
            remedy="Try again; where it stays so, install this program anew.",
        )
    return message
