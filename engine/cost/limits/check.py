"""Where a layer runs on a chip, why not on the NPU, and what to do about it."""

from __future__ import annotations

from dataclasses import replace

from engine.cost.limits.remedies import Placement, remedy_for, with_tried_remedies
from engine.cost.limits.rules import Broken, base_operator, broken_limits
from engine.cost.lowered import ENDS, Lowered, LoweredLayer, Target
from engine.facts import chip as chip_facts
from engine.facts.limits import (
    CONTRADICTED,
    cpu_operators,
    npu_limits,
    npu_operators,
    operator,
    support_of,
)

# Operators of the toolkit of generation 1 (1.7.x), and the kernels of its NPU.
#
# Sources: the list of operators and limits of toolkit 1.7.5, whose names are PyTorch's, and the
# manual (Trouble Shooting 1.4.0, 6.1).

_LIMIT = 11


def check_generation1(layer: LoweredLayer, lowered: Lowered) -> Placement:
    """Where a layer runs on RK1808, RK3399Pro, RV1109 and RV1126.

    What the manuals show there is on the NPU, and what runs outside the MAC array with the reason
    why it is slow. Of other operators that the toolkit takes it is not public whether the NPU or
    the CPU computes them: ``unknown``.
    """
    op = layer.kind
    row = _row(op, layer, lowered)
    if row is not None:
        known = support_of("onnx", f"torch:{row}", 1)
        if known is not None and known.supported == "no":
            more = f" ({known.limit})" if known.limit else ""
            return Placement(
                "none",
                f"Toolkit 1.7.5 does not support {op} as {row}{more}: {known.source}.",
                remedy_for(op),
            )
    elif not operator(op).toolkit1:
        return Placement(
            "none",
            f"{op} is in no operator list of toolkit 1.7.x.",
            "Rewrite it with standard operators, or cut the model before it.",
        )
    return _kernel(layer) or _product(layer) or _place(layer)


def _place(layer: LoweredLayer) -> Placement:
    op = layer.kind
    product = op == "MatMul" and bool(layer.consts)  # a fully connected layer
    if operator(op).toolkit1 == "NPU" or product:
        return Placement("NPU")
    return Placement(
        "unknown",
        f"Toolkit 1.7.5 takes {op}; whether the NPU or the CPU computes it is not public: the"
        " manuals show it on neither.",
        "Measure it on a board: rknntui perf with the layers' times.",
    )


def _row(op: str, layer: LoweredLayer, lowered: Lowered) -> str | None:
    row = operator(op).row1
    if not row:
        return None
    tensor = lowered.tensors.get(layer.inputs[0]) if layer.inputs else None
    dimensions = len(tensor.shape) - 2 if tensor is not None else 2
    if op == "GlobalAveragePool" and dimensions == 1:
        return "mean"  # a mean over the last axis, as of a layer normalization
    return row.format(max(1, dimensions))


def _kernel(layer: LoweredLayer) -> Placement | None:
    window = layer.window
    if window is None or layer.kind not in ("Conv", "ConvTranspose"):
        return None
    height, width = window.dilations
    if height != width and min(height, width) > 1:
        return Placement(
            "none",
            f"Its dilations are {height} and {width}: different ones above 1 are not supported"
            " (operator list of toolkit 1.7.5).",
            "Use the same dilation along height and width.",
        )
    for size, stride, dilation, side in zip(
        window.kernel, window.strides, window.dilations, ("height", "width"), strict=True
    ):
        seen = (size - 1) * dilation + 1
        if seen > _LIMIT * stride:
            return Placement(
                "NPU",
                f"Its kernel's {side} is {seen}, above {_LIMIT} x stride {stride}: it is computed"
                " outside the MAC array at about one multiplication a cycle (Trouble Shooting"
                " 1.4.0, 6.1).",
                "Use smaller kernels: several 3x3 in a row see as much as one large kernel.",
            )
    return None


def _product(layer: LoweredLayer) -> Placement | None:
    if layer.kind != "MatMul" or layer.consts or len(layer.inputs) < 2:
        return None
    return Placement(
        "NPU",
        "It multiplies two features: that is computed outside the MAC array at about one"
        " multiplication a cycle (published rates of networks with attention).",
        "Use convolutions in place of attention on this chip.",
    )


