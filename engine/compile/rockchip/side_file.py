"""What a compiled model was made from: a JSON file beside it.

It holds no time, user, host or path, so that the same compilation writes the same text.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.plain import JsonObject, JsonValue
from engine.base.version import __version__
from engine.recipe import canonical_json
from engine.wire.compile import QuantizedBy

if TYPE_CHECKING:
    from engine.compile.rockchip.compiler import CompilerRequest

__all__ = ["SIDE_VERSION", "Origin", "side_file", "side_path"]

SIDE_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What is recorded of a build.

    Attributes:
        model: name of its file.
        recipe: with every default written out, files as name and SHA-256.
        source: (name, SHA-256) of the files of the source model.
        dataset: (name, SHA-256) of the samples; None where none were used.
    """

    model: str
    recipe: JsonObject
    source: tuple[tuple[str, str], ...]
    dataset: tuple[str, str] | None


def side_path(model: Path) -> Path:
    """``NAME.rknn.json`` of ``NAME.rknn``."""
    return model.with_name(f"{model.name}.json")


def side_file(
    origin: Origin, request: CompilerRequest, toolkit: str, model: Path, sha256: str, size: int
) -> bytes:
    """The text of a side file.

    Args:
        origin: of the build.
        request: what the toolkit was given.
        toolkit: name and version.
        model: the compiled file.
        sha256, size: of that.
    """
    named: dict[str, JsonValue] = {
        "side_file_version": SIDE_VERSION,
        "file": model.name,
        "sha256": sha256,
        "bytes": size,
        "tool": f"rknntui {__version__}",
        "toolkit": toolkit,
        "chip": request.chip,
        "quantized_by": _by(request.by),
        "config": dict(request.config),
        "build": dict(request.build),
        "onnx_sha256": hashlib.sha256(request.model).hexdigest(),
        "model": origin.model,
        "source": [{"file": name, "sha256": digest} for name, digest in origin.source],
        "dataset": None
        if origin.dataset is None
        else {"file": origin.dataset[0], "sha256": origin.dataset[1]},
        "recipe_sha256": hashlib.sha256(canonical_json(dict(origin.recipe))).hexdigest(),
        "recipe": dict(origin.recipe),
    }
    return (json.dumps(named, indent=1, ensure_ascii=True) + "\n").encode("ascii")


def _by(by: QuantizedBy) -> str:
    return {"ours": "rknntui", "vendor": "toolkit", "nobody": "nobody"}[by]
