"""``from rknn.api import RKNN``: the class of both generations, simulated and on boards."""

import urllib.request  # noqa: F401 - the vendor's loads it, and its examples say `import urllib` alone
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the same class, with signatures that static tools can read
    from engine.api.shown import RKNN
else:
    from engine.api.drop_in.scripted import RKNN

__all__ = ["RKNN"]
