"""A build as a ``.rknn`` file: no time, host, user or path in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.plain import JsonValue
from engine.base.version import __version__
from engine.build import Provenance
from engine.container import ContainerContent, portable_summary, write_container
from engine.pipeline.build import summarise
from engine.pipeline.fingerprints import library_versions
from engine.pipeline.pipeline import Codec, Pipeline, Stage
from engine.pipeline.results import PackedContainer
from engine.recipe import Recipe, relocatable

if TYPE_CHECKING:
    from engine.graph.ir import Graph

_OF_THE_MACHINE = frozenset({"cache-not-written", "integer-kernel-inexact"})


def _pack(pipeline: Pipeline, key: str) -> PackedContainer:
    summary = summarise(pipeline, 0)
    # what was noticed of this machine is no part of the build
    findings = tuple(finding for finding in summary.findings if finding.code not in _OF_THE_MACHINE)
    content = content_of(pipeline, pipeline.deployed.graph)
    portable = portable_summary(replace(summary, findings=findings))
    return PackedContainer(key, write_container(replace(content, summary=portable)))


def content_of(pipeline: Pipeline, graph: Graph, recipe: Recipe | None = None) -> ContainerContent:
    """What a container of a graph of the build holds, without a summary.

    Args:
        pipeline: of the build.
        graph: its deployed graph, or one of the same layers.
        recipe: another one in the place of the pipeline's.
    """
    recipe = recipe or pipeline.recipe
    target = recipe.target
    quantized = pipeline.quantized_build
    return ContainerContent(
        name=pipeline.source.path.name,
        graph=graph,
        quantized=quantized,
        recipe=_portable_recipe(pipeline, recipe),
        provenance=_provenance(pipeline),
        table=pipeline.quantized.table if quantized else None,
        layers=pipeline.quantized.layers if quantized else None,
        custom_string=target.custom_string,
        target_platform=target.target_platform,
    )


def _portable_recipe(pipeline: Pipeline, recipe: Recipe) -> dict[str, JsonValue]:
    """The recipe with every default written out, files as name and SHA-256."""
    digests = dict(pipeline.source.digests)
    if recipe.dataset.dataset:
        if pipeline.quantized_build:
            digests[recipe.dataset.dataset] = pipeline.samples.digest
        else:  # named but not used: it must not decide a byte
            recipe = recipe.with_values(dataset=None)
    return relocatable(recipe, digests)


def _provenance(pipeline: Pipeline) -> Provenance:
    dataset = None
    if pipeline.quantized_build:
        name = Path(str(pipeline.recipe.dataset.dataset)).absolute().name
        dataset = (name, pipeline.samples.digest)
    return Provenance(
        tool=__version__,
        source=tuple(pipeline.loaded.source.files),
        dataset=dataset,
        samples=pipeline.calibration.samples if pipeline.quantized_build else 0,
        libraries=library_versions(),
    )


CONTAINER: Stage[PackedContainer] = Stage(
    name="container",
    title="Pack the container",
    run=_pack,
    inputs=("evaluate",),
    codec=Codec(
        PackedContainer.to_files, lambda _, key, files: PackedContainer.from_files(key, files)
    ),
)
