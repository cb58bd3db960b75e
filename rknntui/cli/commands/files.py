"""``rknntui encrypt``, ``decrypt``, ``segment`` and ``codegen``: what is made of a built model."""

from __future__ import annotations

import click

from engine import ContainerError, SourceModelError, UsageError, answer_lines, sanitize
from engine.wire.codec import Values
from engine.wire.codegen import CODEGEN
from engine.wire.encryption import ENCRYPTION_DECRYPT, ENCRYPTION_ENCRYPT, ENCRYPTION_KEY
from engine.wire.segments import SEGMENTS_CUT, Segments, SegmentsParams
from rknntui.cli.keys import asked_key, given_key
from rknntui.cli.session import kind_of
from rknntui.cli.verb import Given, verb


async def _with_key(given: Given) -> Values:
    if (await kind_of(given.session, given.target)).kind == "rknn":
        key = given_key(click.get_current_context()) or asked_key(
            sanitize(given.target.name, 80), twice=True
        )
        if key is None:
            raise UsageError(
                "There is no key to encrypt with.",
                cause="Standard input is no terminal, and no file is named.",
                remedy="Name a file that holds the key with --key-file, or in the environment "
                "variable RKNNTUI_KEY_FILE.",
            )
        await given.session.call(ENCRYPTION_KEY, key)
    return {}


@verb(ENCRYPTION_ENCRYPT, fill=_with_key, keys=True)
def encrypt() -> None:
    """Encrypt MODEL: a container of this program with a key of yours (AES-256-GCM), or a compiled
    model of the vendor by its toolkit, which needs no key and whose runtime opens it by itself.
    """


async def _known_key(given: Given) -> Values:
    key = given_key(click.get_current_context())
    if key is not None:
        await given.session.call(ENCRYPTION_KEY, key)
    return {}


@verb(ENCRYPTION_DECRYPT, fill=_known_key, keys=True)
def decrypt() -> None:
    """Write the container that is in MODEL. The vendor's encrypted models are opened by its runtime
    on a board alone.
    """


@verb(SEGMENTS_CUT, keys=True)
def segment(found: Segments, asked: SegmentsParams) -> list[str]:
    """List the layers of MODEL with what a cut behind each costs, and cut it into segments.

    MODEL is a container of this program, cut here and simulated segment by segment, or a compiled
    model of generation 1, cut by the vendor's toolkit.
    """
    return answer_lines(found, layers=not asked.after and asked.max_ms is None)


async def _project_of(given: Given) -> Values:
    try:
        kind = (await kind_of(given.session, given.target)).kind
    except SourceModelError:
        kind = ""  # whoever reads it as a model or recipe tells what is wrong
    if kind == "rknn_vendor" and given.fields.get("model"):
        raise ContainerError(
            f"{given.target} is a compiled model, and --model names another one.",
            remedy="Give the recipe or the build as TARGET.",
        )
    if kind in ("rknn", "rknn_vendor"):
        return {"build" if kind == "rknn" else "model": str(given.target.absolute())}
    return {"recipe": await given.recipe()}


@verb(CODEGEN, fill=_project_of)
def codegen() -> None:
    """Write a project that runs a model on a board and compares its outputs with golden ones.

    The golden outputs are simulated by the build of TARGET, and stored with the inputs.
    """
