"""Quantized modules: fake quantization as Q and DQ, and PyTorch's engines for integers.

Imported in the child process only: it needs torch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.onnx import symbolic_helper
from torch.utils._python_dispatch import TorchDispatchMode

from engine.base.errors import UnsupportedOperatorError

# torch/ao/quantization/fake_quantize.py: a buffer of FakeQuantize
_OBSERVER_SWITCH = "observer_enabled"


def is_quantized(graph: Any) -> bool:
    """Whether an inlined graph computes in integers (``torch.ao.quantization.convert``)."""
    return any(
        node.kind().startswith(("quantized::", "aten::quantize_per_")) for node in all_nodes(graph)
    )


def is_fake_quantized(graph: Any) -> bool:
    """Whether an inlined graph simulates quantization in floats."""
    return any("fake_quant" in node.kind() for node in all_nodes(graph))


def all_nodes(block: Any) -> Iterator[Any]:
    """Every node of a graph or block, those of inner blocks too."""
    waiting = [block]
    while waiting:
        for node in waiting.pop().nodes():
            yield node
            waiting.extend(node.blocks())


def silence_observers(module: Any) -> int:
    """Switch off observers of fake quantization, which change scales whenever the model runs.

    Returns:
        How many were on.
    """
    count = 0
    with torch.no_grad():
        for name, buffer in module.named_buffers():
            if name.endswith(_OBSERVER_SWITCH) and bool(buffer.any()):
                buffer.zero_()
                count += 1
    return count


def fake_quantization(module: Any) -> dict[str, Callable[..., Any]]:
    """Operator -> symbolic function for the exporter of script modules, for this module.

    Each names all of its arguments: ``parse_args`` drops what the signature has no name for.
    """
    buffers = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
    return {
        "aten::fused_moving_avg_obs_fake_quant": _fused(buffers),
        "aten::fake_quantize_per_tensor_affine": _per_tensor(buffers),
        "aten::fake_quantize_per_channel_affine": _per_channel(buffers),
    }


def _fused(buffers: dict[str, torch.Tensor]) -> Callable[..., Any]:
    """``fused_moving_avg_obs_fake_quant`` with its observer off (ATen, native_functions.yaml)."""

    @symbolic_helper.parse_args("v", "v", "v", "v", "v", "v", "v", "f", "i", "i", "i", "b", "b")
    def symbolic(
        g: Any,
        x: Any,
        observer_on: Any,
        fake_quant_on: Any,
        running_min: Any,
        running_max: Any,
        scale: Any,
        zero_point: Any,
        averaging: float,
        low: int,
        high: int,
        axis: int,
        per_row: bool,
        symmetric: bool,
    ) -> Any:
        if not bool(_constant(fake_quant_on, buffers, "its switch").any()):
            return g.op("Identity", x)
        return _quantize(g, x, scale, zero_point, low, high, axis if per_row else None, buffers)

    return symbolic


def _per_tensor(buffers: dict[str, torch.Tensor]) -> Callable[..., Any]:
    @symbolic_helper.parse_args("v", "v", "v", "i", "i")
    def symbolic(g: Any, x: Any, scale: Any, zero_point: Any, low: int, high: int) -> Any:
        return _quantize(g, x, scale, zero_point, low, high, None, buffers)

    return symbolic


def _per_channel(buffers: dict[str, torch.Tensor]) -> Callable[..., Any]:
    @symbolic_helper.parse_args("v", "v", "v", "i", "i", "i")
    def symbolic(
        g: Any, x: Any, scale: Any, zero_point: Any, axis: int, low: int, high: int
    ) -> Any:
        return _quantize(g, x, scale, zero_point, low, high, axis, buffers)

    return symbolic


def _quantize(
    g: Any,
    x: Any,
    scale: Any,
    zero_point: Any,
    low: int,
    high: int,
    axis: int | None,
    buffers: dict[str, torch.Tensor],
) -> Any:
    """``(clamp(round(x / scale) + zero_point, low, high) - zero_point) * scale`` as Q and DQ.

    A range narrower than that of 8 bits (7 bits for older x86, symmetric -127..127) is clipped
    between them.
    """
    kind = next((k for k, (a, b) in _RANGES.items() if a <= low and high <= b), None)
    if kind is None:
        raise UnsupportedOperatorError(
            f"Fake quantization to {low}..{high} has no form with 8 bits.",
            remedy="Train with quant_min and quant_max of int8 or uint8.",
        )
    scales = _constant(scale, buffers, "its scale").to(torch.float32)
    points = _constant(zero_point, buffers, "its zero point").to(kind)
    shape = (-1,) if axis is not None else ()
    scale_value = g.op("Constant", value_t=scales.reshape(shape))
    point_value = g.op("Constant", value_t=points.reshape(shape))
    along = {} if axis is None else {"axis_i": axis}
    quantized = g.op("QuantizeLinear", x, scale_value, point_value, **along)
    if _RANGES[kind] != (low, high):
        bounds = [g.op("Constant", value_t=torch.tensor(n, dtype=kind)) for n in (low, high)]
        quantized = g.op("Clip", quantized, *bounds)
    return g.op("DequantizeLinear", quantized, scale_value, point_value, **along)


_RANGES = {torch.uint8: (0, 255), torch.int8: (-128, 127)}


def _constant(value: Any, buffers: dict[str, torch.Tensor], what: str) -> torch.Tensor:
    """The tensor behind a value of the exporter's graph: a buffer, or a constant in the code."""
    node = value.node()
    if node.kind() in ("prim::Constant", "onnx::Constant"):
        return torch.as_tensor(
            node.output().toIValue() if node.kind()[0] == "p" else node.t("value")
        )
    tensor = buffers.get(value.debugName())
    if tensor is None:
        raise UnsupportedOperatorError(
            f"A fake quantization in the model computes {what} while it runs.",
            cause="Its observers are part of the computation.",
            remedy="Disable the observers (model.apply(disable_observer)) and save again.",
        )
    return tensor


# ---------------------------------------------------------------------------- engines for integers


DEFAULT_ENGINE = torch.backends.quantized.engine
"""What PyTorch takes by itself here."""

_EXACT = "qnnpack"
_CLAMPS = {
    "aten::hardtanh": torch.ops.aten.hardtanh,
    "aten::hardtanh_": torch.ops.aten.hardtanh,
    "aten::clamp": torch.ops.aten.clamp,
    "aten::clamp_": torch.ops.aten.clamp,
}


def has_exact_engine() -> bool:
    """Whether the engine that is exact is there.

    Compared with sums in 64 bits on all 52 convolutions of a MobileNetV2, ``qnnpack`` of PyTorch
    2.13 gave every integer; ``fbgemm`` was up to 46 steps off, as it adds pairs of products in 16
    bits, which saturates; ``x86`` and ``onednn`` do so on processors without VNNI.
    """
    return _EXACT in torch.backends.quantized.supported_engines


def use_engine(name: str = _EXACT) -> None:
    """Take an engine; weights are packed for it when they are loaded."""
    torch.backends.quantized.engine = name


def other_engines() -> tuple[str, ...]:
    """Engines besides the one in use that compute the same."""
    now, known = torch.backends.quantized.engine, torch.backends.quantized.supported_engines
    return tuple(name for name in (DEFAULT_ENGINE, _EXACT) if name in known and name != now)


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
    clamped = _CLAMPS[name](args[0].contiguous(), *args[1:], **kwargs)
    return args[0].copy_(clamped) if name.endswith("_") else clamped
