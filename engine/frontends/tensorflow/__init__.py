"""Frozen TensorFlow graphs (GraphDef): looked at by a reader of ours, converted by tf2onnx."""

from engine.frontends.tensorflow.load import inspect, load

__all__ = ["inspect", "load"]
