"""The vendor's simulator beside ours, over samples; both are simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.errors import CompilerError
from engine.base.text import sanitize, shape_text
from engine.graph.metrics import ErrorSums, error_sums
from engine.wire.compile import OutputAgreement

FAILS_BELOW = 0.99
"""A cosine below it is no matter of rounding: the compiled model computes something else."""


@dataclass(frozen=True)
class Limits:
    """How near two simulators of one arithmetic are where nothing is wrong.

    Attributes:
        cosine: of each output at least.
        equal: share of the values of a quantized output that are equal, at least; None: not held.
    """

    cosine: float
    equal: float | None = None

    def missed(self, rows: Sequence[OutputAgreement]) -> list[OutputAgreement]:
        """The outputs that are not so near.

        One value that is one step apart is always near enough: an output may have ten values.
        """
        return [row for row in rows if not self._kept(row)]

    def _kept(self, row: OutputAgreement) -> bool:
        if row.max_steps is not None and row.max_steps <= 1 and row.unequal <= row.samples:
            return True
        if row.cosine < self.cosine:
            return False
        return self.equal is None or row.max_steps is None or row.equal >= self.equal


LEVEL_2 = Limits(0.99999, 0.9999)
"""Up to level 2 the vendor's simulator computes what the file says, float layers in half precision:
seen bit for bit (``docs/measurements/compiled.md``)."""
LEVEL_3 = Limits(0.9999)
"""At level 3 it leaves roundings out, which :func:`engine.graph.execute.as_compiled` follows."""
WITH_FLOAT16 = Limits(0.999)
"""Where layers compute in float16 there and in float32 here."""


class OutputsDifferError(CompilerError):
    """The compiled model has outputs of another number or size than the build."""


class Agreement:
    """How near the two are on one output; samples add up.

    Args:
        name: of the output.
        scale: of one step of it where it is quantized; None: it is float.
        shapes: of the inputs, where the model is compiled for several.
    """

    def __init__(self, name: str, scale: float | None = None, shapes: str = "") -> None:
        self.name = name
        self._scale, self._shapes = scale, shapes
        self._between = self._theirs = self._ours = ErrorSums()
        self._samples = self._values = self._equal = self._steps = 0

    def add(self, theirs: np.ndarray, ours: np.ndarray, wanted: np.ndarray) -> None:
        """One sample.

        Args:
            theirs: of the vendor's simulator; its shape may have more dimensions of 1.
            ours: of ours.
            wanted: of the float graph.

        Raises:
            OutputsDifferError: the vendor's output has another number of elements.
        """
        if theirs.size != ours.size:
            raise OutputsDifferError(
                f"The compiled model gives output {sanitize(self.name, 80)} as "
                f"{shape_text(theirs.shape)} in the vendor's simulator, the build as "
                f"{shape_text(ours.shape)}.",
                cause="The toolkit compiled something else than it was given.",
                remedy="Compile with another optimization_level, or end the model before the "
                "layer (--outputs).",
            )
        first, second, true = (
            np.asarray(output, np.float32).ravel() for output in (theirs, ours, wanted)
        )
        self._between += error_sums(second, first)[0]
        errors = error_sums(true, first, second)
        self._theirs, self._ours = self._theirs + errors[0], self._ours + errors[1]
        self._samples += 1
        self._values += second.size
        equal = first == second
        if self._scale:
            with np.errstate(invalid="ignore"):
                away = np.abs(np.rint((first - second) / np.float32(self._scale)))
            equal = away == 0
            self._steps = max(self._steps, int(np.nan_to_num(away).max(initial=0)))
        self._equal += int(np.count_nonzero(equal))

    def told(self) -> OutputAgreement:
        """Over all samples that were added."""
        return OutputAgreement(
            name=self.name,
            samples=self._samples,
            cosine=self._between.cosine,
            equal=self._equal / self._values if self._values else 1.0,
            shapes=self._shapes,
            unequal=self._values - self._equal,
            max_steps=self._steps if self._scale else None,
            sqnr_db=self._theirs.sqnr,
            our_sqnr_db=self._ours.sqnr,
        )
