"""A build as a container, and a container as what views and simulation need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base.findings import Finding
from engine.base.text import printable
from engine.container import (
    Container,
    ContainerContent,
    portable_summary,
    read_container,
    write_container,
)
from engine.jobs.cache import Memory
from engine.jobs.digests import stamp_of
from engine.jobs.results import Files
from engine.jobs.summary import summarise

if TYPE_CHECKING:
    from engine.jobs.pipeline import Pipeline

__all__ = ["PackedContainer", "opened", "pack", "unknown_finding"]

_opened = Memory(2)
_OF_THE_MACHINE = frozenset({"cache-not-written", "integer-kernel-inexact"})


@dataclass(frozen=True)
class PackedContainer:
    """The bytes of a ``.rknn`` file."""

    key: str
    data: bytes

    def to_files(self) -> Files:
        """For the cache."""
        return {"container.rknn": self.data}

    @classmethod
    def from_files(cls, key: str, files: Mapping[str, bytes]) -> PackedContainer:
        """From the cache."""
        return cls(key, files["container.rknn"])


def pack(pipeline: Pipeline) -> bytes:
    """The container of a pipeline whose other stages are done: no time, host, user or path in
    it.
    """
    recipe = pipeline.recipe
    quantized = pipeline.quantized if pipeline.quantized_build else None
    summary: dict[str, Any] = portable_summary(summarise(pipeline, 0))
    # what was noticed of this machine is no part of the build
    summary["findings"] = [f for f in summary["findings"] if f["code"] not in _OF_THE_MACHINE]
    return write_container(
        ContainerContent(
            name=pipeline.model_path.name,
            graph=pipeline.deployed.graph,
            quantized=quantized is not None,
            recipe=pipeline.portable_recipe(),
            provenance=pipeline.provenance,
            table=None if quantized is None else quantized.table,
            summary=summary,
            custom_string=recipe.target.custom_string,
            target_platform=recipe.target.target_platform,
        )
    )


def unknown_finding(found: Container, path: Path) -> Finding | None:
    """What to tell of sections that this version does not read; None where there are none."""
    names = found.unknown_sections
    if not names:
        return None
    shown = ", ".join(printable(name, 40) for name in names)
    return Finding(
        "container-section-unknown",
        "warning",
        path.name,
        f"The container has sections that this version does not read: {shown}.",
        cause="A newer version or another program wrote it.",
        remedy="Update this program where what they hold matters; all else is read.",
    )


def opened(path: Path) -> Container:
    """A container of ours, kept for as long as its file stays the same.

    Raises:
        ContainerError: it is missing, foreign or corrupt.
    """
    try:
        stamp = stamp_of(path)
    except OSError:
        return read_container(path)  # which tells why
    known: Container | None = _opened.get(stamp)
    if known is None:
        known = read_container(path)
        _opened.put(stamp, known)
    return known
