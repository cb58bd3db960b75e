"""Environments of the vendor's toolkits: found, made, adopted, checked, removed."""

from engine.compile.environments.adopting import adopt, make_default, remove
from engine.compile.environments.checking import check
from engine.compile.environments.making import install
from engine.compile.environments.places import held, using
from engine.compile.environments.programs import clean_environment
from engine.compile.environments.registry import find, known

__all__ = [
    "adopt",
    "check",
    "clean_environment",
    "find",
    "held",
    "install",
    "known",
    "make_default",
    "remove",
    "using",
]
