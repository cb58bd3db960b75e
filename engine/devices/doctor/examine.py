"""``rknntui doctor --device``: a board from its cable to a model that runs on it, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from engine.base.errors import ContainerError, DeviceError
from engine.devices.board.model_file import ModelFile, model_file
from engine.devices.choose import choose
from engine.devices.doctor.diagnose import diagnose
from engine.devices.doctor.zero_run import zero_run
from engine.devices.reach import reach
from engine.wire.devices import ExamineParams
from engine.wire.doctor import Check

__all__ = ["examine_board"]


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
