"""``rknntui export``."""

from __future__ import annotations

from engine import human_bytes
from engine.wire.build import EXPORT, Exported
from rknntui.cli.flags import EPILOG
from rknntui.cli.verb import verb


@verb(EXPORT, epilog=EPILOG)
def command(found: Exported) -> list[str]:
    """Write a build as .rknn container, QDQ ONNX or TFLite; builds what the cache does not hold."""
    lines = [f"{found.path}: {human_bytes(found.bytes)}, SHA-256 {found.sha256}", found.note]
    lines += [f"also {path}" for path in found.more]
    return lines + [f"{each.what} {each.remedy}" for each in found.findings]
