"""The error of each layer alone, which Accuracy measures and Hybrid ranks by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.wire.build import ACCURACY, Analysis
from engine.wire.layers import LayerFigures, layer_rows

if TYPE_CHECKING:
    from engine.wire.codec import Values
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session


class OwnErrors:
    """Knows the errors of one build's layers.

    Attributes:
        rows: of the layers; none before an analysis of this build.
        over: which samples they are over; empty where it was not written down.
    """

    def __init__(self) -> None:
        self.rows: tuple[LayerFigures, ...] = ()
        self.over = ""

    def find(self, session: Session, built: Values | None) -> None:
        """Take those of the last ranking, where it is of this build; else there are none."""
        job, result = session.last_of(ACCURACY) or (None, None)
        self.rows, self.over = (), ""
        if result is not None:
            self.take(job, result, built)

    def take(self, job: JobView | None, result: Analysis, built: Values | None) -> bool:
        """Take what a job ``accuracy`` found; False where it is of another build."""
        if job is None or job.params.get("recipe") != built:
            return False
        self.rows = layer_rows(result)
        self.over = result.over.removeprefix("the ")
        return True
