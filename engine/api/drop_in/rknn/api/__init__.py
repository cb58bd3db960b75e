"""``from rknn.api import RKNN``: the class of both generations, simulated and on boards."""

from engine.api.drop_in.scripted import RKNN

__all__ = ["RKNN"]
