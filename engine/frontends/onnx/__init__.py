"""ONNX files to graphs, and a quick look at them."""

from engine.frontends.loaded import Loaded, SourceInfo
from engine.frontends.onnx.inspect import inspect_onnx, look_at
from engine.frontends.onnx.load import load_onnx
from engine.frontends.onnx.look import SourceLook

__all__ = [
    "Loaded",
    "SourceInfo",
    "SourceLook",
    "inspect_onnx",
    "load_onnx",
    "look_at",
]
