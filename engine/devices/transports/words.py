"""What may stand in a command on a board: words of our own, which no shell reads as more.

Transports quote them all the same. A word that would need it comes from somewhere else (a user, a
model, a board) and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from engine.base.errors import UsageError
from engine.base.text import sanitize

__all__ = ["check_environment", "check_words"]

# what shlex.quote leaves as it is
_WORD = re.compile(r"[A-Za-z0-9@%+=:,./_-]{1,4096}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def check_words(words: Sequence[str]) -> None:
    """Refuse words with anything but letters, digits and ``@ % + = : , . / _ -``.

    Raises:
        UsageError: one has, or is empty; nothing was run.
    """
    for word in words or ("",):
        if not _WORD.fullmatch(word):
            raise _refused(word)


def check_environment(environment: Mapping[str, str] | None) -> None:
    """The same for names and values of variables; a value may be empty.

    Raises:
        UsageError: one has other characters.
    """
    for name, value in (environment or {}).items():
        if not _NAME.fullmatch(name):
            raise _refused(name)
        if value:
            check_words([value])


def _refused(word: str) -> UsageError:
    return UsageError(
        f"'{sanitize(word, 80)}' is no word for a command on a board.",
        cause="Commands are made of letters, digits and @ % + = : , . / _ - only, so that no "
        "name of a file, a model or a board can become a command.",
        remedy="Report it: names belong into messages to the agent.",
    )
