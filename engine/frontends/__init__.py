"""From the files of a framework to a graph; each frontend is imported when it is needed."""

from engine.frontends.sniff import Recognised, sniff

__all__ = ["Recognised", "sniff"]
