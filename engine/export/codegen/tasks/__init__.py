"""From a task to the constants of its post-processing, checked against the model's outputs."""

from engine.export.codegen.tasks.choose import plan_task
from engine.export.codegen.tasks.plan import TaskPlan

__all__ = ["TaskPlan", "plan_task"]
