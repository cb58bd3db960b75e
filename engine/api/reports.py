"""All that is known of a build, for scripts: a worker of its own builds and analyses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from engine.jobs.client import Worker
from engine.recipe import Recipe
from engine.reports.build_report import BuildReport, container_report, gather_report
from engine.wire.method import Method, Query, Task


def build_report(
    model: Recipe | Path | str, *, allow_code: Sequence[Path | str] = ()
) -> BuildReport:
    """All that is known of a build: summary, error of each layer, ranges, estimated cost, and what
    the history has: times on a board, other builds.

    What the cache does not hold is built and analysed. ``absent`` of the report names what is not
    in it, and why. :func:`engine.report_html` and :func:`engine.chart_svg` write it.

    Args:
        model: a recipe, the file of a source model, or a ``.rknn`` container, which knows less.
        allow_code: the Python files of ``custom_ops`` that may run.

    Raises:
        EngineError: it cannot be built, or the container cannot be read.
    """
    allowed = [str(Path(file).absolute()) for file in allow_code]
    values = model.to_values() if isinstance(model, Recipe) else {"model": str(model)}
    recipe = Recipe.from_values(values, Path.cwd()).to_values()

    async def found() -> BuildReport:
        worker = await Worker.start()

        async def ask(method: Method[Any, Any], params: Any) -> Any:
            if isinstance(method, Query):
                return await worker.call(method, params, allow_code=allowed)
            task = cast("Task[Any, Any]", method)
            job = await worker.submit(task, params, allow_code=allowed, attended=True)
            return await job.result()

        try:
            if not isinstance(model, Recipe) and Path(model).suffix == ".rknn":
                return await container_report(ask, str(Path(model).absolute()))
            return await gather_report(ask, recipe)
        finally:
            await worker.close()

    with ThreadPoolExecutor(1) as thread:  # a notebook has a loop of its own in this one
        return thread.submit(asyncio.run, found()).result()
