"""TFLite files to graphs, by a reader of our own over the schema: no TensorFlow is needed."""

from engine.frontends.tflite.load import inspect, load

__all__ = ["inspect", "load"]
