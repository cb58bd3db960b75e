"""TFLite files to graphs, by a reader of our own over the schema: no TensorFlow is needed."""

from engine.frontends.tflite.load import load
from engine.frontends.tflite.look import look

__all__ = ["load", "look"]
