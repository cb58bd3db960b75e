"""What a container of ours is told from the vendor's files by."""

MAGIC = b"OPENMODL"
"""In the reserved bytes of the head (offset 24) and at the start of the data."""

ENCRYPTED_MAGIC = b"OPENCRYP"
"""At the start of a container of ours that is encrypted. Netron knows no such file and says so."""
