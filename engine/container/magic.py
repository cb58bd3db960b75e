"""What a container of ours is told from the vendor's files by."""

__all__ = ["MAGIC"]

MAGIC = b"OPENMODL"
"""In the reserved bytes of the head (offset 24) and at the start of the data."""
