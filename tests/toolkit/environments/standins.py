"""Stand-ins of the vendor's packages: tiny wheels, and environments with nothing else in them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

VERSION = ".".join(map(str, sys.version_info[:2]))

PINS = """# a stand-in
base-part==1.0
middle-part==2.1
# without dependencies: as the real ones
rknn-toolkit2=={version}
"""


@dataclass(frozen=True)
class Stand:
    """A package.

    Attributes:
        files: path in site-packages -> text.
        requires: its requirements.
    """

    name: str
    version: str = "1.0"
    requires: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def metadata(self) -> str:
        lines = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self.version}"]
        return "\n".join([*lines, *(f"Requires-Dist: {one}" for one in self.requires)]) + "\n"

    @property
    def stem(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}"


def toolkit(
    version: str = "2.3.2", *requires: str, generation: int = 2, code: str = "class RKNN: pass\n"
) -> Stand:
    """A toolkit of which only the import is there."""
    files = {"rknn/__init__.py": "", "rknn/api/__init__.py": code}
    name = "rknn-toolkit2" if generation == 2 else "rknn-toolkit"
    return Stand(name, version, requires, files)


def wheel(folder: Path, stand: Stand, tag: str = "py3-none-any") -> Path:
    """Write the wheel of a package."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stand.stem}-{tag}.whl"
    info = f"{stand.stem}.dist-info"
    texts = {
        **stand.files,
        f"{info}/METADATA": stand.metadata,
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{name},,\n" for name in (*texts, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**texts, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


def wheels(folder: Path, version: str = "2.3.2") -> Path:
    """What the stand-in pins need."""
    wheel(folder, Stand("base-part", files={"base_part.py": ""}))
    # as torch: it wants a newer setuptools than the toolkit works with
    asks = ["base-part>=1.0", "setuptools>=77", "further"]
    wheel(folder, Stand("middle-part", "2.1", asks, {"middle_part.py": ""}))
    wheel(folder, Stand("further", "0.1", files={"further.py": ""}))
    pkg_resources = Stand("setuptools", "75.0", files={"pkg_resources.py": ""})
    wheel(folder, pkg_resources)
    wheel(folder, toolkit(version))
    return folder


def environment(folder: Path, *packages: Stand, python: str = sys.executable) -> Path:
    """A venv without pip, and with these packages."""
    command = [python, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    for one in packages:
        put(folder, one)
    return folder


def site_of(folder: Path) -> Path:
    """Its folder of packages."""
    return next((folder / "lib").glob("python3.*/site-packages"))


def put(folder: Path, stand: Stand) -> None:
    """Install a package by hand."""
    site = site_of(folder)
    texts = {**stand.files, f"{stand.stem}.dist-info/METADATA": stand.metadata}
    for name, text in texts.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
