"""Small files of a board, such as of ``/proc`` and ``/sys``: read once, or watched.

Of its own, so that who only looks at a board loads nothing of models.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from engine.base.plain import JsonObject
from engine.devices.board.answers import long_text, mapping, misfit_error, number
from engine.devices.board.session import BoardSession

_READ_SECONDS = 30.0
_READ_LIMIT = 1 << 20
_MOST_FILES = 1 << 16


@dataclass(frozen=True)
class Watched:
    """One look at some files of the board.

    Attributes:
        values: the texts are as the board has them: who shows one sanitizes it.
        at: seconds by the clock of the board, which starts anywhere.
    """

    values: Mapping[str, str | None]
    at: float


class BoardFiles:
    """What the agent of a session reads; the session is somebody else's to end."""

    def __init__(self, session: BoardSession) -> None:
        self._session = session

    def read(self, paths: Sequence[str], *, limit: int = _READ_LIMIT) -> dict[str, str | None]:
        """Files of the board; ``*`` may be in a path.

        Returns:
            Path -> text as it is there, None where there is none; who shows it sanitizes it.

        Raises:
            DeviceError: the board has gone, does not answer, or refuses.
        """
        params: JsonObject = {"paths": list(paths), "limit": limit}
        return _values(self._session.ask("read", params, seconds=_READ_SECONDS))

    def watch(
        self,
        paths: Sequence[str],
        *,
        interval: float = 1.0,
        count: int | None = None,
        limit: int = 1 << 16,
    ) -> Generator[Watched, None, None]:
        """Files of the board again and again, until the iterator is closed.

        While it goes on the session can be asked nothing else.

        Args:
            paths: as for :meth:`read`.
            interval: seconds between two looks.
            count: of looks; None for no end.
            limit: bytes of each file.

        Raises:
            DeviceError: as :meth:`read`.
        """
        look: JsonObject = {"paths": list(paths), "limit": limit}
        params: JsonObject = {**look, "interval": interval, "count": count}
        for message in self._session.follow("watch", params, ("read", look), interval, count):
            yield Watched(_values(message), number(message, "at"))


def _values(answer: JsonObject) -> dict[str, str | None]:
    """Path -> text of what `read` answers, or the progress of `watch`."""
    values = mapping(answer.get("values", answer), "values")
    if len(values) > _MOST_FILES:
        raise misfit_error("it has too many files")
    return {path: long_text(values, path) for path in values}
