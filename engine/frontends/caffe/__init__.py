"""Caffe models: own readers of prototxt and caffemodel, and a converter for each layer type."""

from engine.frontends.caffe.load import load
from engine.frontends.caffe.look import look

__all__ = ["load", "look"]
