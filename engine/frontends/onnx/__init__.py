"""ONNX files to graphs, and a quick look at them."""

from engine.frontends.onnx.inspect import inspect_onnx, source_graph
from engine.frontends.onnx.load import Loaded, SourceInfo, load_onnx

__all__ = ["Loaded", "SourceInfo", "inspect_onnx", "load_onnx", "source_graph"]
