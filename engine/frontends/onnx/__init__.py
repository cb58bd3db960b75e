"""ONNX files to graphs, and a quick look at them."""

from engine.frontends.loaded import Loaded, SourceInfo
from engine.frontends.onnx.details import SourceLook
from engine.frontends.onnx.inspect import inspect_onnx, look_at
from engine.frontends.onnx.loading import load, load_onnx
from engine.frontends.onnx.summary import look

__all__ = [
    "Loaded",
    "SourceInfo",
    "SourceLook",
    "inspect_onnx",
    "load",
    "load_onnx",
    "look",
    "look_at",
]
