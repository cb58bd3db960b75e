"""``RKNN`` as a script of the vendor's makes it: what ``rknntui script`` was told counts."""

from __future__ import annotations

import os
from typing import Any

from engine.api.rknn import RKNN as _RKNN
from engine.base.process import GENERATION

__all__ = ["RKNN"]


class RKNN(_RKNN):
    """See :class:`engine.api.RKNN`; ``rknntui script --generation`` is its ``generation``."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        said = os.environ.get(GENERATION)
        if said in ("1", "2"):
            keywords.setdefault("generation", int(said))
        super().__init__(*args, **keywords)
