"""Answers about toolkits, compilations and projects in the place of the worker's: what Chips makes
of them needs no toolkit.

The figures are made up, so that a test can tell where each one stands on the screen.
"""

from __future__ import annotations

from typing import Any

import pytest

from engine.base.events import LogLine, Progress, StageStarted
from engine.base.findings import Finding
from engine.wire.codegen import Generated
from engine.wire.compile import Compiled, CompiledLayer, CompiledModels, OutputAgreement
from engine.wire.vendor import ToolkitEnvironment, ToolkitRemoved, Toolkits
from tests.tui.cost_answers import LAYERS
from tests.tui.flow import WorkerAnswers

__all__ = ["LAYERS", "CompileAnswers", "compiled", "toolkit"]

FOLDER = "/data/rknntui/toolkits/toolkit2"
FILES = ("CMakeLists.txt", "README.md", "src/main.cc", "model/golden.bin")


def toolkit(**more: Any) -> ToolkitEnvironment:
    """The environment that is made by default."""
    told: dict[str, Any] = {
        "name": "toolkit2",
        "folder": FOLDER,
        "python": f"{FOLDER}/bin/python",
        "managed": True,
        "python_version": "3.11.7",
        "version": "2.3.2",
        "default": True,
        "size": 1_600_000_000,
    }
    return ToolkitEnvironment(**(told | more))


def compiled(chip: str, **more: Any) -> Compiled:
    """A compiled model: a layer is on another target than estimated, one takes other cycles."""
    rows = [
        CompiledLayer(
            name=f"Conv:{name}",
            id=name,
            op="ConvRelu" if at < 3 else "Gemm",
            dtype="INT8",
            target="CPU" if at == 3 else "NPU",
            npu_cycles=4000 - 500 * at,
            total_cycles=5000 - 500 * at + (400 if at == 1 else 0),
            read_kb=12 * (at + 1),
            estimated_npu_cycles=4000 - 500 * at,
            estimated_total_cycles=5000 - 500 * at,
            estimated_target="NPU",
        )
        for at, name in enumerate(LAYERS)
    ]
    told: dict[str, Any] = {
        "chip": chip,
        "path": f"/tmp/digits-{chip}.rknn",
        "size": 123_456,
        "sha256": "ab" * 32,
        "side_file": f"/tmp/digits-{chip}.json",
        "toolkit": "rknn-toolkit2 2.3.2",
        "seconds": 3.2,
        "layers": (*rows, CompiledLayer(name="OutputOperator:logits", op="OutputOperator")),
        "internal_bytes": 35_840,
        "weight_bytes": 65_536,
        "estimated_internal_bytes": 35_840,
        "estimated_weight_bytes": 64_000,
        "npu_cycles": 15_000,
        "total_cycles": sum(row.total_cycles or 0 for row in rows),
        "outputs": (
            OutputAgreement(
                name="logits",
                samples=8,
                cosine=0.999991,
                equal=0.9995,
                max_steps=1,
                sqnr_db=33.5,
                our_sqnr_db=34.25,
            ),
        ),
        "findings": (
            Finding(
                "compiler-warning",
                "warning",
                "logits",
                "The compiler warns: the output is kept in float.",
                remedy="Set quantized_dtype to w8a8.",
                changes={"quantized_dtype": "w8a8"},
            ),
        ),
        "log": f"/tmp/logs/{chip}.log",
    }
    return Compiled(**(told | more))


class CompileAnswers(WorkerAnswers):
    """Answers what is asked of toolkits and compilers.

    Attributes:
        toolkits: environments that there are.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.toolkits: tuple[ToolkitEnvironment, ...] = (toolkit(),)
        answers = {
            "vendor.known": lambda _: Toolkits(self.toolkits),
            "vendor.remove": self._remove,
            **dict.fromkeys(("vendor.install", "vendor.check", "vendor.adopt"), self._ready),
            "compile": lambda p: CompiledModels(
                model="digits", chips=tuple(compiled(chip) for chip in p.chips)
            ),
            "codegen": lambda p: Generated(path=p.path, files=FILES),
        }
        super().__init__(patch, answers)
        self.told = [
            StageStarted("compile:rk3588", "Compile for rk3588", 1, 2),
            Progress("compile:rk3588", 3, 10, "optimise"),
            LogLine("I rknn building ..."),
        ]

    def _ready(self, _: Any) -> ToolkitEnvironment:
        self.toolkits = (toolkit(),)
        return self.toolkits[0]

    def _remove(self, params: Any) -> ToolkitRemoved:
        self.toolkits = ()
        return ToolkitRemoved(params.name, FOLDER, True, 1_600_000_000)
