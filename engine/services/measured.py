"""Answers of the worker about runs that boards measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.services.handler import answers
from engine.wire.measured import (
    MEASURED_COMPARE,
    MEASURED_LIST,
    KeptFilter,
    KeptRun,
    KeptRuns,
    RunPair,
    RunsCompared,
)

if TYPE_CHECKING:
    from engine.devices.measure.history import Damaged, RunHead

__all__ = ["compare", "list"]


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
        found = list_runs(model=params.model, chip=params.chip, device=device)
    except OSError as error:
        raise UsageError(
            f"The measured runs cannot be read: {error.strerror or error}.",
            remedy=f"Make {measured_folder()} readable.",
        ) from error
    return KeptRuns(tuple(map(_kept, found)))


def _kept(row: RunHead | Damaged) -> KeptRun:
    from engine.devices.measure.history import Damaged

    if isinstance(row, Damaged):
        return KeptRun(row.id, damaged=row.why)
    where = row.conditions
    return KeptRun(
        id=row.id,
        at=row.at,
        title=row.title,
        model=where.model,
        chip=where.chip,
        device=where.device,
        label=row.label,
        versions=dict(where.versions),
        points=row.points,
        layers=row.layers,
        median=row.median,
    )


@answers(MEASURED_COMPARE)
def compare(params: RunPair) -> RunsCompared:
    """Two runs side by side.

    Raises:
        UsageError: there is no such run, or it is damaged.
    """
    from engine.devices.measure.history import load_run
    from engine.devices.measure.run_comparison import compare_runs

    return compare_runs(load_run(params.first), load_run(params.second))
