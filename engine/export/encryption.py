"""Models encrypted, and what still holds them in plain form.

Ours are encrypted here, the vendor's by its toolkit [RKNN-T2 2.3.0, 2.15].
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from engine.base.cache import StageCache
from engine.base.errors import CompilerError, ContainerError, EngineError, OutputError, UsageError
from engine.base.events import NullReporter, Progress, Reporter
from engine.base.files import atomic_copy, open_regular, refuse_existing, sha256_of
from engine.base.text import sanitize
from engine.container.encryption import check_level, encrypt_file, encrypted_name, opens_as
from engine.container.keys import Key, key_findings, needed_key
from engine.container.other_formats import other_format
from engine.container.read import read_container
from engine.container.vendor import inspect_vendor
from engine.toolkit.compile.side_file import compiled_from, kept_builds, side_path
from engine.toolkit.environments import find
from engine.toolkit.toolkit import one_run
from engine.wire.encryption import Encrypted, PlainCopy
from engine.wire.vendor import ToolkitEnvironment


def encrypt_model(
    path: Path,
    output: Path | None = None,
    level: int = 1,
    *,
    key: Key | None = None,
    toolkit: str | None = None,
    overwrite: bool = False,
    wipe_plain: bool = False,
    reporter: Reporter | None = None,
) -> Encrypted:
    """Encrypt a container of ours with a key, or a compiled model by the vendor's toolkit.

    Args:
        path: of the model.
        output: the file to make; None: ``NAME.crypt.rknn`` beside it.
        level: 1 to 3.
        key: for a container of ours; None: the one that the process knows. The vendor's has none:
            its runtime opens such a file by itself.
        toolkit: name of the vendor's environment; None: the default of generation 2.
        overwrite: whether ``output`` may be there.
        wipe_plain: whether what this program wrote of the model in plain form is removed.
        reporter: told of progress, asked whether to stop.

    Raises:
        UsageError: another level, a model that is encrypted already, or a chip that has no
            encrypted models.
        KeyNeededError: a container of ours and no key.
        ContainerError: no model, or damaged.
        ToolkitError, CompilerError: the vendor's toolkit is not there, or failed.
        OutputError: the file cannot be written.
    """
    check_level(level)
    events = reporter or NullReporter()
    target = output or encrypted_name(path)
    refuse_existing(target, overwrite=overwrite)
    encrypted = Encrypted(path=str(target), size=0, sha256="", level=level, ours=not _kind(path))
    known = None
    if encrypted.ours:
        known = key or needed_key(f"What becomes of {sanitize(path.name, 200)}")
        size = encrypt_file(
            path, target, known, level, overwrite=overwrite, told=progress_teller(events, "encrypt")
        )
        encrypted = replace(encrypted, size=size, findings=key_findings(known))
    else:
        size, name = encrypt_compiled(
            path, target, level, toolkit=toolkit, overwrite=overwrite, reporter=events
        )
        encrypted = replace(encrypted, size=size, toolkit=name)
    wiped, stays = encrypted.wiped, plain_copies(path, target, ours=encrypted.ours)
    if wipe_plain:
        wiped, stays = wipe(stays, target, known)
    return replace(encrypted, sha256=sha256_of(target), stays=stays, wiped=wiped)


def progress_teller(reporter: Reporter, stage: str) -> Callable[[int, int], None]:
    """A function that tells how many MiB are done, and stops where the reporter says so."""

    def told(done: int, total: int) -> None:
        reporter.check_cancelled()
        reporter.emit(Progress(stage, done >> 20, max(1, total >> 20), "MiB"))

    return told


def _kind(path: Path) -> str:
    try:
        with open_regular(path) as stream:
            return other_format(stream.read(64))
    except OSError as error:
        raise ContainerError(
            f"{sanitize(str(path), 300)} could not be read: {error.strerror or error}.",
            remedy="Check the path, and that you have permission to read it.",
        ) from error


# Compiled models of generation 2: the toolkit encrypts any file that it is given, takes another
# level than 1 to 3 as 1, and encrypts what is encrypted once more (seen with 2.3.2): all of that is
# checked here first.

_NOT_THERE = ("rv1103", "rv1103b", "rv1106", "rv1106b", "rk2118")
"""Chips whose runtime opens no encrypted model."""
_SECONDS = 600.0


def encrypt_compiled(
    path: Path,
    output: Path,
    level: int,
    *,
    environment: ToolkitEnvironment | None = None,
    toolkit: str | None = None,
    overwrite: bool = False,
    reporter: Reporter | None = None,
) -> tuple[int, str]:
    """Have a compiled model encrypted.

    Args:
        path: of the model.
        output: the file to make.
        level: 1 to 3.
        environment: of the toolkit; None: found by ``toolkit``.
        toolkit: name of the environment; None: the default of generation 2.
        overwrite: whether ``output`` may be there.
        reporter: told what the toolkit prints, asked whether to stop.

    Returns:
        The size of ``output`` in bytes, and the toolkit that made it.

    Raises:
        UsageError: the model is encrypted, or for a chip that has no encrypted models.
        ToolkitError: there is no toolkit of generation 2.
        CompilerError: it failed.
        OutputError: the file cannot be written.
    """
    require_fit(path)
    with one_run(environment or find(2, toolkit), reporter) as rknn:
        plain, encrypted = rknn.toolkit.work / "model.rknn", rknn.toolkit.work / "model.crypt.rknn"
        shutil.copyfile(path, plain)
        rknn.do("export_encrypted_rknn_model", str(plain), str(encrypted), level, seconds=_SECONDS)
        obtained = _level(encrypted)
        if obtained != level:
            raise CompilerError(
                "The vendor's toolkit said that it encrypted the model, and did not.",
                cause="What it wrote is missing, or "
                + ("no encrypted model." if obtained is None else f"of level {obtained}."),
                remedy="Check the toolkit with `rknntui vendor check`.",
            )
        return atomic_copy(encrypted, output, overwrite=overwrite), rknn.toolkit.words


def _level(path: Path) -> int | None:
    try:
        return inspect_vendor(path).encryption_level
    except ContainerError:
        return None


def require_fit(path: Path) -> None:
    """Refuse what the vendor's runtime would never open.

    Raises:
        UsageError: it says why.
        ContainerError: it cannot be read.
    """
    name, model = sanitize(path.name, 200), inspect_vendor(path)
    if model.encryption_level is not None:
        raise UsageError(
            f"{name} is encrypted already (level {model.encryption_level}).",
            remedy="Encrypt the model that it was made from.",
        )
    if model.generation != 2 or model.kind == "op-package":
        raise UsageError(
            f"{name} is {model.form}, and no compiled model of generation 2.",
            cause="The runtimes of the other generations open no encrypted models.",
            remedy="Compile the model for a chip of generation 2.",
        )
    without = [chip for chip in model.chips if chip in _NOT_THERE]
    if without:
        raise UsageError(
            f"{name} is for {', '.join(without)}, whose runtime opens no encrypted models.",
            cause="The vendor's manual names RV1103, RV1103B, RV1106, RV1106B and RK2118.",
            remedy="Keep the model as it is on such a board.",
        )


# What still holds a model in plain form once it was encrypted, and its removal.
#
# Removed is what this program wrote alone: the model that was encrypted, where it is a container of
# ours or a compiled model with its side file, that side file, and the cache. The cache does not say
# which results are of which model, so all of it goes; what is needed of it is computed again. Files
# are unlinked: what a disk keeps of them until it writes there again is not in a program's hands.

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
