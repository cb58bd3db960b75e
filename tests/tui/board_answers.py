"""Answers of a board in the place of the worker's: what screens make of them needs no board."""

from __future__ import annotations

from typing import Any

import pytest

from engine.wire.board import Ran
from engine.wire.build import BesideFloat, SimulatedOutput, TopValue
from engine.wire.compare import ComparedLayer, Comparison, Difference
from engine.wire.devices import Device, LayerTime, Listing
from tests.tui.flow import WorkerAnswers

__all__ = ["BOARD", "LAYERS", "BoardAnswers", "comparison", "ran"]

BOARD = "adb:127.0.0.1:40001"
LAYERS = ("Conv_0", "Conv_1", "Gemm_2")


def ran(times: tuple[float | None, ...] = (40.0, 120.0, 8.5), **more: Any) -> Ran:
    """A run with the runtime's table of layers; the last one ran on the CPU."""
    layers = tuple(
        LayerTime(
            i + 1,
            name=f"Conv:{name}",
            op="Conv",
            dtype="INT8",
            target="NPU",
            microseconds=times[i],
            traffic=2048 * (i + 1),
            id=name,
        )
        for i, name in enumerate(LAYERS)
    )
    last = LayerTime(
        4,
        name="OutputOperator:logits",
        op="OutputOperator",
        dtype="INT8",
        target="CPU",
        microseconds=2.0,
        traffic=10,
    )
    top = (TopValue(3, 4.5), TopValue(1, 0.25))
    beside = BesideFloat(31.25, 0.99, 0.25, (TopValue(3, 4.75),), (4.75, 0.5))
    output = SimulatedOutput(
        "logits", (1, 10), "float32", "emulated", top, -1.0, 4.5, 0.5, 0, beside
    )
    told: dict[str, Any] = {
        "label": "emulated",
        "device": BOARD,
        "chip": "rk3588",
        "runtime": "2.3.0",
        "driver": "0.9.8",
        "outputs": (output,),
        "milliseconds": 1.25,
        "layers": (*layers, last),
        "notes": ("The stand-in's time is not that of an NPU.",),
    }
    return Ran(**(told | more))


def comparison(first: str = "Conv_1") -> Comparison:
    """Three layers; from ``first`` on the board does something else."""
    same, little = Difference(1.0, None, 0.0), Difference(0.9999, 40.0, 0.01)
    rows = []
    for name in LAYERS:
        behind = bool(first) and LAYERS.index(name) >= LAYERS.index(first)
        off = Difference(0.7, 3.0, 9.0)
        board, between = (off, off) if behind else (little, same)
        steps = 90.0 if behind else 0.0
        rows.append(
            ComparedLayer(
                name,
                f"{name}_out",
                "Conv",
                "int8",
                little,
                board,
                between,
                steps,
                name == first,
                off if name == first else same,
                steps if name == first else 0.0,
                0.7 if name == first else 0.0,
            )
        )
    verdict = (
        f"{first} is the first layer that diverges." if first else "Board and simulator agree."
    )
    return Comparison(
        label="emulated",
        device=BOARD,
        chip="rk3588",
        runtime="2.3.0",
        layers=tuple(rows),
        first=first,
        verdict=verdict,
        sha256="ab" * 32,
        missing=("Relu_9",),
    )


class BoardAnswers(WorkerAnswers):
    """Answers what is asked of boards: one of two is ready."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        ready = Device(BOARD, "adb", "ready", "ready", model="rk3588_emulated")
        lost = Device("adb:OTHER", "adb", "offline", "offline", remedy="Plug it in again.")
        answers = {"board.run": ran(), "compare.board": comparison()}
        super().__init__(patch, {"devices.list": Listing((ready, lost)), **answers})
