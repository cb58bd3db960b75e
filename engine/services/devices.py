"""Answers of the worker about boards."""

from __future__ import annotations

from contextlib import closing
from functools import partial

from engine.base.events import Reporter
from engine.services.handler import answers, runs
from engine.wire.devices import (
    DEVICES_DOCTOR,
    DEVICES_LIST,
    DEVICES_PERF,
    DeviceAt,
    DeviceListParams,
    Listing,
    Performance,
    PerfParams,
)
from engine.wire.doctor import Check, Checks

__all__ = ["doctor", "list", "perf"]


@answers(DEVICES_LIST)
def list(params: DeviceListParams) -> Listing:  # noqa: A001 - the verb of the command line
    """Look once for the boards in reach."""
    from engine.devices.address import Address
    from engine.devices.listing import poll

    named = [str(Address.parse(address)) for address in params.ssh]
    return poll(ssh=named, start_server=params.start_server)


@answers(DEVICES_DOCTOR)
def doctor(params: DeviceAt) -> Checks:
    """Look at a board from the cable to the driver; nothing of it is changed.

    Raises:
        UsageError: it is not the address of a board.
    """
    from engine.base.errors import DeviceError
    from engine.devices.address import Address
    from engine.devices.doctor.diagnose import diagnose
    from engine.devices.reach import reach

    address = Address.parse(params.id)
    try:
        board = reach(address)
    except DeviceError as error:
        remedy = " ".join(part for part in (error.cause, error.remedy) if part)
        return Checks((Check("transport", "bad", error.what, remedy),))
    with closing(board):
        return Checks(diagnose(board).checks)


@runs(DEVICES_PERF)
def perf(params: PerfParams, reporter: Reporter) -> Performance:
    """Time a compiled model on a board, point by point of cores and threads."""
    from engine.devices.measure.performance import measure_performance
    from engine.services.board_models import layers_of_build

    layers = partial(layers_of_build, params.model, params.build, reporter)
    return measure_performance(params, reporter, layers)
