"""The ``.data`` of hybrid quantization: a plain zip archive of JSON and numbers, never a pickle.

The vendor's toolkit 2 pickles Python objects there, and reading a pickle runs whatever it says.
Ours holds what step 2 needs beside the graph: the recipe, what calibration saw, the configuration
as step 1 wrote it, and a few samples; in generation 1 the weights too. Members are stored, not
compressed: a file cannot grow while it is read.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engine.base.content import reading
from engine.base.errors import RecipeError, SourceModelError
from engine.base.files import read_bounded
from engine.base.text import printable
from engine.graph.ir.arrays import read_npy

__all__ = ["SIZE_LIMIT", "HybridData", "read_data", "write_data"]

SIZE_LIMIT = 4 << 30
_FORMAT = "rknntui-hybrid-data"
_VERSION = 1
_FACTS = "hybrid.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MEMBERS = 100_000
_FACT_TYPES = {"recipe": dict, "model": str, "dataset": str, "framework": str, "source": list}
_PICKLE = tuple(bytes([0x80, version]) for version in range(2, 6))


@dataclass(frozen=True)
class HybridData:
    """What the file holds.

    Attributes:
        facts: plain data: ``generation``, ``recipe``, ``model`` (SHA-256 of the structure file).
        files: name -> bytes of everything else.
        samples: a few calibration samples, as inputs of the model.
    """

    facts: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)
    samples: tuple[Mapping[str, np.ndarray], ...] = ()

    def part(self, folder: str) -> dict[str, bytes]:
        """The files below a folder, by their names in it."""
        head = f"{folder}/"
        return {n.removeprefix(head): data for n, data in self.files.items() if n.startswith(head)}


def write_data(data: HybridData) -> bytes:
    """The bytes of the file; the same for the same content."""
    stream = io.BytesIO()
    facts = {"format": _FORMAT, "version": _VERSION, **data.facts}
    facts["inputs"] = [list(sample) for sample in data.samples[:1]]
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, _FACTS, json.dumps(facts, indent=1).encode("ascii"))
        for name, content in data.files.items():
            _add(archive, name, content)
        for number, sample in enumerate(data.samples):
            for index, array in enumerate(sample.values()):
                _add(archive, f"samples/{number}/{index}.npy", _npy(array))
    return stream.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def read_data(path: Path) -> HybridData:
    """Read :func:`write_data`.

    Raises:
        RecipeError: missing, damaged, of another program (the vendor's pickle is recognised and
            not read), or larger than 4 GiB.
    """
    try:
        content = read_bounded(path, SIZE_LIMIT, "a .data file")
    except SourceModelError as error:
        raise RecipeError(error.what, cause=error.cause, remedy=error.remedy) from error
    shown = printable(str(path), 300)
    if content[:2] in _PICKLE:
        raise RecipeError(
            f"{shown} is the .data file of the vendor's toolkit.",
            cause="It is a Python pickle: reading it would run whatever code it holds.",
            remedy="Run hybrid step 1 here; it writes a .data file that holds plain numbers.",
        )
    with reading(
        lambda why: RecipeError(
            f"{shown} is no .data file of hybrid quantization: {why}.",
            cause="It was cut, damaged, or written by something else.",
            remedy="Run hybrid step 1 again.",
        )
    ):
        return _parse(content)


def _parse(content: bytes) -> HybridData:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        names = [info.filename for info in infos]
        if len(set(names)) != len(names) or len(names) > _MEMBERS:
            raise ValueError("its members are not those of one file")
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
            raise ValueError("its members are compressed")
        if sum(info.file_size for info in infos) > len(content):
            raise ValueError("its members overlap")
        members = {name: archive.read(name) for name in names}
    facts = json.loads(members.pop(_FACTS))
    if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
        raise ValueError("it does not say what it is")
    if facts.get("version") != _VERSION:
        raise ValueError(f"it has version {facts.get('version')!r}, this program reads {_VERSION}")
    if facts.get("generation") not in (1, 2) or facts.get("api", 2) not in (1, 2):
        raise ValueError("it is of no known generation")
    if "recipe" not in facts:
        raise ValueError("its facts are incomplete")
    for name, kind in _FACT_TYPES.items():
        if not isinstance(facts.get(name, kind()), kind):
            raise ValueError(f"its {name} is none")
    if not all(isinstance(file, list) and len(file) == 2 for file in facts.get("source", [])):
        raise ValueError("its source is no list of files")
    files = {n: data for n, data in members.items() if not n.startswith("samples/")}
    return HybridData(facts, files, tuple(_samples(members, facts)))


def _samples(members: Mapping[str, bytes], facts: Mapping[str, Any]) -> list[dict[str, np.ndarray]]:
    (inputs,) = facts.get("inputs") or [[]]
    found: list[dict[str, np.ndarray]] = []
    while inputs and f"samples/{len(found)}/0.npy" in members:
        found.append(
            {
                str(name): read_npy(members[f"samples/{len(found)}/{index}.npy"])
                for index, name in enumerate(inputs)
            }
        )
    return found
