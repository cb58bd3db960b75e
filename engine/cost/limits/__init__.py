"""Published limits of each chip's operators, and what a layer that breaks one is told."""

from engine.cost.limits.check import check_layer, with_reasons
from engine.cost.limits.remedies import Placement
from engine.cost.limits.rules import Broken, broken_limits

__all__ = ["Broken", "Placement", "broken_limits", "check_layer", "with_reasons"]
