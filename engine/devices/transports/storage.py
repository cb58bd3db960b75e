"""What is wrong with a file of a board, in words for a user."""

from __future__ import annotations

from engine.base.errors import DeviceStorageError
from engine.base.text import human_bytes, sanitize

__all__ = ["storage_error", "too_large"]


def too_large(path: str, size: int, limit: int) -> DeviceStorageError:
    """The error for a file of the board that is larger than what is pulled."""
    return DeviceStorageError(
        f"{sanitize(path)} of the board has more than {human_bytes(limit)}: {human_bytes(size)}.",
        cause="It is not the file that was expected.",
        remedy="Remove it on the board and try again.",
    )


def storage_error(path: str, said: str) -> DeviceStorageError:
    """The error for a file of the board, by what the board said of it."""
    lower = said.lower()
    cause, remedy = f"The board says: {sanitize(said.strip())}.", "Look at it on the board."
    if "no space" in lower or "quota" in lower:
        cause, remedy = "No space is left there.", "Remove files on the board."
    elif "read-only" in lower:
        cause, remedy = "Its file system is read-only.", "Mount it for writing, or restart."
    elif "permission denied" in lower:
        cause, remedy = (
            "Its permissions do not allow it.",
            "Log in as a user who may, such as root.",
        )
    elif "no such file" in lower or "nonexistent" in lower:
        cause, remedy = "It, or its folder, is not there.", "Check the path."
    return DeviceStorageError(
        f"{sanitize(path)} of the board could not be read or written.", cause=cause, remedy=remedy
    )
