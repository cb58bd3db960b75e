"""Environments of the vendor's toolkits: found, made, adopted, checked, removed."""

from engine.toolkit.environments.adopting import adopt, make_default, remove
from engine.toolkit.environments.checking import check
from engine.toolkit.environments.making import install
from engine.toolkit.environments.places import held, using
from engine.toolkit.environments.programs import clean_environment
from engine.toolkit.environments.registry import find, known

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
