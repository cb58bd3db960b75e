"""Builds of compiled models, by the SHA-256 of the compiled file.

No simulator runs the vendor's code. The container of the build that the compiler was given holds
the same quantized graph, so an emulated board runs that in place of the file, and says so.
"""

from __future__ import annotations

from engine.base.cache import StageCache, cache_limit
from engine.base.paths import cache_folder

_LIMIT = 500_000_000
"""Bytes of all of them; those not used for longest go first."""
_STAGE, _FILE = "build", "container.rknn"


def kept_builds() -> StageCache:
    """The cache that holds them."""
    folder = cache_folder() / "compiled-builds"
    return StageCache(folder, min(_LIMIT, cache_limit(folder)))


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
