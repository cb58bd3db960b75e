"""An emulated board for machines without one: an adb daemon, files, programs, a runtime library.

What a program of the host sees comes from here; results are those of the engine's simulator.
"""

__version__ = "0.1.0"
"""That of the engine that it stands on: both are released together."""
