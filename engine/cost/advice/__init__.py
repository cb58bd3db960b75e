"""Ways to make a model faster on a chip, each with the gain that the time model gives for it.

Sources are the manuals' tips on acceleration. A gain is the difference of two estimates: of the
layers concerned as they are, and as they would be.
"""

from engine.cost.advice.advise import advise
from engine.cost.advice.changes import TimeOf

__all__ = ["TimeOf", "advise"]
