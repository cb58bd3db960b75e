"""The vendor's simulator beside ours, over samples; both are simulated."""

from __future__ import annotations

import numpy as np

from engine.base.errors import CompilerError
from engine.base.text import sanitize, shape_text
from engine.graph.metrics import ErrorSums, error_sums
from engine.wire.compile import OutputAgreement

__all__ = ["Agreement"]


class Agreement:
    """How near the two are on one output; samples add up.

    Args:
        name: of the output.
        scale: of one step of it where it is quantized; None: it is float.
    """

    def __init__(self, name: str, scale: float | None = None) -> None:
        self.name = name
        self._scale = scale
        self._between = self._theirs = self._ours = ErrorSums()
        self._samples = self._values = self._equal = self._steps = 0

    def add(self, theirs: np.ndarray, ours: np.ndarray, wanted: np.ndarray) -> None:
        """One sample.

        Args:
            theirs: of the vendor's simulator; its shape may have more dimensions of 1.
            ours: of ours.
            wanted: of the float graph.

        Raises:
            CompilerError: the vendor's output has another number of elements.
        """
        if theirs.size != ours.size:
            raise CompilerError(
                f"The vendor's simulator gives output {sanitize(self.name, 80)} as "
                f"{shape_text(theirs.shape)}, ours as {shape_text(ours.shape)}.",
                remedy="Leave --samples out for this model.",
            )
        first, second, true = (
            np.asarray(each, np.float32).ravel() for each in (theirs, ours, wanted)
        )
        self._between += error_sums(second, first)[0]
        found = error_sums(true, first, second)
        self._theirs, self._ours = self._theirs + found[0], self._ours + found[1]
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
            max_steps=self._steps if self._scale else None,
            sqnr_db=self._theirs.sqnr,
            our_sqnr_db=self._ours.sqnr,
        )
