"""Damaged graphs and TorchScript archives in warm children: an error or a graph, nothing worse."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from engine.base.errors import EngineError, InternalError
from engine.base.peers.limits import resident_bytes
from engine.frontends import converter_process
from engine.frontends.load import find_source, load_source
from engine.frontends.source import LoadOptions
from engine.graph.ir import verify
from tests.fuzz.mutate import inner_mutant, mutant
from tests.safety import ends

MUTANTS = 50
BYTES = 1 << 30


def attack(name: str, seed: bytes, suffix: str, options: LoadOptions, folder: Path) -> None:
    """Load the seed, then damaged copies of it; a child that dies is replaced by the next call."""

    def load(content: bytes) -> None:
        path = folder / f"model.{suffix}"
        path.write_bytes(content)
        verify(load_source(find_source(path, None, options)).graph)

    load(seed)
    before = resident_bytes(converter_process._children[name].child.process.pid)
    seen = {"loaded": 0, "refused": 0}
    slowest, grown = 0.0, 0
    for number in range(MUTANTS):
        converter = converter_process._children.get(name)
        begun = time.perf_counter()
        with ends():
            try:
                load((inner_mutant if number % 2 else mutant)(seed, number))
                seen["loaded"] += 1
            except InternalError:
                raise
            except EngineError:
                seen["refused"] += 1
        if (
            converter_process._children.get(name) is converter
        ):  # a new one takes seconds to import its framework
            slowest = max(slowest, time.perf_counter() - begun)
        if converter is not None and converter.child.alive:
            grown = max(grown, resident_bytes(converter.child.process.pid) - before)
    print(name, seen, f"slowest {slowest:.2f} s, grown {grown / 1e6:.0f} MB")
    assert seen["refused"] > MUTANTS // 20
    assert grown < BYTES
    load(seed)


@pytest.mark.long
@pytest.mark.tensorflow
def test_tensorflow(zoo: Path, tmp_path: Path) -> None:
    if find_spec("tensorflow") is None:
        pytest.skip("the extra tensorflow is not installed")
    seed = (zoo / "tensorflow" / "keras_lstm.pb").read_bytes()
    attack("tensorflow", seed, "pb", LoadOptions(), tmp_path)


@pytest.mark.long
@pytest.mark.torch
def test_torchscript(repository: Path, tmp_path: Path) -> None:
    if find_spec("torch") is None:
        pytest.skip("the extra torch is not installed")
    program = repository / "scripts" / "make_torch_models.py"
    made = tmp_path / "made"
    made.mkdir()
    subprocess.run([sys.executable, program, made, "traced"], check=True, capture_output=True)
    size = LoadOptions(input_size_list=((1, 3, 16, 16),))
    attack("pytorch", (made / "traced.pt").read_bytes(), "pt", size, tmp_path)
