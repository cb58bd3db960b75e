"""TFLite files to graphs, by a reader of our own over the schema: no TensorFlow is needed."""

from engine.frontends.tflite.inspect import inspect
from engine.frontends.tflite.load import load

__all__ = ["inspect", "load"]
