"""Models that torch itself makes, in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from engine.frontends import converter_process
from engine.frontends.load import find_source, load_source
from engine.frontends.loaded import Loaded
from engine.frontends.source import LoadOptions


def load(path: Path, *sizes: tuple[int, ...], **options: Any) -> Loaded:
    """Load a file with the sizes of its inputs."""
    given = LoadOptions(input_size_list=sizes or None, **options)
    return load_source(find_source(path, options=given))


QUICK = ("traced", "scripted_if", "stateful", "restored", "quantized_qnnpack")


def made(repository: Path, folder: Path, *names: str) -> Path:
    if find_spec("torch") is None:
        pytest.skip("the extra torch is not installed")
    script = repository / "scripts" / "make_torch_models.py"
    subprocess.run([sys.executable, script, folder, *names], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def quick_models(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(repository, tmp_path_factory.mktemp("torch"), *QUICK, "trained_resnet")


@pytest.fixture(scope="session")
def torch_models(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(repository, tmp_path_factory.mktemp("torch-all"))


@pytest.fixture(scope="session", autouse=True)
def no_child_stays() -> Iterator[None]:
    yield
    converter_process.close("pytorch")
