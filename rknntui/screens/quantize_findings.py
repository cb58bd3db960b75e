"""The findings of a build and of the joins of its model, with what remedies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine import printable
from rknntui.screens.tables import TableWorkspace
from rknntui.widgets.findings import FindingRows
from rknntui.widgets.view_bar import ViewBar

__all__ = ["NOT_EXACT", "BuildFindings"]

NOT_EXACT = "simulated, not bit-exact"
"""What a build is that has a finding of this code in words."""

_NOT_EXACT_CODE = "simulated-not-bit-exact"


class BuildFindings(TableWorkspace):
    """The half of Quantize that lists findings.

    Joins of unlike ranges are asked for before a build too: the structure tells most of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._joins: list[dict[str, Any]] = []
        self._joins_of: dict[str, Any] | None = None

    @property
    def not_exact(self) -> bool:
        """Whether the last build's simulation is not bit-exact."""
        return any(finding["code"] == _NOT_EXACT_CODE for finding in self._of_build())

    def listed_findings(self) -> Sequence[Mapping[str, Any]]:
        return self.query_one(FindingRows).chosen()

    def look_for_findings(self) -> None:
        """Show those of the build, and ask for the joins of what is built or would be."""
        self._show()
        session = self.session
        recipe = session.built or session.recipe
        loaded = session.model is not None and session.model.get("loaded") is not False
        if session.container is not None or not loaded or not recipe.get("model"):
            self._joins, self._joins_of = [], None
        elif recipe != self._joins_of:
            self._joins_of = recipe
            self.ask("joins", {"recipe": recipe}, self._known, failed=self._failed)

    def _known(self, answer: dict[str, Any]) -> None:
        self._joins = list(answer["findings"])
        self._show()

    def _failed(self, error: Exception) -> None:
        """A model that cannot be loaded yet says so where it is built; here it has no joins."""
        self._joins = []
        what = printable(str(getattr(error, "what", error)), 300)
        self._show(f"✗ The joins could not be checked: {what}")

    def _show(self, problem: str = "") -> None:
        found = self._all()
        rows = self.query_one(FindingRows)
        rows.empty = [[], [("  ✓ no findings", "dim")]]
        rows.show(found, [[(problem, "bad")]] if problem else ())
        worse = [finding for finding in found if finding["severity"] != "info"]
        many = "findings" if len(worse) > 1 else "finding"
        self.query_one(ViewBar).set_note(f"! {len(worse)} {many}" if worse else "")
        if self.shown:
            self.screen.refresh_bindings()

    def _of_build(self) -> list[dict[str, Any]]:
        return list((self.session.summary or {}).get("findings") or ())

    def _all(self) -> list[dict[str, Any]]:
        both = [*self._of_build(), *self._joins]
        return list({(finding["code"], finding["where"]): finding for finding in both}.values())
