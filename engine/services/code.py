"""Answers of the worker about a user's Python: which files a recipe names, and whether they may
run. Nothing here runs any of them.
"""

from __future__ import annotations

from pathlib import Path

from engine.base.errors import UsageError
from engine.base.files import sha256_of
from engine.base.trust import trust_file, trusted_code, trusted_digest
from engine.services.handler import answers
from engine.services.state import recipe_at
from engine.wire.recipes import CODE_CONFIRM, CODE_FILES, CodeDigest, CodeFile, CodeFiles, CodeState
from engine.wire.requests import ModelTarget

__all__ = ["confirm_file", "files"]


@answers(CODE_FILES)
def files(params: ModelTarget) -> CodeFiles:
    """The Python files that a recipe names, for the dialog that asks about them."""
    names: dict[Path, list[str]] = {}
    for code in recipe_at(params).source.custom_ops or ():
        file, _, name = code.rpartition(":")
        names.setdefault(Path(file).resolve(), []).append(name)
    return CodeFiles(tuple(_state(path, tuple(classes)) for path, classes in names.items()))


def _state(path: Path, names: tuple[str, ...]) -> CodeFile:
    try:
        digest = sha256_of(path) if path.is_file() else ""
    except OSError:
        digest = ""
    state: CodeState
    known = trusted_digest(path)
    if not digest:
        state = "missing"
    elif path in trusted_code():
        state = "allowed"
    elif known is None:
        state = "new"
    else:
        state = "confirmed" if known == digest else "changed"
    return CodeFile(names, str(path), digest, state)


@answers(CODE_CONFIRM)
def confirm_file(params: CodeDigest) -> CodeDigest:
    """Let a file run from now on, by its path and the SHA-256 that the user was shown."""
    path, digest = Path(params.path), params.sha256
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise UsageError("sha256 is the hexadecimal SHA-256 that code.files reported.")
    return CodeDigest(str(path.resolve()), trust_file(path, digest))
