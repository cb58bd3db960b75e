"""What everything is for, as one state: chip, toolkit, board, compiled file, and what misfits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from engine import sanitize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.wire.vendor import ToolkitEnvironment
    from rknntui.session.state import Session

BOARD_JOBS = ("board.run", "board.memory", "compare.board", "devices.perf")
_NAMES = 3
"""So many changed options are named."""


@dataclass(frozen=True)
class Mismatch:
    """Something of the target that does not fit the rest.

    Attributes:
        kind: what it is about: ``board``, ``compiled``, ``toolkit`` or ``build``.
        what: one sentence.
        short: the same in some words, for a line.
        action: id of the action that mends it.
        does: what that action does, in words.
        stops: methods of jobs that should not start without a question.
    """

    kind: str
    what: str
    short: str
    action: str
    does: str
    stops: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The sentence with the key that mends it, in braces as texts name it."""
        return f"{self.what} {{{self.action}}} {self.does}."


def mismatches(session: Session, board: str | None = None) -> tuple[Mismatch, ...]:
    """What does not fit, the gravest first; empty while nothing is open.

    Args:
        session: whose target it is.
        board: id of the board that is meant; None for the target's.
    """
    if session.model is None:
        return ()
    own = _board(session, board or session.boards.chosen or "")
    every = (own, _compiled(session), _toolkit(session), _build(session))
    return tuple(one for one in every if one is not None)


def compiled_for(session: Session, path: str | None) -> str:
    """The chip that a compiled file is for; empty where that is not known."""
    from engine.wire.compile import COMPILE

    last = session.last_of(COMPILE)
    rows = () if last is None else last[1].chips
    return next((row.chip for row in rows if path and row.path == path), "")


def generation_of(chip: str) -> int:
    """The toolkit's generation, 1 or 2; 0 where the chip is not known."""
    from engine import chips

    named = (one for one in chips() if chip.lower() in (one.name, *one.aliases))
    return next((one.generation for one in named), 0)


def toolkit_for(
    session: Session, generation: int, name: str | None = None
) -> ToolkitEnvironment | None:
    """What compiles for chips of a generation: the named toolkit, else its default; None: none."""
    rows = [row for row in session.toolkits or () if row.generation == generation]
    if name is not None:
        return next((row for row in rows if row.name == name), None)
    return next((row for row in rows if row.default), rows[0] if rows else None)


def toolkit_of(session: Session) -> ToolkitEnvironment | None:
    """The toolkit that compiles for the target's chip; None where none is, or none was asked."""
    return toolkit_for(session, generation_of(session.chip))


def changed_since(session: Session) -> str:
    """The first options that differ from those of the last build, by name."""
    built, recipe = session.built or {}, session.recipe
    names = sorted(n for n in {*built, *recipe} if built.get(n) != recipe.get(n))
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


# -- what does not fit -----------------------------------------------------------------------------


def _board(session: Session, board: str) -> Mismatch | None:
    chip, own = session.chip.lower(), session.boards.chip_of(board).lower()
    if not chip or not own or chip == own:
        return None
    other, ours = generation_of(own), generation_of(chip)
    why = f" of generation {other}, not {ours}" if other != ours else ""
    what = f"{sanitize(board, 40)} is an {own}{why}; the recipe is for {chip}."
    stops = ("build", "compile", *BOARD_JOBS)
    short = f"the board is an {own}, the recipe for {chip}"
    return Mismatch("board", what, short, "app.target", "changes the target", stops)


def _compiled(session: Session) -> Mismatch | None:
    from engine.wire.compile import COMPILE

    if session.compiled is None:
        return None
    chip, own = session.chip.lower(), compiled_for(session, session.compiled).lower()
    name = sanitize(PurePath(session.compiled).name, 40)
    again = "app.compile", "compiles again"
    if own and chip and own != chip:
        short = f"{name} is for {own}, not {chip}"
        return Mismatch("compiled", f"{short}.", short, *again, BOARD_JOBS)
    last = session.last_of(COMPILE)
    if (
        own
        and last is not None
        and session.built
        and _quantized(last[0].recipe) != _quantized(session.built)
    ):
        short = f"{name} is older than the build"
        return Mismatch("compiled", f"{short}.", short, *again, BOARD_JOBS)
    return None


def _quantized(recipe: Mapping[str, object] | None) -> dict[str, object]:
    """A recipe without its chip: a compilation has chips of its own."""
    return {name: value for name, value in (recipe or {}).items() if name != "target_platform"}


def _toolkit(session: Session) -> Mismatch | None:
    generation = generation_of(session.chip)
    if session.toolkits is None or not generation or toolkit_of(session) is not None:
        return None
    what = f"No toolkit is installed that compiles for {session.chip} (generation {generation})."
    short = f"no toolkit for {session.chip}"
    return Mismatch("toolkit", what, short, "go.chips", "shows the toolkits", ("compile",))


def _build(session: Session) -> Mismatch | None:
    if not session.stale:
        return None
    short = "the build is older than the recipe"
    what = f"The build is older than the recipe: {changed_since(session)} changed."
    return Mismatch("build", what, short, "app.build", "builds again")
