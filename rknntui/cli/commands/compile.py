"""``rknntui compile``: Compile a build for chips with the vendor's toolkit."""

from __future__ import annotations

from engine.wire.compile import COMPILE, CompiledModels
from rknntui.cli.verb import Printed, verb


@verb(COMPILE, limits=("cpu", "memory", "under"))
def command(found: CompiledModels) -> Printed:
    """Compile a build into a vendor .rknn for each chip, with provenance beside it.

    The compiler's own table of layers, cycles and memory stands beside our estimate. Its simulator
    runs one sample; where it computes something else than the build, no file is written. A chip
    that fails does not end the others; the exit code then is that of its error.
    """
    return Printed(code=max((one.exit_code for one in found.chips), default=0))
