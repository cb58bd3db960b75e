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
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from engine.base.content import reading
from engine.base.errors import RecipeError, SourceModelError
from engine.base.files import read_bounded
from engine.base.plain import Values
from engine.base.text import sanitize
from engine.graph.ir.arrays import npy_bytes, read_npy
from engine.wire.codec import encode, typed

SIZE_LIMIT = 4 << 30
_FORMAT = "rknntui-hybrid-data"
_VERSION = 1
_FACTS = "hybrid.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MEMBERS = 100_000
_PICKLE = tuple(bytes([0x80, version]) for version in range(2, 6))


@dataclass(frozen=True)
class Facts:
    """What step 2 needs beside numbers.

    Attributes:
        generation: whose ``.quantization.cfg``.
        recipe: without options of the source model.
        model: SHA-256 of the structure file.
        api: generation of the class that step 1 was called by.
        source: (name, SHA-256) of the source model's files.
        framework: of the source model.
        dataset: digest of the samples.
        inputs: of the samples.
    """

    generation: int
    recipe: Values
    model: str = ""
    api: int = 2
    source: tuple[tuple[str, str], ...] = ()
    framework: str = "onnx"
    dataset: str = ""
    inputs: tuple[tuple[str, ...], ...] = ()
    format: str = ""
    version: int = 0


@dataclass(frozen=True)
class HybridData:
    """What the file holds.

    Attributes:
        facts: beside numbers.
        files: name -> bytes of everything else.
        samples: a few calibration samples, as inputs of the model.
    """

    facts: Facts
    files: Mapping[str, bytes] = field(default_factory=dict)
    samples: tuple[Mapping[str, np.ndarray], ...] = ()

    def part(self, folder: str) -> dict[str, bytes]:
        """The files below a folder, by their names in it."""
        head = f"{folder}/"
        return {n.removeprefix(head): data for n, data in self.files.items() if n.startswith(head)}


def write_data(data: HybridData) -> bytes:
    """The bytes of the file; the same for the same content."""
    stream = io.BytesIO()
    inputs = tuple(tuple(sample) for sample in data.samples[:1])
    facts = replace(data.facts, format=_FORMAT, version=_VERSION, inputs=inputs)
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, _FACTS, json.dumps(encode(facts), indent=1).encode("ascii"))
        for name, content in data.files.items():
            _add(archive, name, content)
        for number, sample in enumerate(data.samples):
            for index, array in enumerate(sample.values()):
                _add(archive, f"samples/{number}/{index}.npy", npy_bytes(array))
    return stream.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)


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
    shown = sanitize(str(path), 300)
    if content[:2] in _PICKLE:
        raise RecipeError(
            f"{shown} is the .data file of the vendor's toolkit.",
            cause="It is a Python pickle: reading it would run whatever code it holds.",
            remedy="Run hybrid step 1 here; it writes a .data file that holds plain numbers.",
        )
    with reading(
        lambda why: RecipeError(
            f"{shown} is no .data file of hybrid quantization: {why}.",
            cause="It was truncated, damaged, or written by another program.",
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
    head = json.loads(members.pop(_FACTS))
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise ValueError("it does not say what it is")
    if head.get("version") != _VERSION:
        raise ValueError(f"it has version {head.get('version')!r}, this program reads {_VERSION}")
    facts = typed(Facts, head)
    if facts.generation not in (1, 2) or facts.api not in (1, 2):
        raise ValueError("it is of no known generation")
    files = {n: data for n, data in members.items() if not n.startswith("samples/")}
    return HybridData(facts, files, tuple(_samples(members, facts)))


def _samples(members: Mapping[str, bytes], facts: Facts) -> list[dict[str, np.ndarray]]:
    (inputs,) = facts.inputs or ((),)
    samples: list[dict[str, np.ndarray]] = []
    while inputs and f"samples/{len(samples)}/0.npy" in members:
        samples.append(
            {
                name: read_npy(members[f"samples/{len(samples)}/{index}.npy"])
                for index, name in enumerate(inputs)
            }
        )
    return samples
