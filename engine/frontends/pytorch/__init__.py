"""TorchScript files to graphs, and a quick look at them; torch itself runs in a child process."""

from engine.frontends.pytorch.explain import explain
from engine.frontends.pytorch.load import load
from engine.frontends.pytorch.look import look

__all__ = ["explain", "load", "look"]
