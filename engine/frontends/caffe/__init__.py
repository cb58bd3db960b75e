"""Caffe models: own readers of prototxt and caffemodel, and a converter for each layer type."""

from engine.frontends.caffe.inspect import inspect
from engine.frontends.caffe.load import load

__all__ = ["inspect", "load"]
