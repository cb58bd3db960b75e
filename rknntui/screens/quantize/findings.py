"""The findings of a build and of the joins of its model, with what remedies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from engine import sanitize
from engine.wire.names import NOT_EXACT_CODE
from rknntui.widgets.findings import FindingRows

if TYPE_CHECKING:
    from engine import Finding
    from engine.wire.codec import Values
    from engine.wire.hybrid import Joins
    from rknntui.session.state import Session


class BuildFindings(FindingRows):
    """Lists what a build found, and which joins of its model have unlike ranges.

    The joins are asked for before a build too: the structure tells most of them.
    """

    @dataclass(eq=False)
    class JoinsWanted(Message):
        """The joins of a recipe's model are to be told: :meth:`take_joins` or :meth:`no_joins`."""

        recipe: Values

    @dataclass(eq=False)
    class Counted(Message):
        """There are so many findings that are more than a note."""

        count: int

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__("quantize.apply-remedy", id=id)
        self._of_build: tuple[Finding, ...] = ()
        self._joins: tuple[Finding, ...] = ()
        self._joins_of: Values | None = None

    @property
    def not_exact(self) -> bool:
        """Whether the last build's simulation is not bit-exact."""
        return any(finding.code == NOT_EXACT_CODE for finding in self._of_build)

    def look(self, session: Session) -> None:
        """Show those of the build, and ask for the joins of what is built or would be."""
        self._of_build = () if session.summary is None else session.summary.findings
        recipe = session.built or session.recipe
        loaded = session.model is not None and session.model.loaded is not False
        if session.container is not None or not loaded or not recipe.get("model"):
            self._joins, self._joins_of = (), None
        elif recipe != self._joins_of:
            self._joins_of = recipe
            self.post_message(self.JoinsWanted(recipe))
        self._list()

    def take_joins(self, answer: Joins) -> None:
        """Show the joins that were asked for."""
        self._joins = answer.findings
        self._list()

    def no_joins(self, error: Exception) -> None:
        """A model that cannot be loaded yet says so where it is built; here it has no joins."""
        self._joins = ()
        what = sanitize(str(getattr(error, "what", error)), 300)
        self._list(f"✗ The Concat ranges could not be checked: {what}")

    def _list(self, problem: str = "") -> None:
        both = (*self._of_build, *self._joins)
        found = list({(finding.code, finding.where): finding for finding in both}.values())
        self.empty = [[], [("  ✓ no findings", "dim")]]
        self.show(found, [[(problem, "bad")]] if problem else ())
        worse = [finding for finding in found if finding.severity != "info"]
        self.post_message(self.Counted(len(worse)))
