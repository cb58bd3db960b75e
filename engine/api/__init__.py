"""The vendor's ``RKNN`` class, both generations, over the same pipeline as every front end."""

from engine.api.rknn import RKNN

__all__ = ["RKNN"]
