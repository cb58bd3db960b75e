"""Memory of a model on a chip: native layouts, lifetimes, addresses, totals. Estimated."""

from engine.cost.memory.plan import plan_memory

__all__ = ["plan_memory"]
