"""Options that have no effect in the simulator, as findings: those for the compiler, and more."""

from __future__ import annotations

from collections.abc import Mapping

from engine.base.findings import Finding
from engine.options import OPTIONS
from engine.options.values import frozen
from engine.recipe.model import Recipe


def applicability_findings(recipe: Recipe) -> tuple[Finding, ...]:
    """A finding for each set option that changes nothing in the simulator, and why."""
    return (*_for_compiler(recipe), *_placed(recipe), *_idle(recipe))


def _for_compiler(recipe: Recipe) -> list[Finding]:
    return [
        Finding(
            "option-for-compiler",
            "info",
            o.name,
            f"{o.name} changes nothing in the simulator.",
            cause="It only affects the vendor's compiler.",
            remedy="The recipe and the container store it for the vendor's compiler.",
        )
        for o in OPTIONS
        if o.role == "compiler" and recipe.value(o.name) != frozen(o.default)
    ]


def _placed(recipe: Recipe) -> list[Finding]:
    targets: Mapping[str, str] = recipe.quantization.op_target or {}
    on_cpu = [name for name, where in targets.items() if where == "cpu"]
    others = sorted({where for where in targets.values() if where != "cpu"})
    findings = []
    if on_cpu:
        findings.append(
            Finding(
                "op-target-cpu",
                "info",
                "op_target",
                f"{len(on_cpu)} operators run on the CPU: they compute in float (simulated).",
                cause="A CPU computes with floats; tensors are converted at its borders.",
            )
        )
    if others:
        findings.append(
            Finding(
                "op-target-unseen",
                "info",
                "op_target",
                f"Where operators run on {', '.join(others)}, the simulator computes as the NPU.",
                cause="What another unit rounds differently is not documented.",
                remedy="The recipe and the container store it for the vendor's compiler.",
            )
        )
    return findings


def _idle(recipe: Recipe) -> list[Finding]:
    """Options that wait for another one."""
    part = recipe.quantization
    lonely = {
        "quantize_weight": (
            part.quantize_weight and part.do_quantization,
            "do_quantization is set: all weights are quantized anyhow.",
        ),
        "auto_hybrid_euc_thresh": (
            part.auto_hybrid_euc_thresh is not None and not part.auto_hybrid,
            "auto_hybrid is not set.",
        ),
    }
    return [
        Finding("option-without-effect", "info", name, f"{name} has no effect.", cause=why)
        for name, (idle, why) in lonely.items()
        if idle
    ]
