"""``from rknn.utils import onnx_edit``: other shapes for a model's inputs and outputs."""

from engine.api.onnx_edit import onnx_edit

__all__ = ["onnx_edit"]
