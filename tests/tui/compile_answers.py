"""Answers about toolkits, compilations and projects in the place of the worker's: what Chips makes
of them needs no toolkit.

The figures are made up, so that a test can tell where each one stands on the screen.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import pytest

from engine.base.errors import EngineError
from engine.base.events import Finished, LogLine, Progress, StageStarted
from engine.base.findings import Finding
from engine.wire.codec import encode
from engine.wire.codegen import Generated
from engine.wire.compile import Compiled, CompiledLayer, CompiledModels, OutputAgreement
from engine.wire.vendor import ToolkitEnvironment, ToolkitRemoved, Toolkits
from rknntui.bridge import Bridge
from rknntui.session.job_view_model import JobView
from tests.tui.cost_answers import LAYERS

__all__ = ["LAYERS", "CompileAnswers", "compiled", "toolkit"]

FOLDER = "/data/rknntui/toolkits/toolkit2"


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


class CompileAnswers:
    """Takes what is asked of toolkits and compilers.

    Attributes:
        toolkits: environments that there are.
        answers: method -> its result; an error fails the job.
        asked: (method, parameters), oldest first.
        open: cleared by a test: jobs tell how far they are and do not end.
        told: events of a job that waits.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.toolkits: tuple[ToolkitEnvironment, ...] = (toolkit(),)
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, Any]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.told: list[Any] = [
            StageStarted("compile:rk3588", "Compile for rk3588", 1, 2),
            Progress("compile:rk3588", 3, 10, "optimise"),
            LogLine("I rknn building ..."),
        ]
        self._number = itertools.count(1)
        call, submit = Bridge.call, Bridge.submit

        async def answered(bridge: Bridge, method: Any, params: Any) -> Any:
            if method.name != "vendor.known":
                return await call(bridge, method, params)
            self.asked.append((method.name, params))
            if isinstance(error := self.answers.get(method.name), EngineError):
                raise error
            answer = Toolkits(self.toolkits)
            bridge._session.answered(answer)
            return answer

        async def submitted(
            bridge: Bridge, method: Any, params: Any, title: str, **how: bool
        ) -> JobView:
            if method.name not in ("compile", "codegen") and not method.name.startswith("vendor."):
                return await submit(bridge, method, params, title, **how)
            self.asked.append((method.name, params))
            view = JobView(
                f"made-up-{next(self._number)}",
                method.name,
                title,
                time.time(),
                params=encode(params),
            )
            session = bridge._session
            session.jobs.started(view)
            bridge._spawn(self._work(bridge, view, params))
            return view

        patch.setattr(Bridge, "call", answered)
        patch.setattr(Bridge, "submit", submitted)

    async def _work(self, bridge: Bridge, view: JobView, params: Any) -> None:
        for event in self.told:
            view.apply(event)
        bridge._session.jobs.changed(view)
        await self.open.wait()
        result = self._result(view.method, params)
        if isinstance(result, EngineError):
            view.apply(Finished("failed", 0.5, error=result.to_dict()))
            bridge._session.job_ended(view, None)
            bridge._report(result)
            return
        view.apply(Finished("done", 0.5))
        bridge._session.job_ended(view, result)

    def _result(self, method: str, params: Any) -> Any:
        if method in self.answers:
            return self.answers[method]
        if method == "compile":
            return CompiledModels(model="digits", chips=tuple(compiled(c) for c in params.chips))
        if method == "codegen":
            names = ("CMakeLists.txt", "README.md", "src/main.cc", "model/golden.bin")
            return Generated(path=params.path, files=names)
        if method == "vendor.remove":
            self.toolkits = ()
            return ToolkitRemoved(params.name, FOLDER, True, 1_600_000_000)
        self.toolkits = (toolkit(),)
        return self.toolkits[0]
