"""Answers of the worker about boards."""

from __future__ import annotations

from engine.base.events import Reporter
from engine.services.registry import answers, runs
from engine.wire.devices import (
    DEVICES_EXAMINE,
    DEVICES_LIST,
    DEVICES_PERF,
    EXAMINED,
    DeviceListParams,
    ExamineParams,
    Listing,
    Performance,
    PerfParams,
)
from engine.wire.doctor import Check, Checks


@answers(DEVICES_LIST)
def list(params: DeviceListParams) -> Listing:  # noqa: A001 - the verb of the command line
    """Look once for the boards in reach."""
    from engine.devices.address import Address
    from engine.devices.listing import poll

    named = [str(Address.parse(address)) for address in params.ssh]
    return poll(ssh=named, start_server=params.start_server, ask=params.ask)


@runs(DEVICES_EXAMINE)
def examine(params: ExamineParams, reporter: Reporter) -> Checks:
    """Look at a board from the cable to the driver, step by step; run a model once where asked."""
    from engine.devices.doctor.examine import examine_board

    def tell(check: Check) -> Check:
        reporter.check_cancelled()
        reporter.emit(EXAMINED.event(check))
        return check

    return Checks(tuple(map(tell, examine_board(params, reporter.check_cancelled))))


@runs(DEVICES_PERF)
def perf(params: PerfParams, reporter: Reporter) -> Performance:
    """Time a compiled model on a board, point by point of cores and threads."""
    from engine.devices.measure.performance import measure_performance
    from engine.devices.toolkit.board import toolkit_address
    from engine.services.board_models import model_source

    address = toolkit_address(params.device)
    source = model_source(params, params.build, reporter)
    if address is not None:
        from engine.devices.toolkit.jobs import perf_by_job  # the simulator: a second of a start

        return perf_by_job(address, params, source, reporter)
    return measure_performance(params, source, reporter)
