"""ONNX files to graphs, and a quick look at them."""

from engine.frontends.onnx.load import Loaded, SourceInfo, load_onnx

__all__ = ["Loaded", "SourceInfo", "load_onnx"]
