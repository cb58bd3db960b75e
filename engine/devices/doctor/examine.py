"""``rknntui doctor --device``: a board from its cable to a model that runs on it, step by step."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from engine.base.errors import ContainerError, DeviceError
from engine.base.text import sanitize, shape_text
from engine.devices.board.model_file import ModelFile, model_file
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardOutput, zero_input
from engine.devices.choose import choose
from engine.devices.doctor.case import TestTensor
from engine.devices.doctor.diagnose import diagnose
from engine.devices.probe.identify import EMULATED_MARK
from engine.devices.probe.reading import read_bytes
from engine.devices.transport import Transport
from engine.devices.transports import reach
from engine.wire.devices import ExamineParams
from engine.wire.doctor import Check


def examine_board(
    params: ExamineParams, check: Callable[[], object] = lambda: None
) -> Iterator[Check]:
    """Examine a board; what is wrong is in the checks. Nothing of the board is changed.

    Args:
        params: the board, and a model that is to run there.
        check: called while the model runs; what it raises ends the examination.

    Yields:
        The checks as soon as they are done.

    Raises:
        UsageError: it is not the address of a board, or there are several.
        JobCancelledError: or whatever else ``check`` raises.
    """
    model: ModelFile | None = None
    of_model: list[Check] = []
    if params.model is not None:
        try:
            model = model_file(Path(params.model))
            of_model.append(Check("model", "ok", _about(model)))
        except ContainerError as error:
            of_model.append(Check.of_error("model", error))
    try:
        board = reach(choose(params.device))
    except DeviceError as error:
        yield from (Check.of_error("transport", error), *of_model)
        return
    with closing(board):
        test = zero_run(model.path, check) if params.test and model is not None else None
        unread = model is None and params.model is not None
        steps = diagnose(board, model=model, test=test, unread=unread, recipe_chip=params.chip)
        # a login that fails is the first line; the model is told of behind it
        yield next(steps)
        yield from of_model
        yield from steps


def _about(model: ModelFile) -> str:
    name = model.name
    if model.ours:
        return f"{name} is a container of this program, which emulated boards run"
    built = f", built by toolkit {model.toolkit}" if model.toolkit else ""
    hidden = ", encrypted" if model.encrypted else ""
    return f"{name} is for {model.words}{built}{hidden}"


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
            result = runtime.run([zero_input(attributes) for attributes in opened.inputs])
        took = statistics.median(result.run_us or result.wall_us) / 1000
        ranges = "; ".join(_told(result.outputs))
        emulated = read_bytes(transport, EMULATED_MARK, 64) is not None
        label = "emulated" if emulated else "measured"
        library = sanitize(opened.library, 120)
        said = f"runs with zeros in {took:.3f} ms ({label}) by {library}: {ranges}"
        if all(np.isfinite(output.array).all() for output in result.outputs):
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
