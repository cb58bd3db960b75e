"""Answers and jobs of the worker about the environments of the vendor's toolkits."""

from __future__ import annotations

from engine.base.events import Reporter, StageStarted
from engine.services.registry import answers, runs
from engine.toolkit import environments
from engine.wire.vendor import (
    VENDOR_ADOPT,
    VENDOR_CHECK,
    VENDOR_DEFAULT,
    VENDOR_INSTALL,
    VENDOR_KNOWN,
    VENDOR_REMOVE,
    ToolkitAdoptParams,
    ToolkitEnvironment,
    ToolkitInstallParams,
    ToolkitName,
    ToolkitRemoved,
    Toolkits,
    ToolkitsParams,
)


@answers(VENDOR_KNOWN)
def known(params: ToolkitsParams) -> Toolkits:
    """The environments that are known; nothing is run to find them."""
    toolkits = environments.known(sizes=params.sizes)
    generation = params.generation
    return Toolkits(tuple(one for one in toolkits if generation in (None, one.generation)))


@answers(VENDOR_DEFAULT)
def default(params: ToolkitName) -> ToolkitEnvironment:
    """Have an environment used where none is named."""
    return environments.make_default(params.name)


@runs(VENDOR_INSTALL)
def install(params: ToolkitInstallParams, reporter: Reporter) -> ToolkitEnvironment:
    """Make an environment of toolkit 2."""
    return environments.install(params, reporter)


@runs(VENDOR_ADOPT)
def adopt(params: ToolkitAdoptParams, reporter: Reporter) -> ToolkitEnvironment:
    """Take in an environment that the user made."""
    reporter.emit(StageStarted("vendor.check", "Importing the toolkit", 0, 1))
    return environments.adopt(params, reporter)


@runs(VENDOR_CHECK)
def check(params: ToolkitName, reporter: Reporter) -> ToolkitEnvironment:
    """Import the toolkit of an environment."""
    reporter.emit(StageStarted("vendor.check", "Importing the toolkit", 0, 1))
    return environments.check(params.name, reporter)


@runs(VENDOR_REMOVE)
def remove(params: ToolkitName, reporter: Reporter) -> ToolkitRemoved:
    """Remove or forget an environment."""
    return environments.remove(params, reporter)
