"""A build through the vendor's compiler, for one chip or many."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from engine.base.errors import (
    CompilerError,
    EngineError,
    JobCancelledError,
    QuantizationError,
    UsageError,
)
from engine.base.events import ArtifactWritten, LogLine
from engine.base.files import atomic_write_all, refuse_existing
from engine.base.findings import Finding
from engine.base.plain import JsonValue
from engine.container import write_container
from engine.cost.printed import parse_printed
from engine.facts import Chip
from engine.pipeline.compile_sources import HandedModel, without_idle_outputs
from engine.pipeline.compile_toolkits import LogFolder, Toolkits
from engine.pipeline.compile_ways import (
    Way,
    another_way_finding,
    changes,
    failed_ways,
    vendors_way,
    ways,
)
from engine.pipeline.first_apart import opinion_of
from engine.pipeline.opinion_findings import judge, with_cause
from engine.pipeline.second_opinion import OpinionSamples
from engine.pipeline.stages.compiled import CompiledModel, compiled_stage
from engine.pipeline.stages.container import content_of
from engine.pipeline.stages.estimate import cost_inputs
from engine.quantize import KEPT_IN_FLOAT16, is_quantized_source, span_of
from engine.toolkit.compile.checked import check_compiled
from engine.toolkit.compile.compiler import CompilerRequest, CompilerRun
from engine.toolkit.compile.model import idle_targets
from engine.toolkit.compile.notices import notice_findings
from engine.toolkit.compile.options import (
    ToolkitOptions,
    choose_quantizer,
    require_dtypes,
    toolkit_options,
)
from engine.toolkit.compile.side_file import Origin, keep_build, side_file, side_path
from engine.toolkit.compile.table import compiler_table
from engine.toolkit.environments import find
from engine.toolkit.environments.places import toolkit_words
from engine.wire.compile import (
    Compiled,
    CompiledModels,
    CompileParams,
    QuantizedBy,
    SecondOpinion,
)
from engine.wire.cost import WhatIf

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline
    from engine.recipe import Recipe
    from engine.wire.cost import ChipEstimate
    from engine.wire.vendor import ToolkitEnvironment

_PLACE = "{chip}"
_TABLE = "Network Layer Information Table"


@dataclass(frozen=True)
class _Target:
    """One model to compile.

    Attributes:
        chip, path: what for, and where its file goes.
        environment: of the toolkit.
        log: the file for what the toolkit prints.
        notes: what is to be told of it before anything is compiled.
    """

    chip: Chip
    path: Path
    environment: ToolkitEnvironment
    log: Path
    notes: tuple[Finding, ...]

    @property
    def shown_log(self) -> str:
        """The log, where there is one."""
        return str(self.log) if self.log.exists() else ""


def compiled_paths(path: Path, model: str, chips: Sequence[Chip]) -> list[tuple[Chip, Path]]:
    """The file of each chip.

    Args:
        path: a file; a folder, which is made where it is missing; or a name with ``{chip}`` in it.
        model: name of the source model's file.
        chips: at least one.

    Raises:
        UsageError: several chips would have one file.
    """
    stem = Path(model).stem
    if _PLACE in path.name:
        return [(chip, path.with_name(path.name.replace(_PLACE, chip.name))) for chip in chips]
    if path.suffix != ".rknn" or path.is_dir():
        return [(chip, path / f"{stem}-{chip.name}.rknn") for chip in chips]
    if len(chips) > 1:
        raise UsageError(
            f"{path.name} is one file, and {len(chips)} chips are named.",
            remedy="Name a folder, or a file with {chip} in its name: " + f"{stem}-{_PLACE}.rknn",
        )
    return [(chips[0], path)]


def compile_models(
    pipeline: Pipeline,
    asked: CompileParams,
    chips: Sequence[tuple[Chip, Path]],
    recipe: Recipe | None = None,
) -> CompiledModels:
    """Compile a build for every chip; one that fails does not end the others.

    Args:
        pipeline: of the recipe for the compiler (:func:`channels_first_recipe`).
        asked: how.
        chips: with the file of each.
        recipe: the user's, for the side file; None: the pipeline's.

    Raises:
        EngineError: the build itself fails, or a file is there and may not be replaced.
        JobCancelledError: the user cancelled.
    """
    for _, path in chips:
        _folder_of(path)
        for file in (path, side_path(path)):
            refuse_existing(file, overwrite=asked.force)
    pipeline, findings = without_idle_outputs(pipeline)
    with _Compilation(pipeline, asked, recipe, findings) as compilation:
        results = tuple(compilation.chip(chip, path) for chip, path in chips)
    return CompiledModels(model=pipeline.source.path.name, chips=results)


def _folder_of(path: Path) -> None:
    """Make the folder of a file; one level, as a misspelled path is no tree to make."""
    if not path.parent.exists() and path.parent.parent.is_dir():
        with contextlib.suppress(OSError):  # who writes tells why it is not there
            path.parent.mkdir()


class _Compilation:
    """A recipe's compilations: what they share is made once."""

    def __init__(
        self,
        pipeline: Pipeline,
        asked: CompileParams,
        recipe: Recipe | None,
        notes: Sequence[Finding],
    ) -> None:
        self._pipeline, self._asked = pipeline, asked
        self._recipe = recipe
        self._notes = tuple(notes)
        self._samples = OpinionSamples.of(asked.samples)
        self._logs = LogFolder()
        self._toolkits = Toolkits(pipeline.reporter, self._logs.folder)
        self._handed: dict[tuple[QuantizedBy, int, int], HandedModel] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._toolkits.close(kill=kind is not None)

    def chip(self, chip: Chip, path: Path) -> Compiled:
        """The model of a chip, or why there is none."""
        try:
            environment = find(chip.generation, self._asked.toolkit)
            by, notes = self._quantizer(chip)
            require_dtypes(self._pipeline.recipe, chip, by)
            toolkit = toolkit_words(environment)
        except EngineError as error:
            return self._failed(Compiled(chip=chip.name), error)
        blank = Compiled(chip=chip.name, toolkit=toolkit, quantized_by=by)
        key = (by, chip.generation, span_of(chip.name))
        handed = self._handed.setdefault(key, HandedModel(self._pipeline, *key))
        log = self._logs.path(f"{path.stem}.log")
        target = _Target(chip, path, environment, log, (*self._notes, *notes))
        tries = ways(handed, self._asked.quantizer)
        fault: EngineError | None = None
        try:
            _ = handed.graph  # a build that fails has failed for every chip
        except QuantizationError as error:
            if by != "ours" or self._asked.quantizer is not None:
                raise
            # the toolkit has 8 bits for operators that have none here
            tries, fault = iter([vendors_way(handed, ours=False)]), error
        try:
            return self._by_ways(blank, target, handed, tries, fault)
        except JobCancelledError:
            raise
        except EngineError as error:
            return self._failed(replace(blank, log=target.shown_log), with_cause(error, handed))
        finally:
            self._toolkits.told = str

    def _by_ways(
        self,
        blank: Compiled,
        target: _Target,
        asked: HandedModel,
        tries: Iterator[Way],
        first: EngineError | None,
    ) -> Compiled:
        """The model as it was asked for; where that fails, another way.

        Raises:
            EngineError: no way leads to a model; the error is that of the first.
        """
        tried: list[str] = []
        for way in tries:
            try:
                result = self._by_way(blank, target, way)
            except JobCancelledError:
                raise
            except EngineError as error:
                if first is None and not isinstance(error, CompilerError):
                    raise  # what was asked for cannot be built, for no chip
                if self._toolkits.stopped:
                    raise first or error from None
                what, cause = map(self._toolkits.told, (error.what, error.cause))
                self._pipeline.reporter.emit(LogLine(f"{target.chip.name}: {what}", "warning"))
                if first is None:
                    first = type(error)(what, cause=cause, remedy=error.remedy)
                else:
                    tried.append(way.words)
                continue
            if first is None:
                return result
            cycles = None
            if not isinstance(first, QuantizationError):
                plan, _ = self._estimate(target.chip.name, asked)
                cycles = None if plan is None else plan.total_cycles
            note = another_way_finding(way, asked, first, result, cycles)
            return replace(result, findings=(note, *result.findings))
        if first is None:
            raise CompilerError(
                "There is no way to compile.", remedy="Please report this, with the recipe."
            )
        raise failed_ways(first, tried)

    def _by_way(self, blank: Compiled, target: _Target, way: Way) -> Compiled:
        handed, chip, environment = way.handed, target.chip, target.environment
        notes = target.notes
        model, names = handed.file_for(environment.version)
        targets, idle = handed.op_target
        for idle_target in idle_targets(idle) if chip.generation > 1 else ():
            self._pipeline.reporter.emit(LogLine(f"{chip.name}: {idle_target.what}", "warning"))
            notes = (*notes, idle_target)
        options = toolkit_options(
            handed.pipeline.recipe,
            chip,
            handed.by,
            handed.plans,
            names.in_file(targets),
            environment.version,
        )
        request = CompilerRequest(
            chip=chip.name,
            model=model,
            names=names,
            by=handed.by,
            config=options.config,
            build=options.build,
            samples=tuple(handed.raw_samples()) if handed.by == "vendor" else (),
        )
        blank = replace(blank, quantized_by=handed.by)
        samples = self._samples
        if way.words and not samples.count:
            # nobody asked for another way: that it computes the same is looked at
            samples = replace(samples, count=1)
        target = replace(target, notes=notes)
        compiled, cached = self._compiled(target, handed, request, samples)
        result = self._told(blank, target, handed, request, options, compiled, cached=cached)
        if way.words and result.problem:  # it computes something else: the next way may not
            raise CompilerError(result.problem, cause=result.cause, remedy=result.remedy)
        return result

    def _quantizer(self, chip: Chip) -> tuple[QuantizedBy, tuple[Finding, ...]]:
        """Whose quantization the model of a chip has.

        Raises:
            UsageError: as of :func:`choose_quantizer`.
        """
        pipeline = self._pipeline
        choice = choose_quantizer(pipeline.recipe, chip, self._asked.quantizer)
        if choice[0] != "nobody" or not is_quantized_source(pipeline.optimised.graph.graph):
            return choice
        finding = Finding(
            "source-quantization-compiled",
            "info",
            chip.name,
            "The model came quantized: its own scales and zero points are compiled.",
            "do_quantization is off, and its Q/DQ pairs stay.",
        )
        return "ours", (finding,)

    def _failed(self, blank: Compiled, error: EngineError) -> Compiled:
        if isinstance(error, JobCancelledError):
            raise error
        restore = self._toolkits.told
        self._pipeline.reporter.emit(LogLine(f"{blank.chip}: {restore(error.what)}", "error"))
        return replace(
            blank,
            problem=restore(error.what),
            cause=restore(error.cause),
            # the log with the user's names, where there is one
            remedy=self._logs.raw.sub(blank.log, error.remedy) if blank.log else error.remedy,
            exit_code=error.exit_code,
        )

    def _compiled(
        self,
        target: _Target,
        handed: HandedModel,
        request: CompilerRequest,
        samples: OpinionSamples,
    ) -> tuple[CompiledModel, bool]:
        """The compiled model, out of the cache where it was compiled before."""

        chip, environment = target.chip.name, target.environment

        def run(key: str) -> CompiledModel:
            toolkit = self._toolkits.get(environment)
            self._toolkits.told = request.names.told
            begun = time.perf_counter()
            one = CompilerRun(toolkit, request, self._asked.seconds)
            try:
                data = one.compile()
                seconds = round(time.perf_counter() - begun, 3)
                printed = one.log  # before others are compiled to find where they part
                opinion = opinion_of(one, handed, samples)
                return CompiledModel(key, data, printed, seconds, opinion)
            finally:
                self._logs.write(target.log, request.names.told(one.log))
                with contextlib.suppress(EngineError):
                    one.release()

        facts: dict[str, JsonValue] = {
            "chip": chip,
            "request": request.digest,
            "toolkit": [environment.generation, environment.version, environment.python],
            "samples": [*samples.digest(handed)],
        }
        stage = compiled_stage(chip, facts, run)
        asked = self._pipeline.with_stage(stage)
        asked.told = self._pipeline.told
        result = asked.get(stage)
        cached = asked.times[-1].cached
        if cached:
            self._logs.write(target.log, request.names.told(result.log))
        return result, cached

    def _estimate(
        self, chip: str, handed: HandedModel
    ) -> tuple[ChipEstimate | None, tuple[Finding, ...]]:
        """The plan for the file that the compiler was given, and why there is none.

        The file is not quite the source model: a mean stands in it as convolutions, and pairs of Q
        and DQ are seen through.
        """
        from engine.cost.estimate import estimate_chip

        untold = handed.pipeline.with_recipe(handed.pipeline.recipe)  # it has no reporter
        came_quantized = not untold.quantized_build and is_quantized_source(
            untold.optimised.graph.graph
        )
        what_if = WhatIf((chip,), "int8" if came_quantized else None)
        try:
            settings, layers = cost_inputs(untold, what_if)
            kept = {
                f"{name}{KEPT_IN_FLOAT16}": dtype for name, dtype in settings.layer_dtypes.items()
            }
            settings = replace(settings, layer_dtypes={**settings.layer_dtypes, **kept})
            file = handed.file_at(handed.largest)
            estimate = estimate_chip(file, chip, settings, layers)
            return estimate, _no_plan(chip, estimate.problem, remedy=estimate.remedy)
        except EngineError as error:
            return None, _no_plan(chip, error.what, error.cause, error.remedy)

    def _container(self, chip: str, handed: HandedModel) -> bytes:
        """The build as a container for a chip: what an emulated board runs in place of the file."""
        graph = handed.pipeline.deployed.graph
        content = content_of(handed.pipeline, graph, self._recipe)
        return write_container(replace(content, target_platform=chip))

    def _origin(self, handed: HandedModel) -> Origin:
        taken = handed.pipeline
        recipe = self._recipe or self._pipeline.recipe
        content = content_of(taken, taken.optimised.graph.graph, recipe)
        provenance = content.provenance
        return Origin(
            model=content.name,
            recipe=content.recipe,
            source=provenance.source,
            dataset=provenance.dataset,
            changed=changes(self._pipeline, taken),
        )

    def _told(
        self,
        blank: Compiled,
        target: _Target,
        handed: HandedModel,
        request: CompilerRequest,
        options: ToolkitOptions,
        compiled: CompiledModel,
        *,
        cached: bool,
    ) -> Compiled:
        """Write the files, and everything that is known of them.

        Raises:
            CompilerError: the model is not what was built, and that is not accepted.
        """
        names, path = request.names, target.path
        opinion = compiled.opinion or SecondOpinion()
        opinion = replace(opinion, problem=names.told(opinion.problem))
        judgement = judge(opinion, handed, accept=self._asked.accept_difference)
        blank = replace(
            blank,
            outputs=opinion.outputs,
            samples_from=opinion.samples_from,
            opinion_seconds=compiled.opinion.seconds if compiled.opinion else None,
        )
        if judgement.error is not None:
            return self._failed(replace(blank, log=target.shown_log), judgement.error)
        digest = hashlib.sha256(compiled.model).hexdigest()
        side = side_file(self._origin(handed), request, blank.toolkit, path, digest, compiled.model)
        with self._logs.file(f"{path.stem}.rknn", compiled.model) as copy:
            _, misfits = check_compiled(copy, request, handed.inputs, handed.graph.outputs)
        contents = [(path, compiled.model), (side_path(path), side)]
        atomic_write_all(contents, overwrite=self._asked.force)
        if blank.quantized_by != "vendor":
            keep_build(digest, self._container(blank.chip, handed))
        self._pipeline.reporter.emit(ArtifactWritten(str(path), "rknn", len(compiled.model)))
        estimate, no_plan = self._estimate(blank.chip, handed)
        printed = names.table(parse_printed(_first_shapes(compiled.log)))
        table = compiler_table(printed, estimate, handed.layers)
        memory = estimate.memory if estimate else None
        return replace(
            blank,
            path=str(path),
            size=len(compiled.model),
            sha256=digest,
            side_file=str(side_path(path)),
            cached=cached,
            seconds=compiled.seconds,
            layers=table.layers,
            internal_bytes=table.internal_bytes,
            weight_bytes=table.weight_bytes,
            estimated_internal_bytes=memory.internal if memory else None,
            estimated_weight_bytes=memory.weight if memory else None,
            npu_cycles=table.npu_cycles,
            total_cycles=table.total_cycles,
            findings=(
                *target.notes,
                *names.findings(),
                *judgement.findings,
                *options.findings,
                *misfits,
                *notice_findings(compiled.log, names.told, handed.integers),
                *no_plan,
                *table.findings,
            ),
            log=target.shown_log,
        )


def _no_plan(chip: str, why: str, cause: str = "", remedy: str = "") -> tuple[Finding, ...]:
    """That our estimate does not stand beside the compiler's table, where it does not."""
    if not why:
        return ()
    return (
        Finding(
            "no-plan",
            "warning",
            chip,
            "There is no estimate of ours beside the compiler's layers, cycles and memory.",
            " ".join(part for part in (why, cause) if part),
            remedy or "The compiled model is as good without it.",
        ),
    )


def _first_shapes(log: str) -> str:
    """The log up to the tables of the second set of shapes: the plan is of the largest one."""
    first = log.find(_TABLE)
    second = log.find(_TABLE, first + 1)
    return log if second < 0 else log[:second]
