"""MXNet: symbols of 0.x to 1.9 with their parameters, by our own readers."""

from engine.frontends.mxnet.load import inspect, load

__all__ = ["inspect", "load"]
