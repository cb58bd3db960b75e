"""Encrypted models: making them, opening them, and the key that the worker holds for that."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from engine.wire.codec import Text, Whole
from engine.wire.compile import WrittenModel
from engine.wire.flags import Argument, Flag, Force, Toolkit, output_flag
from engine.wire.method import Nothing, Query, Task
from engine.wire.record import record


@record
class KeyParams:
    """The key of encrypted containers, held by the worker until it ends; nothing: forget it.

    A query, and no part of a job's request: those are kept in records.

    Attributes:
        text: what was typed, or stood in the environment.
        file: the path of a file that holds it.
        origin: where the text came from, for messages.
    """

    text: Annotated[
        str | None,
        Flag(
            name="--key",
            help="Without it there is no way to open the container; it is kept nowhere. Default: "
            "none; a compiled model is encrypted by the vendor's toolkit, with a key of its own.",
            kind="secret",
        ),
    ] = field(default=None, repr=False)
    file: Annotated[
        Text | None, Flag(name="--key-file", help="Instead: a file that holds it.", kind="file")
    ] = None
    origin: Text = "the prompt"


@record(kw_only=True)
class EncryptParams:
    """A model to encrypt.

    Attributes:
        path: a container of ours, or a compiled model of the vendor.
        level: ``crypt_level``.
    """

    path: Annotated[
        Text, Argument(metavar="MODEL", help="A container, or a compiled model (.rknn).")
    ]
    output: Annotated[
        Text | None, output_flag("The file to write. Default: NAME.crypt.rknn beside the model.")
    ] = None
    level: Annotated[
        int,
        Whole(1, 3),
        Flag(
            help="A higher level takes longer to decrypt, and longer to guess the key. Level 1 "
            "opens in about half a second.",
        ),
    ] = 1
    toolkit: Toolkit = None
    wipe: Annotated[
        bool,
        Flag(
            help="Remove afterwards what this program wrote of it in plain form: MODEL, what lies "
            "beside it, and the cache of all models. Your source model and samples stay.",
        ),
    ] = False
    force: Force = False


@record
class PlainCopy:
    """What still holds an encrypted model in plain form, or did.

    Attributes:
        what: ``model`` that was encrypted, its ``side file``, its ``source`` and ``dataset`` (names
            of files: where they lie, the model does not say), this program's ``cache``.
        name: path, or name.
        size: in bytes; None where it is not known.
        ours: whether this program wrote it, so that it can be wiped.
    """

    what: Literal["model", "side file", "source", "dataset", "cache"]
    name: str
    size: int | None = None
    ours: bool = False


@record(kw_only=True)
class Encrypted(WrittenModel):
    """What was encrypted; a finding is such as a key that is short.

    Attributes:
        toolkit: of the vendor's that did it; empty for a container.
        level: as asked for.
        ours: whether it is a container of this program; else a compiled model of the vendor.
        stays: what holds the model in plain form now.
        wiped: what was removed.
    """

    level: int
    ours: bool
    toolkit: str = ""
    stays: tuple[PlainCopy, ...] = ()
    wiped: tuple[PlainCopy, ...] = ()


@record(kw_only=True)
class DecryptParams:
    """An encrypted container of ours."""

    path: Annotated[Text, Argument(metavar="MODEL")]
    output: Annotated[
        Text | None, output_flag("The file to write. Default: its name without .crypt.")
    ] = None
    force: Force = False


@record
class Decrypted:
    """The container that was in it."""

    path: str
    size: int
    sha256: str


ENCRYPTION_KEY = Query("encryption.key", KeyParams, Nothing)
# fmt: off
ENCRYPTION_ENCRYPT = Task("encryption.encrypt", EncryptParams, Encrypted, "encrypt",
    options=False, after="segment",
    about="Encrypt a container or a compiled model.",
    example="Examples: rknntui encrypt model.rknn --key-file key.txt; rknntui encrypt "
    "model.rknn --level 3, which asks for the key. There is no way to read a "
    "container without its key.")
ENCRYPTION_DECRYPT = Task("encryption.decrypt", DecryptParams, Decrypted, "decrypt",
    options=False, after="encrypt",
    about="Decrypt a container that was encrypted here.",
    example="Example: rknntui decrypt model.crypt.rknn --key-file key.txt")
# fmt: on
