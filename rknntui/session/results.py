"""The results of jobs as the records of their tasks, also of jobs that were found again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine import JsonObject


def read_record(method: str, data: JsonObject) -> object:
    """The record of a job's result; plain data where no screen shows a record of it.

    Raises:
        WorkerError: it is not of that type, as in a damaged or older history.
    """
    from engine.wire.accuracy import EVALUATE
    from engine.wire.board import BOARD_LIVE, BOARD_MEMORY, BOARD_RUN
    from engine.wire.build import ACCURACY, BUILD, EXPORT, SIMULATE
    from engine.wire.codegen import CODEGEN
    from engine.wire.compare import COMPARE_BOARD
    from engine.wire.compile import COMPILE
    from engine.wire.devices import DEVICES_EXAMINE
    from engine.wire.encryption import ENCRYPTION_ENCRYPT
    from engine.wire.guide import GUIDE
    from engine.wire.hybrid import EFFECT, PROPOSE, SEARCH
    from engine.wire.monitor import MONITOR_REPLAY, MONITOR_WATCH
    from engine.wire.segments import SEGMENTS_CUT
    from engine.wire.sweep import SWEEP
    from engine.wire.vendor import VENDOR_ADOPT, VENDOR_CHECK, VENDOR_INSTALL, VENDOR_REMOVE

    tasks = (
        *(BUILD, SIMULATE, ACCURACY, EXPORT, GUIDE, EVALUATE, SWEEP, EFFECT, PROPOSE, SEARCH),
        *(DEVICES_EXAMINE, COMPILE, CODEGEN, ENCRYPTION_ENCRYPT, SEGMENTS_CUT),
        *(VENDOR_INSTALL, VENDOR_CHECK, VENDOR_ADOPT, VENDOR_REMOVE),
        *(MONITOR_WATCH, MONITOR_REPLAY, BOARD_LIVE, BOARD_RUN, BOARD_MEMORY, COMPARE_BOARD),
    )
    task = next((task for task in tasks if task.name == method), None)
    return data if task is None else task.read(data)
