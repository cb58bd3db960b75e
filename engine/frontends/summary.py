"""What a source model holds, read without converting anything: the pre-flight of a load."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from engine.base.findings import Finding


@dataclass(frozen=True)
class SourceTensor:
    """An input or output of a source model; ``shape`` has -1 for what is dynamic, None unknown."""

    name: str
    shape: tuple[int, ...] | None
    dtype: str


@dataclass(frozen=True)
class SourceLayer:
    """A layer as its file has it.

    Attributes:
        name: in the file; made unique by a number where the file repeats it.
        op: the framework's own name of its type.
        inputs, outputs: names of tensors.
        attributes: (name, text) pairs, as the file has them.
        shape: of the first output where the file tells it.
        dtype: of the first output, empty where unknown.
        refused: why a load will refuse it; empty where it will not.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    refused: str = ""


@dataclass(frozen=True)
class SourceSummary:
    """A source model before the long work starts.

    Attributes:
        framework: one of ``FRAMEWORKS``.
        format: what it is, in words, with the version that the file tells.
        version: (name, found, what this program reads) such as ``("opset", "12", "1 to 28")``; a
            row for each version that a load depends on.
        files: (file name, SHA-256) of every file.
        inputs, outputs: of the model as it stands.
        layers: in the file's order.
        candidates: tensor names that suit as ``inputs`` and as ``outputs`` where the file does not
            say which they are.
        findings: what will be refused (severity ``error``), and what a user should know.
        parameters: weights, counted; weights_bytes: their size.
    """

    framework: str
    format: str
    version: tuple[tuple[str, str, str], ...]
    files: tuple[tuple[str, str], ...]
    inputs: tuple[SourceTensor, ...]
    outputs: tuple[SourceTensor, ...]
    layers: tuple[SourceLayer, ...]
    candidates: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    findings: tuple[Finding, ...] = ()
    parameters: int = 0
    weights_bytes: int = 0
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def operators(self) -> dict[str, int]:
        """Operator -> how many layers have it, the most frequent first."""
        counts = Counter(layer.op for layer in self.layers)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def refused(self) -> tuple[tuple[str, str, str], ...]:
        """(operator, layer, why) of all that a load will refuse."""
        return tuple(
            (layer.op, layer.name, layer.refused) for layer in self.layers if layer.refused
        )
