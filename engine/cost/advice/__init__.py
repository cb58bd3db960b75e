"""Ways to make a model faster on a chip, each with the gain that the time model gives for it.

Sources are the manuals' tips on acceleration. A gain is the difference of two estimates: of the
layers concerned as they are, and as they would be.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.cost.advice.changes import Found, Model, TimeOf
from engine.cost.advice.detectors import DETECTORS, GENERATION_1
from engine.cost.lowered import Lowered
from engine.facts import chip as chip_facts
from engine.wire.cost import Advice

__all__ = ["TimeOf", "advise"]

_LEAST = 0.01
"""Share of the model's time that a gain needs, to be told."""
_LARGE = 0.05
"""Share of the time that a cost without a known gain needs, to be told."""


def advise(
    lowered: Lowered, chip: str, time_of: TimeOf, ids: Mapping[str, str] | None = None
) -> tuple[Advice, ...]:
    """Ways to make a model faster on a chip, the largest gain first.

    Args:
        lowered: its layers on that chip, of either generation, with their targets.
        chip: by name.
        time_of: the time model of the chip.
        ids: node -> ``layer.id``; a node that is nobody's stands for itself.
    """
    facts = chip_facts(chip)
    if facts is None or not lowered.layers:
        return ()
    model = Model(lowered, facts.name, facts.generation, tuple(time_of(lowered)), time_of)
    suggestions = []
    for detector in DETECTORS:
        if facts.generation != 1 and detector in GENERATION_1:
            continue
        for finding in detector(model):
            advice = _advice(finding, model, time_of, ids or {})
            if advice is not None:
                suggestions.append(advice)
    return tuple(sorted(suggestions, key=lambda suggestion: -(suggestion.gain_ms or 0.0)))


def _advice(finding: Found, model: Model, time_of: TimeOf, ids: Mapping[str, str]) -> Advice | None:
    if not finding.layers:
        return None
    before, gain = model.ms(finding.layers), None
    if finding.change is None:
        if before < _LARGE * model.total:
            return None
    else:
        after = sum(time_of(finding.change)) if finding.change.layers else 0.0
        gain = before - after
        if gain < _LEAST * model.total or gain <= 0:
            return None
    own = [model.lowered.layers[at] for at in finding.layers]
    named = [ids.get(name, name) for layer in own for name in layer.sources[:1]]
    if not named:  # all of them are the compiler's own
        named = [layer.name for layer in own]
    return Advice(
        title=finding.title,
        why=f"{finding.why} They take {before:.2f} of {model.total:.2f} ms (estimated).",
        layers=tuple(dict.fromkeys(named)),
        gain_ms=gain,
        source=finding.source,
    )
