"""Frozen TensorFlow graphs (GraphDef): looked at by a reader of ours, converted by tf2onnx."""

from engine.frontends.tensorflow.load import load
from engine.frontends.tensorflow.look import look

__all__ = ["load", "look"]
