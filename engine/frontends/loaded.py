"""What every front end gives: a graph, what was noticed on the way, and where it came from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import GraphError, SourceModelError
from engine.base.files import read_bounded
from engine.base.findings import Finding
from engine.graph.ir.graph import Graph


@dataclass(frozen=True)
class SourceInfo:
    """Where a graph came from.

    Attributes:
        framework: ``onnx``, ``caffe``, ``tensorflow``, ``tflite``, ``darknet``, ``pytorch`` or
            ``mxnet``.
        format: what the file is, in words, with its version.
        files: (file name, SHA-256) of the model and of every file of weights beside it.
        producer: the program that wrote it, as it says.
    """

    framework: str
    format: str
    files: tuple[tuple[str, str], ...]
    producer: str = ""


@contextmanager
def told_of(model: str) -> Iterator[None]:
    """Errors of the graph inside are told as errors of the model that it was made of."""
    try:
        yield
    except GraphError as error:
        raise SourceModelError(
            f"{model}: {error.what}", cause=error.cause, remedy=error.remedy
        ) from error


def check_loaded(graph: Graph, name: str) -> None:
    """Refuse a graph that a run of it would not survive, whatever its framework.

    Args:
        graph: as it was loaded.
        name: how messages call the model.

    Raises:
        SourceModelError: it needs too much memory, or divides constants that have no quotient.
    """
    from engine.graph.ir.amounts import check_amounts  # a look at a model needs neither
    from engine.graph.passes.manager import check_divisions

    with told_of(name):
        check_amounts(graph)
        check_divisions(graph)


def digest(path: Path, data: bytes | memoryview) -> tuple[str, str]:
    """(name, SHA-256) of a file whose bytes were read."""
    return path.name, hashlib.sha256(data).hexdigest()


def read_file(path: Path, limit: int, what: str) -> tuple[bytes, tuple[str, str]]:
    """The bytes of a file, and its name with its SHA-256.

    Raises:
        SourceModelError: missing, unreadable, or above ``limit`` bytes.
    """
    data = read_bounded(path, limit, what)
    return data, digest(path, data)


@dataclass(frozen=True)
class Loaded:
    """A graph in the engine's form, what was noticed on the way, and its source."""

    graph: Graph
    findings: tuple[Finding, ...]
    source: SourceInfo
