"""What still holds a model in plain form once it was encrypted, and its removal.

Removed is what this program wrote alone: the model that was encrypted, where it is a container of
ours or a compiled model with its side file, that side file, and the cache. The cache does not say
which results are of which model, so all of it goes; what is needed of it is computed again. Files
are unlinked: what a disk keeps of them until it writes there again is not in a program's hands.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.base.cache import StageCache
from engine.base.errors import ContainerError, EngineError, OutputError
from engine.base.files import sha256_of
from engine.base.text import sanitize
from engine.container.encrypted_files import opens_as
from engine.container.keys import Key
from engine.container.read import read_container
from engine.toolkit.compile.side_file import compiled_from, side_path
from engine.toolkit.kept_builds import kept_builds
from engine.wire.encryption import PlainCopy

_READ_BYTES = 64_000_000
"""A larger container is not read for the names of its sources alone."""


def plain_copies(path: Path, encrypted: Path, *, ours: bool) -> tuple[PlainCopy, ...]:
    """What holds the model of a file that was encrypted in plain form.

    Args:
        path: what was encrypted.
        encrypted: the file that was made; may be ``path``, which then is none.
        ours: whether it is a container of ours.
    """
    copies = []
    if not (encrypted.exists() and path.exists() and encrypted.samefile(path)):
        copies = list(_of_container(path) if ours else _of_compiled(path))
    results = [cache.size() for cache in _caches()]
    count, size = (sum(column) for column in zip(*results, strict=True))
    if count:
        place = _caches()[0].folder.parent
        copies.append(PlainCopy("cache", str(place), size, ours=True))
    return tuple(copies)


def _caches() -> tuple[StageCache, StageCache]:
    return StageCache(), kept_builds()


def _of_container(path: Path) -> Iterator[PlainCopy]:
    size = path.stat().st_size
    yield PlainCopy("model", str(path), size, ours=True)
    if size > _READ_BYTES:
        return
    try:
        provenance = read_container(path).provenance
    except EngineError:
        return  # a custom operator that is not there, for instance: its sources are not known
    for name, _ in provenance.source:
        yield PlainCopy("source", sanitize(name, 200))
    if provenance.dataset is not None:
        yield PlainCopy("dataset", sanitize(provenance.dataset[0], 200))


def _of_compiled(path: Path) -> Iterator[PlainCopy]:
    facts, _ = compiled_from(path, sha256_of(path))
    yield PlainCopy("model", str(path), path.stat().st_size, ours=bool(facts))
    side = side_path(path)
    if facts:
        yield PlainCopy("side file", str(side), side.stat().st_size, ours=True)
    source = facts.get("source")
    for name in source if isinstance(source, list) else ():
        if name:
            yield PlainCopy("source", str(name))
    if facts.get("dataset"):
        yield PlainCopy("dataset", str(facts["dataset"]))


def wipe(
    copies: tuple[PlainCopy, ...], encrypted: Path, key: Key | None
) -> tuple[tuple[PlainCopy, ...], tuple[PlainCopy, ...]]:
    """Remove what this program wrote.

    Args:
        copies: of :func:`plain_copies`.
        encrypted: the file that was made; a container is first opened, and compared with the one
            that goes.
        key: of a container of ours; None: a compiled model of the vendor.

    Returns:
        What was removed, and what stays.

    Raises:
        ContainerError: the encrypted file is not what it was made from; nothing is removed.
        OutputError: something cannot be removed.
    """
    plain = next((Path(copy.name) for copy in copies if copy.what == "model"), None)
    if plain is not None and key is not None and not opens_as(encrypted, plain, key):
        raise ContainerError(
            f"{sanitize(str(encrypted), 300)} does not hold what {plain.name} does.",
            cause="Another program wrote to one of them meanwhile.",
            remedy="Nothing was removed. Encrypt it again.",
        )
    for copy in copies:
        if not copy.ours:
            continue
        try:
            if copy.what == "cache":
                for cache in _caches():
                    cache.clear()
            else:
                Path(copy.name).unlink()
        except OSError as error:
            raise OutputError(
                f"{sanitize(str(error.filename or copy.name), 300)} could not be removed: "
                f"{error.strerror or error}.",
                cause="The encrypted file is made; it and others still hold the model.",
                remedy="Remove it yourself.",
            ) from error
    return tuple(e for e in copies if e.ours), tuple(e for e in copies if not e.ours)
