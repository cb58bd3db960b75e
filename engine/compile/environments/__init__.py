"""Environments of the vendor's toolkits: found, made, adopted, checked, removed."""

from engine.compile.environments.known import find, known
from engine.compile.environments.places import held

__all__ = ["find", "held", "known"]
