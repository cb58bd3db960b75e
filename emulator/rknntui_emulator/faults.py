"""What goes wrong on an emulated board and on the way to it; a test changes it at any time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Faults", "pieces"]

_PIECES_A_SECOND = 10

_KEPT_ON_THE_BOARD = frozenset({"disk_free", "read_only"})


@dataclass
class Faults:
    """Every fault of a board; by default there is none.

    Attributes:
        drop_after_rx: bytes from the host after which every connection is cut.
        drop_after_tx: bytes to the host after which every connection is cut.
        rate: bytes a second in each direction; None is as fast as it goes.
        latency: seconds before each payload to the host.
        refuse_connection: the host is not answered: its list says ``offline``.
        stall: what the host writes to a stream is taken and never acknowledged.
        frozen: the board hears and says nothing, and every connection stays.
        hang_shell: a program is accepted and never answers.
        push_error: the text with which every push ends.
        disk_free: bytes that are free on the board; None is plenty.
        keep_partial: the half of a file that was pushed stays.
        read_only: folders of the board whose file system is read-only; ``/`` is all of it.
    """

    drop_after_rx: int | None = None
    drop_after_tx: int | None = None
    rate: float | None = None
    latency: float = 0.0
    refuse_connection: bool = False
    stall: bool = False
    frozen: bool = False
    hang_shell: bool = False
    push_error: str | None = None
    disk_free: int | None = None
    keep_partial: bool = False
    read_only: tuple[str, ...] = ()
    _changed: Callable[[], object] | None = field(default=None, repr=False, compare=False)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in type(self).__dataclass_fields__:
            raise AttributeError(f"there is no fault {name}")
        object.__setattr__(self, name, value)
        changed = self.__dict__.get("_changed")
        if changed is not None and name in _KEPT_ON_THE_BOARD:
            changed()

    def watch(self, changed: Callable[[], object]) -> None:
        """Call ``changed`` now and whenever a fault of the board's file systems changes."""
        self._changed = changed
        changed()

    def is_read_only(self, path: str) -> bool:
        """Whether nothing can be written at an absolute path of the board."""
        return any(
            path == folder or path.startswith(folder.rstrip("/") + "/") for folder in self.read_only
        )


def pieces(size: int, faults: Faults) -> list[int]:
    """How many bytes pass at once: one piece, or many where the link is slow."""
    if faults.rate is None:
        return [size]
    piece = max(1, int(faults.rate / _PIECES_A_SECOND))
    whole, rest = divmod(size, piece)
    return [piece] * whole + [rest] * bool(rest)
