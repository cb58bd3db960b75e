"""Answers and jobs of the worker about boards: what is in reach, one of them, a model on it."""

from __future__ import annotations

from pathlib import Path

from engine.base.events import Reporter
from engine.services.registry import answers, runs
from engine.wire.board import (
    BOARD_ABOUT,
    BOARD_MEMORY,
    BOARD_RUN,
    About,
    AboutParams,
    MemoryParams,
    MemoryReport,
    Ran,
    RunParams,
)
from engine.wire.compare import COMPARE_BOARD, CompareParams, Comparison
from engine.wire.devices import (
    DEVICES_ADD,
    DEVICES_EXAMINE,
    DEVICES_LIST,
    DEVICES_PERF,
    DEVICES_REMOVE,
    EXAMINED,
    AddBoardParams,
    DeviceListParams,
    ExamineParams,
    Listing,
    NamedBoard,
    Performance,
    PerfParams,
)
from engine.wire.doctor import Check, Checks
from engine.wire.monitor import MONITOR_REPLAY, MONITOR_WATCH, Monitored, ReplayParams, WatchParams

_JOIN_SECONDS = 15.0


@answers(BOARD_ABOUT)
def about(params: AboutParams) -> About:
    """What a board is and does now, and whether a model fits it."""
    from engine.devices.doctor.examine import about_board

    return about_board(params)


@runs(BOARD_RUN)
def run(params: RunParams, reporter: Reporter) -> Ran:
    """Run one sample on a board."""
    from engine.devices.run.on_board import run_on_board
    from engine.devices.toolkit.board import toolkit_address
    from engine.devices.toolkit.jobs import run_by_job
    from engine.services.board_models import model_source

    address = toolkit_address(params.device)
    source = model_source(params, params.build, reporter)
    if address is not None:
        return run_by_job(address, params, source, reporter)
    return run_on_board(params, source, reporter)


@runs(BOARD_MEMORY)
def memory(params: MemoryParams, reporter: Reporter) -> MemoryReport:
    """What a model takes on a board."""
    from engine.devices.run.on_board import memory_on_board
    from engine.devices.toolkit.board import toolkit_address
    from engine.devices.toolkit.jobs import memory_by_job, with_allocations
    from engine.services.board_models import model_source

    address = toolkit_address(params.device)
    source = model_source(params, None, reporter)
    if address is not None:
        return memory_by_job(address, source, reporter)
    return with_allocations(memory_on_board(params, source, reporter), source, reporter)


@answers(DEVICES_LIST)
def list(params: DeviceListParams) -> Listing:  # noqa: A001 - the verb of the command line
    """Look once for the boards in reach."""
    from engine.devices.address import Address
    from engine.devices.listing import poll

    named = [str(Address.parse(address)) for address in params.ssh]
    return poll(ssh=named, start_server=params.start_server, ask=params.ask)


@answers(DEVICES_ADD)
def add(params: AddBoardParams) -> NamedBoard:
    """Start an emulated board, or connect to one on the network; a login is tried when it is used.

    Raises:
        EngineError: there is no such board, it does not answer, or the address is none.
    """
    from engine.base.errors import UsageError
    from engine.devices import emulated
    from engine.devices.address import Address
    from engine.devices.transports.adb.link import Deadline
    from engine.devices.transports.adb.server import AdbServer

    text = params.address.strip().removeprefix(f"{params.over}:")
    if params.over != "emulated" and not text:
        raise UsageError("The board has no address.", remedy="Name its host, or its host and port.")
    if params.over == "ssh":
        return NamedBoard(str(Address.parse(f"ssh:{text}")))
    server = AdbServer.of_environment()
    if not server.is_up():
        server.start()
    chip, notes = "", tuple[str, ...]()
    if params.over == "emulated":
        chip = params.chip.lower()
        text, notes = emulated.start(chip)
    address = Address("adb", text)
    server.join(text, Deadline(_JOIN_SECONDS))
    return NamedBoard(str(address), chip, notes)


@answers(DEVICES_REMOVE)
def remove(params: NamedBoard) -> NamedBoard:
    """Let a board on the network go; an emulated one of this worker ends."""
    from engine.devices import emulated
    from engine.devices.address import Address
    from engine.devices.transports.adb.link import Deadline
    from engine.devices.transports.adb.server import AdbServer

    address = Address.parse(params.device)
    if address.kind == "adb":
        AdbServer.of_environment().leave(address.name, Deadline(_JOIN_SECONDS))
        emulated.stop(address.name)
    return params


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


@runs(MONITOR_WATCH)
def watch(params: WatchParams, reporter: Reporter) -> Monitored:
    """Watch boards until the time is over or the job is asked to finish."""
    from engine.devices.watch.watch import watch_boards

    return watch_boards(params, reporter)


@runs(MONITOR_REPLAY)
def replay(params: ReplayParams, reporter: Reporter) -> Monitored:
    """Show a recording again."""
    from engine.devices.watch.watch import replay_recording

    return replay_recording(params, reporter)


@runs(COMPARE_BOARD)
def board(params: CompareParams, reporter: Reporter) -> Comparison:
    """Compare golden, simulator and board on one sample; tensors are written where asked.

    Raises:
        UsageError: the build is not quantized, or the compiled model is of another one.
        DeviceError: the board cannot be reached or used.
        OutputExistsError: the folder is not empty.
    """
    from engine.pipeline.analysis import compare_build
    from engine.pipeline.board import BoardChoice
    from engine.services.state import get_pipeline, recipe_at

    pipeline = get_pipeline(recipe_at(params), reporter, last="quantize", then=("board",))
    compiled = None if params.compiled is None else Path(params.compiled)
    comparison, files = compare_build(
        pipeline,
        BoardChoice(params.device, compiled=compiled),
        None if params.inputs is None else [Path(path) for path in params.inputs],
        None if params.output_dir is None else Path(params.output_dir),
        layers=params.layers,
        force=params.force,
        rounding=params.rounding,
    )
    return comparison.told(files)
