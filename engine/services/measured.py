"""Answers of the worker about runs that boards measured."""

from __future__ import annotations

from engine.services.registry import answers
from engine.wire.measured import (
    MEASURED_COMPARE,
    MEASURED_LIST,
    KeptFilter,
    KeptRuns,
    RunPair,
    RunsCompared,
)


@answers(MEASURED_LIST)
def list(params: KeptFilter) -> KeptRuns:  # noqa: A001 - the word of the protocol
    """The runs of the history, the newest first; damaged ones are told as such.

    Raises:
        UsageError: the history cannot be read, or ``device`` is no address.
    """
    from engine.base.errors import UsageError
    from engine.devices.address import Address
    from engine.devices.measure.history import list_runs, measured_folder

    device = None if params.device is None else str(Address.parse(params.device))
    try:
        runs = list_runs(model=params.model, chip=params.chip, device=device)
    except OSError as error:
        raise UsageError(
            f"The measured runs cannot be read: {error.strerror or error}.",
            remedy=f"Make {measured_folder()} readable.",
        ) from error
    return KeptRuns(tuple(runs))


@answers(MEASURED_COMPARE)
def compare(params: RunPair) -> RunsCompared:
    """Two runs side by side.

    Raises:
        UsageError: there is no such run, or it is damaged.
    """
    from engine.devices.measure.history import compare_runs, load_run

    return compare_runs(load_run(params.first), load_run(params.second))
