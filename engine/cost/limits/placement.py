"""The answer about one layer."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cost.lowered import Target

__all__ = ["Placement"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a layer runs.

    Attributes:
        target: NPU, CPU, or ``none``: refused.
        reason: the rule with the number that breaks it, a sentence; empty where all is well.
        remedy: what to do, a sentence.
    """

    target: Target
    reason: str = ""
    remedy: str = ""
