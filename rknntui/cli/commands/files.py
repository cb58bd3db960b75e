"""``rknntui encrypt``, ``decrypt``, ``segment`` and ``codegen``: what is made of a built model."""

from __future__ import annotations

from pathlib import Path

import click

from engine import ContainerError, SourceModelError, UsageError, human_bytes, sanitize
from engine.wire.build_tables import CUTS
from engine.wire.codec import Values
from engine.wire.codegen import CODEGEN, Generated
from engine.wire.encryption import (
    ENCRYPTION_DECRYPT,
    ENCRYPTION_ENCRYPT,
    ENCRYPTION_KEY,
    Decrypted,
    Encrypted,
    PlainCopy,
)
from engine.wire.model import SNIFF
from engine.wire.requests import AtPath
from engine.wire.segments import SEGMENTS_CUT, Segments, SegmentsParams
from rknntui.cli.inspect_output import finding_lines, segment_lines
from rknntui.cli.keys import asked_key, given_key
from rknntui.cli.output import table_lines
from rknntui.cli.session import WorkerSession, resolve
from rknntui.cli.verb import verb


async def _with_key(session: WorkerSession, model: Path, _options: Values, _: Values) -> Values:
    path = str(model.absolute())
    if (await session.call(SNIFF, AtPath(path))).kind == "rknn":
        key = given_key(click.get_current_context()) or asked_key(
            sanitize(model.name, 80), twice=True
        )
        if key is None:
            raise UsageError(
                "There is no key to encrypt with.",
                cause="Standard input is no terminal, and no file is named.",
                remedy="Name a file that holds the key with --key-file, or in the environment "
                "variable RKNNTUI_KEY_FILE.",
            )
        await session.call(ENCRYPTION_KEY, key)
    return {}


@verb(ENCRYPTION_ENCRYPT, fill=_with_key, keys=True)
def encrypt(found: Encrypted) -> list[str]:
    """Encrypt MODEL: a container of this program with a key of yours (AES-256-GCM), or a compiled
    model of the vendor by its toolkit, which needs no key and whose runtime opens it by itself.
    """
    how = "AES-256-GCM, with your key" if found.ours else sanitize(found.toolkit)
    lines = [_written(found), f"encrypted, level {found.level} ({how})"]
    return [*lines, *finding_lines(found.findings), *_plain(found)]


async def _known_key(session: WorkerSession, _: Path, _options: Values, _fields: Values) -> Values:
    key = given_key(click.get_current_context())
    if key is not None:
        await session.call(ENCRYPTION_KEY, key)
    return {}


@verb(ENCRYPTION_DECRYPT, fill=_known_key, keys=True)
def decrypt(found: Decrypted) -> str:
    """Write the container that is in MODEL. The vendor's encrypted models are opened by its runtime
    on a board alone.
    """
    return _written(found)


def _written(file: Encrypted | Decrypted) -> str:
    return f"{sanitize(file.path)}: {human_bytes(file.size)}, SHA-256 {file.sha256}"


_WORDS = {
    "model": "what was encrypted",
    "side file": "its side file",
    "source": "its source model, wherever it lies",
    "dataset": "its samples, wherever they lie",
    "cache": "this program's cache of all models",
}


def _plain(encrypted: Encrypted) -> list[str]:
    """What holds the model in plain form, and what was removed of it."""
    text = [f"removed: {_copy(copy)}" for copy in encrypted.wiped]
    if encrypted.stays:
        text += ["in plain form there is still:", *(f"  {_copy(copy)}" for copy in encrypted.stays)]
    if any(copy.ours for copy in encrypted.stays):
        text.append("--wipe removes what this program wrote of it (with --force).")
    return text


def _copy(one: PlainCopy) -> str:
    size = "" if one.size is None else f", {human_bytes(one.size)}"
    return f"{sanitize(one.name, 300)} ({_WORDS[one.what]}{size})"


@verb(SEGMENTS_CUT, keys=True)
def segment(found: Segments, asked: SegmentsParams) -> list[str]:
    """List the layers of MODEL with what a cut behind each costs, and cut it into segments.

    MODEL is a container of this program, cut here and simulated segment by segment, or a compiled
    model of generation 1, cut by the vendor's toolkit.
    """
    lines = _layer_lines(found) if not asked.after and asked.max_ms is None else []
    if found.segments:
        title = f"times estimated for {found.chip}" if found.chip else "no chip, so no times"
        lines += [*([""] * bool(lines)), *segment_lines(found.segments, title)]
    lines += finding_lines(found.findings)
    if found.path:
        how = f" by {sanitize(found.toolkit)}" if found.toolkit else ""
        size = human_bytes(found.size)
        lines.append(f"{sanitize(found.path)}: {size}, SHA-256 {found.sha256}{how}")
    return lines


def _layer_lines(cuts: Segments) -> list[str]:
    lines = table_lines(CUTS, cuts.layers)
    if any(layer.with_next for layer in cuts.layers):
        lines.append("+ computed together with the next layer (estimated)")
    return lines


async def _project_of(
    session: WorkerSession, target: Path, options: Values, fields: Values
) -> Values:
    kind = await _kind(session, target)
    path = str(target.absolute())
    if kind == "rknn_vendor" and fields.get("model"):
        raise ContainerError(
            f"{target} is a compiled model, and --model names another one.",
            remedy="Give the recipe or the build as TARGET.",
        )
    if kind:
        return {"build" if kind == "rknn" else "model": path}
    return {"recipe": await resolve(session, target, options)}


async def _kind(session: WorkerSession, target: Path) -> str:
    """``rknn``: a container of ours; ``rknn_vendor``: a compiled model; else empty."""
    try:
        seen = await session.call(SNIFF, AtPath(str(target.absolute())))
    except SourceModelError:
        return ""  # whoever reads it as a model or recipe tells what is wrong
    return seen.kind if seen.kind in ("rknn", "rknn_vendor") else ""


@verb(CODEGEN, fill=_project_of)
def codegen(result: Generated) -> list[str]:
    """Write a project that runs a model on a board and compares its outputs with golden ones.

    The golden outputs are simulated by the build of TARGET, and stored with the inputs.
    """
    lines = [f"{sanitize(result.path, 500)}: {len(result.files)} files"]
    for finding in result.findings:
        lines.append(f"{finding.severity}: {sanitize(finding.what)}")
        lines += [f"  {sanitize(line)}" for line in finding.remedy.split("\n") if line]
    return [*lines, "Its README.md says how to build and run it."]
