"""``from rknn.api.custom_op import get_node_attr``: for classes of custom operators."""

from engine.api.custom_op import get_node_attr

__all__ = ["get_node_attr"]
