"""``export_rknn`` with the compiler ``rockchip``: what an NPU runs, by the vendor's toolkit."""

from __future__ import annotations

import os
from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import CompilerError, UsageError
from engine.base.process import COMPILER
from engine.base.text import did_you_mean, human_bytes, sanitize

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline

COMPILERS = ("open", "rockchip")
"""What ``export_rknn`` writes: a container of ours, or what the vendor's toolkit compiles."""


def compiler_of(given: str | None) -> str:
    """The compiler of ``RKNN(compiler=...)``, else of the environment, else ours.

    Raises:
        UsageError: there is no such compiler.
    """
    name = given if given is not None else os.environ.get(COMPILER) or COMPILERS[0]
    if name not in COMPILERS:
        raise UsageError(
            f"compiler is {sanitize(repr(name), 60)}; it must be one of {', '.join(COMPILERS)}.",
            cause="" if given is not None else f"{COMPILER} is set so.",
            remedy=did_you_mean(str(name), COMPILERS) or "Leave it out for a container of ours.",
        )
    return name


def export_compiled(
    built: Pipeline,
    chip: str | None,
    path: Path,
    log: Logger,
    *,
    accept_difference: bool = False,
) -> None:
    """Compile a build for its ``target_platform`` and write the vendor's model; it overwrites.

    Args:
        built: of ``build`` or ``hybrid_quantization_step2``.
        chip: the target platform.
        path: of the model; a side file is beside it.
        log: takes what was made, and the compiler's warnings.
        accept_difference: write a model that computes something else than the build, too.

    Raises:
        UsageError: no target platform.
        ToolkitError: the vendor's toolkit is not set up (`rknntui vendor install`).
        CompilerError: it refused the model, crashed, or made another model than was built.
    """
    from engine.cost.chips import chips_named
    from engine.pipeline.compiled import compile_models
    from engine.wire.compile import CompileParams

    if chip is None:
        raise UsageError(
            "The vendor's compiler needs to know the chip.",
            cause="config was called without target_platform.",
            remedy="Give target_platform='rk3588', or the chip that you have.",
        )
    asked = CompileParams(
        recipe={}, path=str(path), force=True, accept_difference=accept_difference
    )
    chips = ((chips_named((chip,))[0], path),)
    (compiled,) = compile_models(_for_compiler(built), asked, chips).chips
    for finding in compiled.findings:
        log.warning("export_rknn: %s: %s", sanitize(finding.where, 120), finding.what)
    if compiled.problem:
        raise CompilerError(
            compiled.problem,
            cause=compiled.cause,
            remedy=compiled.remedy or f"What the toolkit printed is in {compiled.log}.",
        )
    log.warning(
        "export_rknn: %s (%s) is compiled for %s by %s; it runs on the NPU. Quantized by: %s.",
        path,
        human_bytes(compiled.size),
        compiled.chip,
        compiled.toolkit,
        compiled.quantized_by,
    )


def _for_compiler(built: Pipeline) -> Pipeline:
    """A pipeline of the same build with channels first, as the compiler takes them."""
    from engine.pipeline.compile_sources import channels_first_recipe
    from engine.pipeline.hybrid_steps import StepSamples

    if isinstance(built.samples, StepSamples):  # hybrid step 2: its files are of this graph
        return built
    framework = built.loaded.source.framework
    return built.with_recipe(channels_first_recipe(built.recipe, framework))
