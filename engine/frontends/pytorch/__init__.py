"""TorchScript files to graphs, and a quick look at them; torch itself runs in a child process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.frontends.pytorch.error_messages import explain_file
from engine.frontends.pytorch.inspect import inspect

if TYPE_CHECKING:
    from engine.base.events import Reporter
    from engine.frontends.loaded import Loaded
    from engine.frontends.source import SourceModel

__all__ = ["explain_file", "inspect", "load"]


def load(source: SourceModel, reporter: Reporter) -> Loaded:
    """Convert a TorchScript file, as :func:`engine.frontends.pytorch.convert.convert` says."""
    from engine.frontends.pytorch.convert import convert  # brings ONNX, which a look does not need

    return convert(source, reporter)
