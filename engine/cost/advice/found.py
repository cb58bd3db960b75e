"""What a detector of advice looks at, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.cost.advice.changes import TimeOf
from engine.cost.lowered import Lowered, LoweredLayer

__all__ = ["JOINS", "OPERATORS", "RATES", "TIPS1", "Found", "Model", "writes_output"]

TIPS1 = "Trouble Shooting 1.4.0, 6.1"
OPERATORS = "operator list of the compiler 2.3.2"
JOINS = "layers of rknn-toolkit2 2.3.2, docs/estimates/derivation.md"
RATES = "published frame rates, docs/estimates/derivation.md"
"""Sources of the tips."""


@dataclass(frozen=True)
class Found:
    """What a detector found: the layers, and what they would be; None where that is not known."""

    title: str
    why: str
    layers: tuple[int, ...]
    source: str
    change: Lowered | None = None


@dataclass(frozen=True)
class Model:
    """What the detectors look at."""

    lowered: Lowered
    chip: str
    generation: int
    times: tuple[float, ...]
    time_of: TimeOf

    @property
    def total(self) -> float:
        """Milliseconds of the model."""
        return sum(self.times)

    def where(self, test: Callable[[LoweredLayer], bool]) -> tuple[int, ...]:
        """Indexes of the layers that a test holds for."""
        return tuple(at for at, each in enumerate(self.lowered.layers) if test(each))

    def ms(self, layers: Iterable[int]) -> float:
        """Milliseconds of some layers."""
        return sum(self.times[at] for at in layers)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor; empty where it is not known."""
        found = self.lowered.tensors.get(name)
        return found.shape if found is not None else ()


def writes_output(model: Model, at: int) -> bool:
    """Whether a layer writes an output of the model, itself or by the compiler's own layer."""
    return any(name in model.lowered.outputs for name in model.lowered.layers[at].outputs)
