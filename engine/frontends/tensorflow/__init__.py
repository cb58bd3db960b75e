"""Frozen TensorFlow graphs (GraphDef): looked at by a reader of ours, converted by tf2onnx."""

from engine.frontends.tensorflow.inspect import inspect
from engine.frontends.tensorflow.load import load

__all__ = ["inspect", "load"]
