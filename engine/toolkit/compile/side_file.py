"""What a compiled model was made from: a JSON file beside it, and the build that is kept.

The file holds no time, user, host or path, so that the same compilation writes the same text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.cache import StageCache, cache_limit
from engine.base.files import read_regular, sha256_of
from engine.base.findings import Finding
from engine.base.paths import cache_folder
from engine.base.plain import JsonObject, JsonValue
from engine.base.text import sanitize
from engine.base.version import __version__
from engine.recipe import canonical_json
from engine.toolkit.compile.neutral_names import NeutralNames
from engine.wire.compile import QuantizedBy

if TYPE_CHECKING:
    from engine.toolkit.compile.compiler import CompilerRequest

SIDE_VERSION = 1

_LIMIT = 16 * 2**20
# what a reader is told of one, in this order
_TOLD = ("tool", "toolkit", "chip", "quantized_by", "model", "recipe_sha256", "onnx_sha256")
_FILES = 8


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What is recorded of a build.

    Attributes:
        model: name of its file.
        recipe: with every default written out, files as name and SHA-256.
        source: (name, SHA-256) of the files of the source model.
        dataset: (name, SHA-256) of the samples; None where none were used.
        changed: options that are otherwise in the compiled model, as the toolkit failed with those
            of the recipe.
    """

    model: str
    recipe: JsonObject
    source: tuple[tuple[str, str], ...]
    dataset: tuple[str, str] | None
    changed: Mapping[str, JsonValue] = field(default_factory=dict)


def side_path(model: Path) -> Path:
    """``NAME.rknn.json`` of ``NAME.rknn``."""
    return model.with_name(f"{model.name}.json")


def side_file(
    origin: Origin, request: CompilerRequest, toolkit: str, model: Path, sha256: str, content: bytes
) -> bytes:
    """The text of a side file.

    Args:
        origin: of the build.
        request: what the toolkit was given.
        toolkit: name and version.
        model: the compiled file.
        sha256, content: of that.
    """
    named: dict[str, JsonValue] = {
        "side_file_version": SIDE_VERSION,
        "file": model.name,
        "sha256": sha256,
        "bytes": len(content),
        "tool": f"rknntui {__version__}",
        "toolkit": toolkit,
        "chip": request.chip,
        "quantized_by": _by(request.by),
        "config": request.user_config,
        "build": dict(request.build),
        "onnx_sha256": hashlib.sha256(request.model).hexdigest(),
        "model": origin.model,
        "source": [{"file": name, "sha256": digest} for name, digest in origin.source],
        "dataset": None
        if origin.dataset is None
        else {"file": origin.dataset[0], "sha256": origin.dataset[1]},
        "recipe_sha256": hashlib.sha256(canonical_json(dict(origin.recipe))).hexdigest(),
        "recipe": dict(origin.recipe),
        "changed": dict(origin.changed),
        "names": request.names.of_model(content),
    }
    return (json.dumps(named, indent=1, ensure_ascii=True) + "\n").encode("ascii")


def compiled_from(model: Path, sha256: str) -> tuple[JsonObject, tuple[Finding, ...]]:
    """What the side file of a compiled model says, and what is wrong with that file.

    Args:
        model: the compiled file.
        sha256: of its bytes.

    Returns:
        Fact -> text, empty where there is no side file of ours; findings (``side-file-unreadable``,
        ``side-file-of-another``).
    """
    path = side_path(model)
    try:
        side = json.loads(read_regular(path, _LIMIT))
    except FileNotFoundError:
        return {}, ()
    except (OSError, ValueError, RecursionError):
        return {}, (_doubt("unreadable", path, "cannot be read", "It was changed, or is no JSON."),)
    if not isinstance(side, dict) or "side_file_version" not in side:
        return {}, ()
    if side.get("sha256") != sha256:
        why = "The model was compiled or copied again without it, or one of the two was changed."
        return {}, (_doubt("of-another", path, "is of another compiled model", why),)
    facts: dict[str, JsonValue] = {name: _text(side.get(name)) for name in _TOLD}
    source = side.get("source")
    facts["source"] = [_file(one) for one in source[:_FILES]] if isinstance(source, list) else []
    facts["dataset"] = _file(side.get("dataset"))
    return facts, ()


def names_of(model: Path, sha256: str = "") -> NeutralNames:
    """The names of a compiled model, by its side file; none where that is not of this model.

    Args:
        model: the compiled file.
        sha256: of its bytes; empty: it is taken here.
    """
    try:
        side = json.loads(read_regular(side_path(model), _LIMIT))
        if side["sha256"] != (sha256 or sha256_of(model)):
            return NeutralNames()
        return NeutralNames.of_file(side["names"])
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return NeutralNames()


def _doubt(code: str, path: Path, what: str, cause: str) -> Finding:
    return Finding(
        f"side-file-{code}",
        "warning",
        sanitize(path.name),
        f"The side file {what}, so that it is not known what the model was made from.",
        cause,
        "Compile again (rknntui compile), or copy both files of one run.",
    )


def _file(named: object) -> str:
    """A file of a side file with the begin of its SHA-256; empty where it is none."""
    if not isinstance(named, dict):
        return ""
    return f"{_text(named.get('file'))} (SHA-256 {_text(named.get('sha256'))[:16]})"


def _text(value: object) -> str:
    return sanitize(value, 200) if isinstance(value, str) else ""


def _by(by: QuantizedBy) -> str:
    return {"ours": "rknntui", "vendor": "toolkit", "nobody": "nobody"}[by]


# No simulator runs the vendor's code. The container of the build that the compiler was given holds
# the same quantized graph, so an emulated board runs that in place of the file, and says so.

_KEPT_BYTES = 500_000_000
"""Bytes of all of them; those not used for longest go first."""
_STAGE, _FILE = "build", "container.rknn"


def kept_builds() -> StageCache:
    """The cache that holds them."""
    folder = cache_folder() / "compiled-builds"
    return StageCache(folder, min(_KEPT_BYTES, cache_limit(folder)))


def keep_build(digest: str, container: bytes) -> None:
    """Keep the container of a build in the user's cache; one that cannot be written costs nothing.

    Args:
        digest: SHA-256 of the compiled file, as hexadecimal digits.
        container: of ours.
    """
    kept_builds().put(_STAGE, digest, {_FILE: container})


def kept_build(digest: str) -> bytes | None:
    """The container of the build that a file was compiled from; None where none is kept."""
    return (kept_builds().get(_STAGE, digest) or {}).get(_FILE)
