"""The doctor's last step: a model runs once, with zeros, and what came out is told."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from engine.base.text import sanitize, shape_text
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardOutput, zero_input
from engine.devices.doctor.case import TestTensor
from engine.devices.probe.identify import EMULATED_MARK
from engine.devices.probe.reading import read_bytes
from engine.devices.transport import Transport
from engine.wire.doctor import Check

__all__ = ["zero_run"]

_SHOWN = 4


def zero_run(model: Path, check: Callable[[], object]) -> TestTensor:
    """What runs a model once on a board, with zeros for its inputs.

    Args:
        model: a compiled model; of an emulated board also a container of ours.
        check: called ten times a second; what it raises ends the run.
    """

    def test(transport: Transport) -> Check:
        with BoardRuntime(transport, check=check) as runtime:
            opened = runtime.open(model)
            found = runtime.run([zero_input(attributes) for attributes in opened.inputs])
        took = statistics.median(found.run_us or found.wall_us) / 1000
        told = "; ".join(_told(found.outputs))
        emulated = read_bytes(transport, EMULATED_MARK, 64) is not None
        label = "emulated" if emulated else "measured"
        library = sanitize(opened.library, 120)
        said = f"runs with zeros in {took:.3f} ms ({label}) by {library}: {told}"
        if all(np.isfinite(output.array).all() for output in found.outputs):
            return Check("test tensor", "ok", said)
        remedy = "Outputs that are not finite often come from float16, whose largest number is "
        remedy += "65504: run a sample of yours, and compare it with the simulator."
        return Check("test tensor", "note", said, remedy)

    return test


def _told(outputs: Sequence[BoardOutput]) -> Iterator[str]:
    for output in outputs[:_SHOWN]:
        finite = output.array[np.isfinite(output.array)]
        name = f"{sanitize(output.name, 60) or 'output'} {shape_text(output.array.shape)}"
        lost = output.array.size - finite.size
        values = f"from {finite.min():.6g} to {finite.max():.6g}" if finite.size else "no number"
        yield f"{name} {values}" + (f", {lost} not finite" if lost else "")
    if len(outputs) > _SHOWN:
        yield f"{len(outputs) - _SHOWN} more"
