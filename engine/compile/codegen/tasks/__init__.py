"""From a task to the constants of its post-processing, checked against the model's outputs."""

from engine.compile.codegen.tasks.choose import plan_task
from engine.compile.codegen.tasks.plan import TaskPlan

__all__ = ["TaskPlan", "plan_task"]
