"""``from rknnlite.api import RKNNLite``: compiled models on the board that the script runs on."""

from engine.api.lite import RKNNLite

__all__ = ["RKNNLite"]
