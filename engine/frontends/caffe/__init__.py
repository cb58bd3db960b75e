"""Caffe models: own readers of prototxt and caffemodel, and a converter for each layer type."""

from engine.frontends.caffe.load import inspect, load

__all__ = ["inspect", "load"]
