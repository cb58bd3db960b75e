"""The accuracy guide without questions: every step in turn, and remedies that help are applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.base.plain import Values
from engine.base.text import sanitize
from engine.reports.texts import words
from engine.wire.codec import encode
from engine.wire.guide import GUIDE, GuideParams, Step
from engine.wire.method import Ask

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


async def run_guide(ask: Ask, recipe: Values, **fields: Any) -> Guided:
    """Run the steps to the end.

    A change that a step proposes and that brings the outputs near enough to float is applied:
    the steps after it see the better recipe. Nothing is written.

    Args:
        ask: answers a method of the worker.
        recipe: to begin with.
        fields: further ones of the request.
    """
    steps: list[tuple[Step, bool]] = []
    changes: dict[str, object] = {}
    while True:
        done = tuple(step.id for step, _ in steps)
        asked = GuideParams({**recipe, **changes}, done, **fields)
        answer = await ask(GUIDE, asked)
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


@words.register
def _guided(result: Guided) -> list[str]:
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
