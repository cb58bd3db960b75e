"""Loads a container of ours for views and simulation."""

from __future__ import annotations

from pathlib import Path

from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.container import Container, read_container
from engine.pipeline.cache import LruCache
from engine.pipeline.fingerprints import file_fingerprint

__all__ = ["load_packed", "unknown_finding"]

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
    """A container of ours, kept for as long as its file stays the same.

    Raises:
        ContainerError: it is missing, foreign or corrupt.
    """
    try:
        stamp = file_fingerprint(path)
    except OSError:
        return read_container(path)  # which tells why
    known: Container | None = _opened.get(stamp)
    if known is None:
        known = read_container(path)
        _opened.put(stamp, known)
    return known
