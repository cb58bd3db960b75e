"""The stand-in of the generation 1 toolkit, and a process of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engine.toolkit.toolkit import Toolkit
from engine.wire.vendor import ToolkitEnvironment
from tests.safety import patience
from tests.toolkit.standin import make_environment

__all__ = ["patience"]

Start = Callable[..., Toolkit]
SOURCE = "a model's $(touch x).onnx"


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> ToolkitEnvironment:
    return make_environment(tmp_path_factory.mktemp("generation1") / "environment")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Where logs stay."""
    folder = tmp_path / "it's kept"
    folder.mkdir()
    return folder


@pytest.fixture
def start(standin: ToolkitEnvironment, kept: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts processes of the stand-in, which may read the source; they end with the test."""
    with ExitStack() as ending:

        def make(environment: ToolkitEnvironment = standin, **changes: Any) -> Toolkit:
            folder = kept / str(len(list(kept.iterdir())))
            folder.mkdir()
            given = {"reads": [tmp_path / SOURCE]} | changes
            return ending.enter_context(Toolkit(environment, folder, **given))

        yield make


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source model: the stand-in only looks whether it is there."""
    path = tmp_path / SOURCE
    path.write_bytes(b"x")
    return path
