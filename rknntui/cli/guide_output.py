"""The accuracy guide on the command line: every step in turn, remedies that help applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine import sanitize
from engine.wire.codec import Values, encode
from engine.wire.guide import GUIDE, GuideParams, Step
from rknntui.cli.session import WorkerSession

_SIGNS = {"pass": "ok  ", "warning": "warn", "fail": "FAIL", "told": "    "}


@dataclass(frozen=True)
class Guided:
    """The steps that ran, whether the change of each was applied, and all that were."""

    steps: tuple[tuple[Step, bool], ...]
    changes: Values

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        steps = [{**encode(step), "applied": applied} for step, applied in self.steps]
        return {"steps": steps, "changes": dict(self.changes)}


async def run_guide(
    session: WorkerSession,
    recipe: Values,
    values: Mapping[str, Any],
) -> Guided:
    """Run the steps to the end.

    A change that a step proposes and that brings the outputs near enough to float is applied:
    the steps after it see the better recipe. Nothing is written.
    """
    steps: list[tuple[Step, bool]] = []
    changes: dict[str, object] = {}
    while True:
        done = tuple(step.id for step, _ in steps)
        asked = GuideParams({**recipe, **changes}, done, **values)
        answer = await session.run(GUIDE, asked)
        step = answer.step
        if step is None:
            break
        applied = bool(step.changes) and step.verdict == "pass"
        steps.append((step, applied))
        if applied:
            changes |= step.changes
            continue  # which step is due now, the better recipe decides
        if answer.next is None:
            break
    return Guided(tuple(steps), changes)


def guide_lines(result: Guided) -> list[str]:
    """For people."""
    lines: list[str] = []
    for step, applied in result.steps:
        lines.append(f"{_SIGNS[step.verdict]} {step.id:<5} {step.title}")
        lines.append(f"           {sanitize(step.did, 2000)}")
        lines += [
            f"      {_SIGNS[fact.verdict]} {sanitize(fact.label, 60)}: {sanitize(fact.value, 300)}"
            for fact in step.found
        ]
        if step.advice:
            lines.append(f"        -> {sanitize(step.advice, 1000)}")
        taken = "applied" if applied else "proposed"
        lines += [
            f"           {taken}: {name} = {sanitize(str(value), 500)}"
            for name, value in step.changes.items()
        ]
    lines.append("")
    if result.changes:
        lines.append("Applied to the recipe (all simulated):")
        lines += [f"  {n}: {sanitize(str(v), 2000)}" for n, v in result.changes.items()]
    else:
        lines.append("No recipe change needed (all simulated).")
    return lines
