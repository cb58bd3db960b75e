"""PyTorch's engines for integers: which one a module is compared on, and the fault of one.

Compared with sums in 64 bits on all 52 convolutions of a MobileNetV2, ``qnnpack`` of PyTorch 2.13
gave every integer; ``fbgemm`` was up to 46 steps off, as it adds pairs of products in 16 bits,
which saturates; ``x86`` and ``onednn`` do so on processors without VNNI. Imported in the child
process only: it needs torch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["DEFAULT", "exact", "exact_kernels", "has_exact", "other_engines", "use"]

DEFAULT = torch.backends.quantized.engine
"""What PyTorch takes by itself here."""

_EXACT = "qnnpack"
_CLAMPS = {
    "aten::hardtanh": torch.ops.aten.hardtanh,
    "aten::hardtanh_": torch.ops.aten.hardtanh,
    "aten::clamp": torch.ops.aten.clamp,
    "aten::clamp_": torch.ops.aten.clamp,
}


def has_exact() -> bool:
    """Whether the engine that is exact is there."""
    return _EXACT in torch.backends.quantized.supported_engines


def use(name: str = _EXACT) -> None:
    """Take an engine; weights are packed for it when they are loaded."""
    torch.backends.quantized.engine = name


def other_engines() -> tuple[str, ...]:
    """Engines besides the one in use that compute the same."""
    now, known = torch.backends.quantized.engine, torch.backends.quantized.supported_engines
    return tuple(name for name in (DEFAULT, _EXACT) if name in known and name != now)


def exact_kernels() -> AbstractContextManager[Any]:
    """Run modules with :func:`exact`, where the engine in use has the fault."""
    return _Exact() if torch.backends.quantized.engine == _EXACT else contextlib.nullcontext()


def _mean_of_windows(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    x, engine = args[0], torch.backends.quantized.engine
    if engine != _EXACT or x.qscheme() != torch.per_tensor_affine:
        return func(*args, **kwargs)
    real = func(x.dequantize(), *args[1:], **kwargs)
    return torch.quantize_per_tensor(real, x.q_scale(), x.q_zero_point(), x.dtype)


class _Exact(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator."""
        return exact(func, args, kwargs or {})


def exact(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run an operator, around two faults of qnnpack in PyTorch 2.13.

    A clamp of integers mixes up elements where the channels are last: 7 of 10 were wrong behind a
    convolution. It gets a plain copy. A mean over windows counts the padding though it is told not
    to, which was up to 29 steps: it is computed in floats and rounded once.
    """
    name = func._schema.name
    if name == "aten::avg_pool2d" and args[0].is_quantized:
        return _mean_of_windows(func, args, kwargs)
    if name not in _CLAMPS or not args[0].is_quantized or args[0].is_contiguous():
        return func(*args, **kwargs)
    made = _CLAMPS[name](args[0].contiguous(), *args[1:], **kwargs)
    return args[0].copy_(made) if name.endswith("_") else made
