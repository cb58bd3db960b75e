"""Answers and jobs of the worker about one board, and a model on it."""

from __future__ import annotations

from engine.base.events import Reporter
from engine.services.registry import answers, runs
from engine.wire.board import (
    BOARD_ABOUT,
    BOARD_LIVE,
    BOARD_MEMORY,
    BOARD_RUN,
    About,
    AboutParams,
    Lived,
    LiveParams,
    MemoryParams,
    MemoryReport,
    Ran,
    RunParams,
)


@answers(BOARD_ABOUT)
def about(params: AboutParams) -> About:
    """What a board is and does now, and whether a model fits it."""
    from engine.devices.run.about import about_board

    return about_board(params)


@runs(BOARD_RUN)
def run(params: RunParams, reporter: Reporter) -> Ran:
    """Run one sample on a board."""
    from engine.devices.run.run import run_on_board
    from engine.devices.toolkit.board import toolkit_address
    from engine.devices.toolkit.jobs import run_by_job
    from engine.services.board_models import model_source

    address = toolkit_address(params.device)
    source = model_source(params, params.build, reporter)
    if address is not None:
        return run_by_job(address, params, source, reporter)
    return run_on_board(params, source, reporter)


@runs(BOARD_LIVE)
def live(params: LiveParams, reporter: Reporter) -> Lived:
    """Run a sample with its layers timed again and again, until the job is stopped."""
    from engine.devices.run.live import run_live
    from engine.services.board_models import model_source

    return run_live(params, model_source(params, params.build, reporter), reporter)


@runs(BOARD_MEMORY)
def memory(params: MemoryParams, reporter: Reporter) -> MemoryReport:
    """What a model takes on a board."""
    from engine.devices.run.loaded import memory_on_board
    from engine.devices.toolkit.board import toolkit_address
    from engine.devices.toolkit.jobs import memory_by_job, with_allocations
    from engine.services.board_models import model_source

    address = toolkit_address(params.device)
    source = model_source(params, None, reporter)
    if address is not None:
        return memory_by_job(address, source, reporter)
    return with_allocations(memory_on_board(params, source, reporter), source, reporter)
