"""Darknet: networks of YOLOv2 to v4 and their relatives, by our own readers."""

from engine.frontends.darknet.load import inspect, load

__all__ = ["inspect", "load"]
