"""ONNX files to graphs, and a quick look at them."""

from engine.frontends.onnx.details import SourceInspection
from engine.frontends.onnx.inspect import inspect, inspect_file, inspect_onnx
from engine.frontends.onnx.loading import load, load_onnx

__all__ = ["SourceInspection", "inspect", "inspect_file", "inspect_onnx", "load", "load_onnx"]
