"""What the history knows of a build: a side of a comparison, its report."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from engine import recipe_of, result_of, results_of
from engine.wire.build import BUILD
from engine.wire.method import Query

if TYPE_CHECKING:
    from engine import JobRecord
    from engine.wire.method import Method
    from rknntui.bridge import Bridge


async def report_of(build: JobRecord, records: Iterable[JobRecord], bridge: Bridge) -> str:
    """The report of a build of the history as HTML; what is not known it says.

    Raises:
        EngineError: there is no worker.
    """
    from engine import gather_report, report_html

    recipe = recipe_of(build)

    async def ask(method: Method[Any, Any], params: Any) -> Any:
        if isinstance(method, Query):
            return await bridge.call(method, params)
        if method is BUILD:
            return await asyncio.to_thread(result_of, build, method)
        return await asyncio.to_thread(next, results_of(records, method, recipe), None)

    return await asyncio.to_thread(report_html, await gather_report(ask, recipe))
