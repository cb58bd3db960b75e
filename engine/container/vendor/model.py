"""What a file of the vendor tells of itself: frozen types without logic of reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.base.findings import Finding
from engine.wire.model import VendorQuant

VendorKind = Literal[
    "npu",
    "npu-mini",
    "npu-bare",
    "layers",
    "layers-nbg",
    "layers-bare",
    "nbg",
    "rknx",
    "encrypted",
    "op-package",
]

FORMS: dict[VendorKind, str] = {
    "npu": "vendor RKNN model, generation 2",
    "npu-mini": "vendor RKNN model, generation 2, form of the small chips",
    "npu-bare": "vendor RKNN model, bare FlatBuffer",
    "layers": "vendor RKNN model, generation 1 (layer list)",
    "layers-nbg": "vendor RKNN model, generation 1, precompiled",
    "layers-bare": "vendor RKNN model, bare layer list (JSON)",
    "nbg": "vendor precompiled graph of generation 1 (VPMN)",
    "rknx": "vendor RKNN3 model (RKNX)",
    "encrypted": "encrypted vendor RKNN model",
    "op-package": "vendor package of a custom operator (.rknnop)",
}
"""Kind -> its name on a screen."""


@dataclass(frozen=True)
class VendorTensor:
    """One tensor.

    Attributes:
        name: its name in the file.
        shape: logical dimensions, slowest first (NCHW, OIHW); -1 for an unknown one.
        dtype: numpy's name; ``code N`` for a code whose meaning is not known, empty where the file
            has none.
        kind: ``input``, ``output``, ``activation``, ``weight`` (also biases), ``constant`` (small:
            shapes, slopes), ``table``, ``copy`` (of a weight, for another place), ``commands``,
            ``tasks``, ``none`` (stands for an input or output that a layer leaves out), or
            ``code N``.
        native_shape: dimensions in the NPU's own order of elements (features: N, C1, H, W, C2);
            empty where it has none.
        bytes: size in memory, with the NPU's padding; None where the file does not tell.
        quant: None for a tensor that is not quantized, or whose parameters are not established.
    """

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    kind: str = "activation"
    native_shape: tuple[int, ...] = ()
    bytes: int | None = None
    quant: VendorQuant | None = None

    @property
    def constant(self) -> bool:
        """Whether it is a weight or another constant of the model."""
        return self.kind in ("weight", "constant")


@dataclass(frozen=True)
class VendorPort:
    """An input or output of the model.

    Attributes:
        tensor: its tensor: name, shape, dtype inside the model, quantization.
        layout: of ``tensor.shape``, ``NCHW`` for instance; empty where the file does not tell.
        runtime_dtype, runtime_layout: how the runtime takes or gives it without conversion.
        source_dtype: type in the source model.
        mean, std: per channel, in units of the picture: ``(x - mean) / std``.
        rgb2bgr: whether red and blue are swapped; None where the file does not tell.
    """

    tensor: VendorTensor
    layout: str = ""
    runtime_dtype: str = ""
    runtime_layout: str = ""
    source_dtype: str = ""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    rgb2bgr: bool | None = None


@dataclass(frozen=True)
class VendorLayer:
    """One layer.

    Attributes:
        name: as the file has it; may be empty, and need not be unique.
        op: type of the layer without the vendor's prefix (``ConvRelu``, ``CONV2D``).
        inputs, outputs: positions in :attr:`VendorGraph.tensors`; one that the layer leaves out is
            that of a tensor of kind ``none``.
        attributes: as the compiler left them (padding may be trimmed).
        source_attributes: as the source model had them, where the file keeps them.
        note: what the compiler wrote beside it, where that is text.
        uid: of the layer list, as the performance report of generation 1 shows it; else None.
    """

    name: str
    op: str
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    attributes: tuple[tuple[str, Any], ...] = ()
    source_attributes: tuple[tuple[str, Any], ...] = ()
    note: str = ""
    uid: int | None = None

    @property
    def source_name(self) -> str:
        """The name without the type before it: ``Conv:Conv_0`` is the source's ``Conv_0``."""
        kind, _, name = self.name.partition(":")
        return name if name and "/" not in kind else self.name


@dataclass(frozen=True)
class VendorGraph:
    """The layers for one set of input shapes; ``inputs`` and ``outputs`` are positions."""

    layers: tuple[VendorLayer, ...] = ()
    tensors: tuple[VendorTensor, ...] = ()
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class VendorMemory:
    """Bytes that the file declares, None where it does not.

    Attributes:
        weights: weights and biases.
        internal: the largest need of activations.
        copies: second copies of weights in another order.
        sections: (part of the file, its size).
    """

    weights: int | None = None
    internal: int | None = None
    copies: int | None = None
    sections: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class CustomSection:
    """A custom operator of generation 1: what it takes, (name, type) each; code only as sizes."""

    name: str
    inputs: tuple[tuple[str, str], ...] = ()
    outputs: tuple[tuple[str, str], ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    code: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class OpPackage(CustomSection):
    """A package of one custom operator of generation 1; its code is neither shown nor run.

    Attributes:
        name: the operator's type in the source graph.
        op_version: of the package's form; 0 where it is not told.
        target_platform, framework: as the vendor spells them.
        sections: (part of the file, its size).
    """

    op_version: int = 0
    target_platform: str = ""
    framework: str = ""
    sections: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class VendorModel:
    """Everything that is read of a file; empty, None or () where it does not tell.

    Attributes:
        path: as it was given.
        size: of the file in bytes.
        sha256: of the file; empty where it was not asked for.
        kind: which of the vendor's forms it is.
        platforms: as the file spells them (``rk3588``).
        chips: those of them that :mod:`engine.facts` knows, by its names.
        generation: of the NPU and its toolkit: 1, 2 or 3; None where not established.
        npu: the vendor's name of the NPU's kind (``RKNPU v2``).
        container_version: of the frame; None for bare files.
        toolkit, compiler: versions as written, the build's suffix too.
        framework: of the source model, as the vendor spells it.
        name: of the network.
        custom_string: the user's own text.
        inputs, outputs: of the first, largest graph.
        graphs: one for each set of input shapes.
        dynamic: whether it was built for several sets of shapes.
        memory: what the file declares.
        custom_operators: generation 1's, inlined behind the layer list; of a package its own.
        encryption_level: 1 to 3; None for a file that is not encrypted.
        findings: what is unknown, odd or incomplete.
    """

    path: str
    size: int
    sha256: str
    kind: VendorKind
    platforms: tuple[str, ...] = ()
    chips: tuple[str, ...] = ()
    generation: int | None = None
    npu: str = ""
    container_version: int | None = None
    toolkit: str = ""
    compiler: str = ""
    framework: str = ""
    name: str = ""
    custom_string: str = ""
    inputs: tuple[VendorPort, ...] = ()
    outputs: tuple[VendorPort, ...] = ()
    graphs: tuple[VendorGraph, ...] = ()
    dynamic: bool = False
    memory: VendorMemory = VendorMemory()
    custom_operators: tuple[CustomSection, ...] = ()
    encryption_level: int | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def form(self) -> str:
        """What the file is, in words."""
        level = self.encryption_level
        return FORMS[self.kind] + ("" if level is None else f" (level {level})")
