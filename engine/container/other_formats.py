"""Names the format of a file that is no container of ours. First bytes: docs/container.md."""

from __future__ import annotations

import struct
from pathlib import Path

from engine.base.errors import ContainerError
from engine.container.magic import ENCRYPTED_MAGIC, MAGIC


def other_format(head: bytes) -> str:
    """A name for a file by its first 64 bytes; empty for a container of ours, encrypted or not."""
    if head[:8] == ENCRYPTED_MAGIC:
        return ""
    if head[:4] == b"RKNN":
        if head[24:32] == MAGIC:
            return ""
        if head[24:28] == b"SHDR":
            return "the vendor's package of a custom operator (.rknnop)"
        return "a compiled model of the vendor"
    if head[:8] == b"CYPTRKNN":
        level = struct.unpack_from("<Q", head, 16)[0] if len(head) >= 24 else 0
        return f"an encrypted model of the vendor (level {level})"
    if head[:4] == b"RKNX":
        return "a compiled model of the vendor's third generation (RKNX)"
    if head[:4] == b"VPMN":
        return "a precompiled graph of the vendor's first generation (VPMN)"
    if head[4:8] == b"RKNN":
        return "a bare graph of the vendor (FlatBuffer)"
    if not head:
        return "an empty file"
    return "no .rknn file"


def refuse_other_format(name: str, head: bytes, path: Path | None = None) -> None:
    """Raise ContainerError where ``head`` does not start a container of ours.

    Given its path, the error for a file of the vendor names platform and toolkit too.
    """
    kind = other_format(head)
    if not kind:
        return
    if "vendor" in kind:
        origin = _origin(path)
        raise ContainerError(
            f"{name} is {kind}{origin}, not a container of this program.",
            cause="Both carry the suffix .rknn. The vendor's are compiled for one NPU and cannot "
            "be simulated here.",
            remedy="Run it on a board of its platform, or load its source model and build again. "
            "`rknntui inspect` shows what is in it.",
        )
    raise ContainerError(
        f"{name} is {kind}.",
        cause="The file was cut to nothing, or something else was saved under this name."
        if not head
        else "It does not start with the bytes RKNN.",
        remedy="Check the path, or export the container again.",
    )


def _origin(path: Path | None) -> str:
    """`` (for rk3588, by toolkit 2.3.2)`` where the file tells."""
    if path is None:
        return ""
    # its readers are not needed to open a container of ours
    from engine.container.vendor import vendor_origin

    words = vendor_origin(path)
    return f" ({words})" if words else ""
