"""What tells containers of ours from the vendor's files, and the error of an unreadable file."""

from __future__ import annotations

from engine.base.errors import ContainerError

MAGIC = b"OPENMODL"
"""In the reserved bytes of the head (offset 24) and at the start of the data."""

ENCRYPTED_MAGIC = b"OPENCRYP"
"""At the start of a container of ours that is encrypted. Netron knows no such file and says so."""


def unreadable_error(name: object, error: Exception) -> ContainerError:
    """The error of a file that is there, and that the system does not let us read."""
    return ContainerError(
        f"{name} could not be read: {getattr(error, 'strerror', None) or error}.",
        cause="The path is misspelled, or it is no file, or you may not read it.",
        remedy="Check the path, and that you have permission to read it.",
    )
