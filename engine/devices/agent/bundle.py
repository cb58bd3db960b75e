"""The agent as one file that a Python of a board runs: a zip application, always the same bytes.

Nothing in it is compressed, so that neither this machine's zlib nor the board's matters.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.base.peers import far

__all__ = ["Bundle", "bundle"]

_FAR_SIDE = Path(__file__).with_name("far_side")
_FOLDER = "engine/devices/agent/far_side"
_DATE = (1980, 1, 1, 0, 0, 0)

_MAIN = b"""\
import sys

from engine.devices.agent.far_side.__main__ import main

sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Bundle:
    """A zip application.

    Attributes:
        content: its bytes.
        sha256: their digest, 64 hex digits.
    """

    content: bytes
    sha256: str

    @property
    def name(self) -> str:
        """What it is called on a board: another content has another name."""
        return f"agent-{self.sha256[:12]}.pyz"


@cache
def bundle() -> Bundle:
    """The agent of this version of the program."""
    parts = {f"{_FOLDER}/{path.name}": path.read_bytes() for path in _FAR_SIDE.glob("*.py")}
    parts["engine/base/peers/far.py"] = Path(far.__file__).read_bytes()
    # packages of the same names, without what the real ones import
    packages = {str(folder) for name in parts for folder in Path(name).parents} - {"."}
    parts |= {f"{package}/__init__.py": b"" for package in packages}
    parts["__main__.py"] = _MAIN
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(parts):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr = 0o644 << 16
            entry.create_system = 3  # the same on every machine
            archive.writestr(entry, parts[name])
    content = stream.getvalue()
    return Bundle(content, hashlib.sha256(content).hexdigest())