def check_layer(
    layer: LoweredLayer, lowered: Lowered, chip: str, *, judged: bool = True
) -> Placement:
    """Where a layer runs, with the published rule that says so, its number, and a remedy.

    Args:
        layer: one of ``lowered``, after the compiler's rewrites.
        lowered: the graph that has its shapes.
        chip: a chip by name, of either generation.
        judged: whether ``layer.target`` is what the compiler does: then it stays and the limits
            only give words. Else the published limits decide.

    Returns:
        A target of ``none`` where the toolkit refuses the operator (or ``layer.target`` says so),
        and for an unknown chip.
    """
    facts = chip_facts(chip)
    if facts is None:
        return Placement("none", f"There is no chip {chip!r}.", "`rknntui chips` lists them.")
    if layer.op in ENDS:
        return Placement(layer.target)
    if facts.generation == 1:
        return check_generation1(layer, lowered)
    if judged and layer.target == "NPU":
        return Placement("NPU")
    op = base_operator(layer)
    if layer.reason:  # whoever placed it knows why
        return Placement(layer.target, layer.reason, layer.remedy or remedy_for(op))
    refused = _refused(op, facts.name)
    if refused is not None:
        return refused
    broken = broken_limits(layer, lowered, facts.name)
    if layer.target == "NPU":
        if not broken:
            return Placement("NPU")
        return _told("CPU" if _on_cpu(op, facts.name) else "none", op, broken, facts.name)
    return _told(layer.target, op, broken, facts.name)


def with_reasons(lowered: Lowered, chip: str) -> Lowered:
    """The layers with what :func:`check_layer` says of each: target, reason, tried remedy.

    Args:
        lowered: as the compiler places it.
        chip: any chip of the family: they share their limits.
    """

    def told(layer: LoweredLayer) -> LoweredLayer:
        placement = check_layer(layer, lowered, chip)
        if (placement.target, placement.reason) == (layer.target, ""):
            return layer
        return replace(
            layer, target=placement.target, reason=placement.reason, remedy=placement.remedy
        )

    placed = replace(lowered, layers=tuple(map(told, lowered.layers)))
    facts = chip_facts(chip)
    return placed if facts is not None and facts.generation == 1 else with_tried_remedies(placed)


def _refused(op: str, chip: str) -> Placement | None:
    """Of an operator that no list of the toolkit has."""
    if op in npu_operators() or op in cpu_operators("rk3588") or op.startswith("ex"):
        return None
    known = support_of("onnx", op, 2)
    if known is None:
        return Placement(
            "none",
            f"{op} is no operator that toolkit 2.3.2 knows.",
            "Give it as a custom operator (reg_custom_op), cut the model before it, or rewrite it"
            " with standard operators.",
        )
    if known.supported == "no":
        return Placement(
            "none",
            f"Toolkit 2.3.2 does not support {op} ({known.source}).",
            remedy_for(op),
        )
    return None


def _on_cpu(op: str, chip: str) -> bool:
    return {"DepthwiseConv": "Conv", "exNorm": "exLayerNorm"}.get(op, op) in cpu_operators(chip)


def _told(target: Target, op: str, broken: tuple[Broken, ...], chip: str) -> Placement:
    placed: Target = "CPU" if target == "CPU" else "none"
    if broken:
        first = broken[0]
        reason = f"{first.words} ({first.source})"
        remedy = remedy_for(op, first.parameter)
    elif op not in npu_limits(chip):
        reason = f"The NPU of {chip} has no {op}."
        remedy = remedy_for(op, "npu_support")
    else:
        usual = f"The compiler puts this {op} on the CPU of {chip}: no published limit."
        reason, remedy = operator(op).usual or usual, remedy_for(op)
    if op in CONTRADICTED:
        reason += " The vendor's lists contradict each other about it: try a build."
    if placed == "none" and not _on_cpu(op, chip):
        reason += f" {chip} has no CPU version of it."
    return Placement(placed, reason, remedy)
