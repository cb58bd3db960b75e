"""Memory of a model on a chip: native layouts, lifetimes, addresses, totals. Estimated."""

from engine.cost.memory.plan import MemoryPlan, plan_memory

__all__ = ["MemoryPlan", "plan_memory"]
