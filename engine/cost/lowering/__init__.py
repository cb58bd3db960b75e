"""The vendor's compiler's rewrites, mirrored: a graph becomes the layers of its printed table."""

from engine.cost.lowering.lower import lower
from engine.cost.lowering.read import read_graph

__all__ = ["lower", "read_graph"]
