"""A build, or a container of ours: loaded, and run in the simulator."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.base.cache import LruCache
from engine.base.content import reading
from engine.base.errors import ContainerError
from engine.base.files import open_regular
from engine.base.findings import Finding
from engine.base.plain import JsonObject
from engine.base.text import sanitize
from engine.container import Container, read_container
from engine.container.encryption import is_encrypted
from engine.container.keys import needed_key
from engine.graph.ir import Graph, QuantParams, TensorSpec
from engine.graph.layers import LayerMap
from engine.pipeline.fingerprints import file_fingerprint

if TYPE_CHECKING:
    from engine.graph.execute import SegmentedSession, Session
    from engine.graph.ir import CustomOperators
    from engine.pipeline.pipeline import Pipeline
    from engine.wire.names import Arithmetic

_opened = LruCache(2)


def unknown_finding(found: Container, path: Path) -> Finding | None:
    """What to tell of sections that this version does not read; None where there are none."""
    names = found.unknown_sections
    if not names:
        return None
    shown = ", ".join(sanitize(name, 40) for name in names)
    return Finding(
        "container-section-unknown",
        "warning",
        path.name,
        f"The container has sections that this version does not read: {shown}.",
        cause="A newer version or another program wrote it.",
        remedy="Update this program if you need them; everything else is read.",
    )


def load_packed(path: Path) -> Container:
    """A container of ours, kept for as long as its file and its key stay the same.

    Raises:
        ContainerError: it is missing, foreign or corrupt.
        KeyNeededError, WrongKeyError: it is encrypted, and no key or another one is given.
    """
    try:
        stamp = f"{file_fingerprint(path)} {_key_digest(path)}"
    except OSError:
        return read_container(path)  # which tells why
    return _opened.get_or_make(stamp, lambda: read_container(path))


def _key_digest(path: Path) -> str:
    """Which key opens an encrypted container; empty for any other file."""
    with open_regular(path) as stream:
        if not is_encrypted(stream.read(8)):
            return ""
    return hashlib.sha256(needed_key(sanitize(str(path), 300)).secret).hexdigest()


@dataclass(frozen=True)
class Runnable:
    """A graph ready to run.

    Attributes:
        key: of the build, or SHA-256 of the container.
        name: of the model.
        quantized: whether it runs in integers; else in float32.
        graph: that runs.
        session: the simulator's, opened already, so that a run can be timed; in segments where the
            container is cut into some.
        table: quantization parameters, empty without quantization.
        recipe: of a container, as stored in it.
        layers: of the graph; None in a container of version 0.1.
    """

    key: str
    name: str
    quantized: bool
    graph: Graph
    session: Session | SegmentedSession
    table: Mapping[str, QuantParams] = field(default_factory=dict)
    recipe: JsonObject = field(default_factory=dict)
    layers: LayerMap | None = None

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs."""
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs."""
        return self.graph.outputs

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Output name -> simulated values, in the model's order and layout.

        Raises:
            SimulationError: the graph does not run.
        """
        arrays = self.session.run(feeds)
        return {spec.name: arrays[spec.name] for spec in self.outputs}

    def in_form(self, arithmetic: Arithmetic, *, compiled: bool = False) -> Runnable:
        """The same in another arithmetic, or without roundings.

        Args:
            arithmetic: as of :func:`engine.simulate.open_arithmetic`.
            compiled: leave out the roundings between layers that the vendor's compiler fuses. At
                level 3 it makes one layer of, say, a convolution and an addition, and rounds once.
                Such layers run in float between their roundings here, which takes longer. Float
                layers give numbers that float16 has.
        """
        from engine.graph.execute import as_compiled, float16_layers
        from engine.simulate import open_arithmetic

        graph = as_compiled(float16_layers(self.graph)) if compiled else self.graph
        if graph is self.graph and arithmetic == "integer":
            return self
        return replace(self, graph=graph, session=open_arithmetic(graph, arithmetic))

    @classmethod
    def of_float(cls, pipeline: Pipeline) -> Runnable:
        """The optimised graph of a pipeline, in float32."""
        from engine.graph.execute import Session

        done = pipeline.optimised
        return cls(
            done.key, pipeline.source.path.name, False, done.graph.graph, Session(done.graph.graph)
        )

    @classmethod
    def of_build(cls, pipeline: Pipeline, graph: Graph | None = None) -> Runnable:
        """What a pipeline deploys: one of its graphs, by default at its first set of shapes."""
        from engine.graph.execute import Session

        graph = pipeline.deployed.graph if graph is None else graph
        name = pipeline.source.path.name
        if not pipeline.quantized_build:
            return cls(pipeline.optimised.key, name, False, graph, Session(graph))
        done = pipeline.quantized
        return cls(done.key, name, True, graph, Session(graph), done.table, layers=done.layers)

    @classmethod
    def of_container(cls, path: Path, operators: CustomOperators | None = None) -> Runnable:
        """A container of ours.

        Args:
            path: of the container.
            operators: its custom operators, whose code it does not hold.

        Raises:
            ContainerError: it is missing, foreign or corrupt.
            SimulationError: it has a custom operator that is not among ``operators``.
        """
        container = load_packed(path)
        with reading(lambda why: does_not_run(path, why)):
            return cls._of_content(container, operators)

    @classmethod
    def _of_content(cls, container: Container, operators: CustomOperators | None) -> Runnable:
        from engine.graph.execute import SegmentedSession, Session

        graph = container.graph.with_operators(operators) if operators else container.graph
        session: Session | SegmentedSession
        if container.segments:
            from engine.export.segments import segments_of
            from engine.graph.segments import places_of
            from engine.quantize import layers_of

            places = places_of(graph, container.layers or layers_of(graph))
            session = SegmentedSession(graph, places, segments_of(container))
        else:
            session = Session(graph)
        return cls(
            container.sha256,
            container.name,
            container.quantized,
            graph,
            session,
            container.table or {},
            container.recipe,
            container.layers,
        )


def does_not_run(path: Path, why: str) -> ContainerError:
    """The error for a container whose checksums hold and whose content does not."""
    return ContainerError(
        f"{sanitize(str(path), 300)} does not run: {why}.",
        cause="It was written by another program, or changed and its checksums were recomputed.",
        remedy="Export it again from its model.",
    )
