"""Where a layer runs on a chip, why not on the NPU, and what to do about it."""

from __future__ import annotations

from dataclasses import replace

from engine.cost.limits.generation1 import check_generation1
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
