"""Estimates in the place of the worker's: what screens make of them needs no lowering.

The figures are made up, so that a test can tell where each one stands on the screen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from engine.base.errors import EngineError
from engine.facts import chips
from engine.wire.cost import (
    Advice,
    AdviceAnswer,
    AdviceParams,
    Calibrated,
    ChipEstimate,
    EstimateParams,
    Estimates,
    Interval,
    LayerCost,
    MemoryCost,
    TensorSpan,
)
from engine.wire.goal import ChipWays, Way, Ways
from tests.tui.flow import WorkerAnswers

__all__ = ["CPU_LAYER", "LAYERS", "CostAnswers"]

LAYERS = (
    "/stem/stem.0/Conv",
    "/stage1/stage1.1/depthwise/depthwise.0/Conv",
    "/stage1/stage1.1/pointwise/Conv",
    "/pool/GlobalAveragePool",
    "/head/Gemm",
)
CPU_LAYER = "/head/Gemm"
_REASON = "Softmax over 80 elements: at most 32 on this NPU."
_REMEDY = "Take it out of the model and compute it on the host."
_TIP = "Make the channels of 3 layers a multiple of 16"
_SPANS = (
    TensorSpan("input", 0, 3072, 0, 0),
    TensorSpan("stem", 3072, 19456, 0, 2),
    TensorSpan("depthwise", 19456, 35840, 1, 2),
    TensorSpan("pointwise", 0, 3072, 2, 3),
    TensorSpan("pooled", 3072, 3200, 3, 4),
)


def _layers(scale: float, *, cpu: bool) -> tuple[LayerCost, ...]:
    rows = []
    for at, name in enumerate(LAYERS):
        last = cpu and name == CPU_LAYER
        rows.append(
            LayerCost(
                id=name,
                layers=(name,),
                name=f"Conv:{name}",
                op="Conv" if at < 3 else "Gemm",
                dtype="INT8",
                target="CPU" if last else "NPU",
                reason=_REASON if last else "",
                remedy=_REMEDY if last else "",
                shapes_in="(1,8,28,28)",
                shape_out="(1,8,14,14)",
                ddr_cycles=1000 * (at + 1),
                npu_cycles=4000 - 500 * at,
                total_cycles=4000 + 10 * at,
                read_bytes=6000 * (at + 1),
                write_bytes=1500,
                weight_bytes=128 * (at + 1),
                macs=0 if at == 3 else 200_000 * (5 - at),
                time_ms=scale * (0.4, 0.2, 0.1, 0.05, 0.25)[at],
                bound=("compute", "memory", "compute", "start", "cpu")[at],  # type: ignore[arg-type]
            )
        )
    return tuple(rows)


def estimate(name: str, at: int, asked: EstimateParams) -> ChipEstimate:
    """A chip; every second has a layer on the CPU, RK2118 refuses int8."""
    generation = next(chip.generation for chip in chips() if chip.name == name)
    dtype = asked.dtype or "int8"
    common: dict[str, Any] = {"chip": name, "generation": generation, "dtype": dtype}
    common |= {"cores": asked.cores, "batch": asked.batch or 1, "npu_mhz": asked.npu_mhz or 1000.0}
    if name == "rk2118" and dtype == "int8":
        problem = "rk2118 has no int8: its toolkit builds float16 alone."
        remedy = "Estimate it as float16."
        return ChipEstimate(**common, confidence="", problem=problem, remedy=remedy)
    scale = (1.0 + at / 4) * (1.6 if dtype == "float16" else 1.0) / asked.cores
    cpu = at % 2 == 0
    layers = _layers(scale, cpu=cpu)
    time = sum(row.time_ms for row in layers)
    fps = 1000 * (asked.batch or 1) / time
    return ChipEstimate(
        **common,
        confidence=("fitted", "derived", "structural", "calibrated")[at % 4],
        time_ms=Interval(time, 0.9 * time, 1.1 * time),
        fps=Interval(fps, 0.9 * fps, 1.1 * fps),
        memory=MemoryCost(35840, 65536 * (at + 1), 120_000, _SPANS if asked.spans else ()),
        npu_layers=len(LAYERS) - cpu,
        cpu_layers=int(cpu),
        total_cycles=20_000,
        macs=2_000_000,
        layers=layers if asked.layers else (),
        notes=("The time of the driver and of copying the input is not in it.",),
        peak_gops=1024.0 * asked.cores,
        bandwidth_gbs=None if name == "rv1103" else 8.0,
    )


class CostAnswers(WorkerAnswers):
    """Answers what is asked of estimates.

    Attributes:
        refused: raised in the place of an answer.
        open: cleared by a test: nothing is answered yet.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.refused: EngineError | None = None
        way = Way(_TIP, Interval(*[300.0] * 3), 0.25, reaches=True)
        answers = {
            "cost.estimate": _estimates,
            "cost.calibrate": lambda _: Calibrated("rk3588", "run-1", 5.0, 4.5, 1.111),
            "cost.ways": lambda p: Ways("digits", p.fps, (ChipWays(p.chips[0], (way,)),)),
            "cost.advice": _advice,
        }
        super().__init__(patch, {name: partial(self._told, answers[name]) for name in answers})

    async def _told(self, answer: Callable[[Any], object], params: Any) -> object:
        await self.open.wait()
        return self.refused or answer(params)


def _estimates(params: EstimateParams) -> Estimates:
    names = [chip.name for chip in chips()]
    asked = [name for name in names if name in (params.chips or names)]
    rows = tuple(estimate(name, names.index(name), params) for name in asked)
    return Estimates("digits", rows, 0.5)


def _advice(params: AdviceParams) -> AdviceAnswer:
    first = Advice(
        _TIP,
        "The NPU computes 16 output channels at once; 12 are computed as 16.",
        LAYERS[:3],
        0.25,
        "RKNN-T2 2.3.2, 5.1",
    )
    second = Advice("Use Relu in place of SiLU", "SiLU is a table.", (), None, "RKNN-T2 2.3.2, 5.2")
    return AdviceAnswer(params.chip or "", 1.0, (first, second))
