"""Findings: what a check noticed, where, why it matters and what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal

from engine.base.errors import EngineError
from engine.base.plain import JsonValue, Values

Severity = Literal["info", "warning", "error"]

EXTERNAL_WEIGHTS = "external-weights"
"""Code of the finding that lists the files beside a model that it takes weights from."""


@dataclass(frozen=True)
class Finding:
    """One thing that a check noticed.

    Attributes:
        code: stable identifier, words joined by dashes (``dynamic-batch-fixed``).
        severity: ``info``, ``warning`` or ``error``.
        where: node, tensor, file or option.
        what: what was noticed.
        cause: the likely cause.
        remedy: what to do about it.
        changes: option name -> value that applies the remedy, where a change of the recipe can.
    """

    code: str
    severity: Severity
    where: str
    what: str
    cause: str = ""
    remedy: str = ""
    changes: Values = field(default_factory=dict)

    @classmethod
    def of_error(
        cls, code: str, where: str, error: EngineError, severity: Severity = "error"
    ) -> Finding:
        """What an error would say."""
        return cls(code, severity, where, error.what, error.cause, error.remedy)

    def to_dict(self) -> dict[str, JsonValue]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Values) -> Finding:
        """Rebuild from :meth:`to_dict`."""
        return cls(**data)
