"""``from rknn.api import RKNN``: the class of both generations, simulated and on boards."""

import urllib.request  # noqa: F401 - the vendor's loads it, and its examples say `import urllib` alone

from engine.api.drop_in.scripted import RKNN

__all__ = ["RKNN"]
