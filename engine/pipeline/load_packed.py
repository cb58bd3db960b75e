"""Loads a container of ours for views and simulation."""

from __future__ import annotations

import hashlib
from pathlib import Path

from engine.base.cache import LruCache
from engine.base.files import open_regular
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.container import Container, read_container
from engine.container.encryption import is_encrypted
from engine.container.keys import needed_key
from engine.pipeline.fingerprints import file_fingerprint

_opened = LruCache(2)


def unknown_finding(found: Container, path: Path) -> Finding | None:
    """What to tell of sections that this version does not read; None where there are none."""
    names = found.unknown_sections
    if not names:
        return None
    shown = ", ".join(sanitize(name, 40) for name in names)
    return Finding(
        "container-section-unknown",
        "warning",
        path.name,
        f"The container has sections that this version does not read: {shown}.",
        cause="A newer version or another program wrote it.",
        remedy="Update this program if you need them; everything else is read.",
    )


def load_packed(path: Path) -> Container:
    """A container of ours, kept for as long as its file and its key stay the same.

    Raises:
        ContainerError: it is missing, foreign or corrupt.
        KeyNeededError, WrongKeyError: it is encrypted, and no key or another one is given.
    """
    try:
        stamp = f"{file_fingerprint(path)} {_key_digest(path)}"
    except OSError:
        return read_container(path)  # which tells why
    return _opened.get_or_make(stamp, lambda: read_container(path))


def _key_digest(path: Path) -> str:
    """Which key opens an encrypted container; empty for any other file."""
    with open_regular(path) as stream:
        if not is_encrypted(stream.read(8)):
            return ""
    return hashlib.sha256(needed_key(sanitize(str(path), 300)).secret).hexdigest()
