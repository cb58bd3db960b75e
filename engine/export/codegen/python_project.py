"""The module of a Python project that differs from model to model."""

from __future__ import annotations

from dataclasses import asdict
from pprint import pformat
from typing import Any

from engine.export.codegen.names import plain_line
from engine.export.codegen.project import Project
from engine.export.codegen.tasks.plan import TaskPlan


def model_module(project: Project, plan: TaskPlan, model_file: str) -> str:
    """``model.py``: inputs, outputs, samples, and the constants of the post-processing."""
    inputs = [_plain(asdict(spec)) for spec in project.inputs]
    outputs = [_plain(asdict(spec)) for spec in project.outputs]
    task: dict[str, Any] = dict(plan.constants)
    if plan.heads:
        task["heads"] = [_plain(asdict(head)) for head in plan.heads]
    docstring = f"What this project is for: {plain_line(project.model)}."
    parts = [
        # a literal of Python: whatever the name holds ends where the literal does
        f"{docstring!a}\n",
        f"GENERATION = {project.board.generation}",
        f"MODEL_FILE = {model_file!a}",
        f"SAMPLES = {len(project.samples)}",
        f"INPUTS = {_literal(inputs)}",
        f"OUTPUTS = {_literal(outputs)}",
        f"# The constants of the post-processing: change them here.\nTASK = {_literal(task)}",
    ]
    return "\n".join(parts) + "\n"


def _literal(value: Any) -> str:
    return _ascii(pformat(value, width=96, sort_dicts=False))


def _ascii(text: str) -> str:
    """Text as ASCII: letters of other scripts in literals become their escapes."""
    return text.encode("ascii", "backslashreplace").decode()


def _plain(value: Any) -> Any:
    """Tuples as lists, as JSON has them."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
