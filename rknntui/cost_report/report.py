"""Which form a report has, by the end of its file's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from engine.wire.cost import Estimates
from rknntui.cost_report.page import page
from rknntui.cost_report.pictures import picture
from rknntui.cost_report.tables import csv_text

Kind = Literal["chips", "layers", "tensors"]
"""What the rows of a CSV are, and what a picture shows."""

_FORMS: dict[str, Callable[[Estimates, Kind], str]] = {
    ".csv": csv_text,
    ".svg": picture,
    ".html": lambda found, _: page(found),
    ".htm": lambda found, _: page(found),
}
REPORTS = tuple(_FORMS)
"""Ends of names that a report may have."""


def report_text(found: Estimates, form: str, kind: Kind) -> str:
    """A report.

    Args:
        found: with layers, and with tensors over time where the form shows them.
        form: one of :data:`REPORTS`.
        kind: what it is about.
    """
    return _FORMS[form.lower()](found, kind)
