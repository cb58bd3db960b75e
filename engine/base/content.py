"""The one boundary around what reads a file's content. Standard library only.

Parsers raise what they like on bytes that nobody thought of: ``tokenize.TokenError`` for the head
of an npy, ``RecursionError`` for nested JSON, ``struct.error``, ``zlib.error``, and whatever the
next version adds. Nothing of it is a mistake of this program, so a list of their types is never
complete. Whoever turns content into objects does it inside :func:`reading`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.base.errors import EngineError
from engine.base.text import sanitize

_WHY_LIMIT = 200


class ContentError(ValueError):
    """Bytes that a parser could not read; the text says why, in the parser's words."""


@contextmanager
def reading(refuse: Callable[[str], EngineError | ContentError] | None = None) -> Iterator[None]:
    """Around reading a file's content: whatever goes wrong is the content's fault.

    Errors of the engine pass, as does ``MemoryError``: what is bounded by the file's size cannot
    cause it, so it tells of this machine.

    Args:
        refuse: makes the error from why; None for a :class:`ContentError`, a ``ValueError`` that
            is caught where the file's name is known.

    Raises:
        EngineError: as ``refuse`` makes it.
        ContentError: where there is no ``refuse``.
    """
    try:
        yield
    except (EngineError, ContentError, OSError, MemoryError) as error:
        # a file of the disk is told as such by who opened it; a content that claims to be one not
        if refuse is None or isinstance(error, (EngineError, MemoryError)):
            raise
        raise refuse(_why(error)) from error
    except Exception as error:
        if refuse is None:
            raise ContentError(_why(error)) from error
        raise refuse(_why(error)) from error


def _why(error: Exception) -> str:
    text = sanitize(str(error), _WHY_LIMIT)
    plain = isinstance(error, (ValueError, OSError)) and text
    return text if plain else f"{type(error).__name__} {text}".strip()
