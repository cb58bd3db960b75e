"""Frozen types of what a build is and what it tells; no logic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from engine.base.findings import Finding


@dataclass(frozen=True)
class LayerCoverage:
    """How one quantized layer runs in the simulator.

    Attributes:
        layer: node name in the optimised graph.
        op: its operator.
        integer: whether ONNX Runtime's optimised graph runs it as an integer kernel.
        kernel: that kernel's name (``QLinearConv``), or the float operator.
        reason: why it runs in float; empty for integer layers.
    """

    layer: str
    op: str
    integer: bool
    kernel: str
    reason: str = ""


@dataclass(frozen=True)
class ErrorFigure:
    """How far simulated values are from float ones, all values of the samples together.

    Attributes:
        sqnr_db: signal to quantization noise ratio in dB; None: no noise at all (equal).
        cosine: of the angle between the values as vectors.
        samples: how many samples they are of; 0 where it was not written down.
        scope: ``entire``: the errors of the layers before are in it (the vendor's words).
    """

    sqnr_db: float | None
    cosine: float
    samples: int = 0
    scope: ClassVar[Literal["entire", "single"]] = "entire"


@dataclass(frozen=True)
class SingleError(ErrorFigure):
    """The figure of a layer that ran alone on float inputs: ``single``, its own error only."""

    scope = "single"


@dataclass(frozen=True, kw_only=True)
class OutputFidelity(ErrorFigure):
    """One output of the model."""

    name: str


@dataclass(frozen=True, kw_only=True)
class LayerError(ErrorFigure):
    """The output of one layer."""

    layer: str
    op: str
    tensor: str


@dataclass(frozen=True)
class StageTime:
    """Seconds of one stage, measured on this machine; ``cached`` when nothing was computed."""

    stage: str
    seconds: float
    cached: bool


@dataclass(frozen=True)
class Provenance:
    """Where a build came from; no time, host, user or path (a container is deterministic).

    Attributes:
        tool: this program's version.
        source: (file name, SHA-256) of every source file.
        dataset: (file name, SHA-256 of the samples' contents in order); None when not quantized.
        samples: number of calibration samples.
        libraries: (name, version) of what decides numbers (onnxruntime, onnx, numpy, pillow).
    """

    tool: str
    source: tuple[tuple[str, str], ...]
    dataset: tuple[str, str] | None
    samples: int
    libraries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class BuildSummary:
    """The one summary that ends a build in every front end.

    Attributes:
        key: hash of the build's inputs; the same build has the same key everywhere.
        quantized: whether the build is quantized; its dtype, algorithm and granularity follow.
        float_bytes, quantized_bytes: sizes of the serialised float and QDQ graphs.
        layers: integer coverage of every layer with weights or a quantized kernel, in graph order.
        outputs: fidelity of each output over the calibration samples (simulated).
        worst: the three layers with the lowest SQNR (simulated).
        stages: seconds of each stage (measured).
        next_command: the command line that a user would run next.
    """

    key: str
    name: str
    quantized: bool
    quantized_dtype: str
    quantized_algorithm: str
    quantized_method: str
    samples: int
    float_bytes: int
    quantized_bytes: int | None
    container_bytes: int
    nodes: int
    layers: tuple[LayerCoverage, ...]
    outputs: tuple[OutputFidelity, ...]
    worst: tuple[LayerError, ...]
    findings: tuple[Finding, ...]
    stages: tuple[StageTime, ...]
    next_command: str
