"""ONNX files to graphs."""

from engine.frontends.onnx.load import Loaded, SourceInfo, load_onnx

__all__ = ["Loaded", "SourceInfo", "load_onnx"]
