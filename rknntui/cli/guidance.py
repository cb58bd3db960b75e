"""The accuracy guide on the command line: every step in turn, remedies that help taken along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine import printable
from rknntui.cli.session import WorkerSession

__all__ = ["guide_lines", "run_guide"]

_SIGNS = {"pass": "ok  ", "warning": "warn", "fail": "FAIL", "told": "    "}


async def run_guide(
    session: WorkerSession, recipe: dict[str, Any], references: tuple[Path, ...]
) -> dict[str, Any]:
    """Run the steps to the end.

    A change that a step proposes and that brings the outputs near enough to float is taken along:
    the steps after it see the better recipe. Nothing is written.

    Returns:
        ``steps``: as the job ``guide`` gives them, with ``applied``; ``changes``: all that were
        taken along.
    """
    steps: list[dict[str, Any]] = []
    changes: dict[str, Any] = {}
    while True:
        answer = await session.run(
            "guide",
            recipe={**recipe, **changes},
            done=[step["id"] for step in steps],
            reference=[str(path.absolute()) for path in references] or None,
        )
        step = answer["step"]
        if step is None:
            break
        step["applied"] = bool(step["changes"]) and step["verdict"] == "pass"
        steps.append(step)
        if step["applied"]:
            changes |= step["changes"]
            continue  # which step is due now, the better recipe decides
        if answer["next"] is None:
            break
    return {"steps": steps, "changes": changes}


def guide_lines(result: dict[str, Any]) -> list[str]:
    """For people."""
    lines: list[str] = []
    for step in result["steps"]:
        sign = _SIGNS.get(step["verdict"], "    ")
        lines.append(f"{sign} {step['id']:<5} {step['title']}")
        lines.append(f"           {printable(step['did'], 2000)}")
        lines += [
            f"      {_SIGNS.get(found['verdict'], '    ')} {printable(found['label'], 60)}: "
            f"{printable(found['value'], 300)}"
            for found in step["found"]
        ]
        if step["advice"]:
            lines.append(f"        -> {printable(step['advice'], 1000)}")
        if step["changes"]:
            taken = "taken along" if step["applied"] else "proposed"
            lines += [
                f"           {taken}: {name} = {printable(str(value), 500)}"
                for name, value in step["changes"].items()
            ]
    lines.append("")
    if result["changes"]:
        lines.append("Put into the recipe (all simulated):")
        lines += [f"  {n}: {printable(str(v), 2000)}" for n, v in result["changes"].items()]
    else:
        lines.append("No change of the recipe is called for (all simulated).")
    return lines
