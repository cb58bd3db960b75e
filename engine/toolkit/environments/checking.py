"""Trying an environment: what is wrong with it is told as one package and one remedy.

Its toolkit is imported in a process of its own.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from engine.base.errors import EngineError, ToolkitError
from engine.base.events import Progress, Reporter
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.toolkit.environments.places import PACKAGES, site_time
from engine.toolkit.environments.probe import Attempt, Package, Probe, probe
from engine.toolkit.environments.registry import Entry, find_any, remember
from engine.toolkit.environments.wheels import all_pins, needed, takes
from engine.wire.vendor import ToolkitEnvironment

TOOLKIT_MODULE = "rknn.api"

MODULES = {
    "numpy": "numpy",
    "protobuf": "google.protobuf",
    "setuptools": "pkg_resources",
    "psutil": "psutil",
    "ruamel-yaml": "ruamel.yaml",
    "tqdm": "tqdm",
    "scipy": "scipy",
    "fast-histogram": "fast_histogram",
    "opencv-python": "cv2",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "torch": "torch",
    "flatbuffers": "flatbuffers",
    "h5py": "h5py",
    "networkx": "networkx",
    "onnxoptimizer": "onnxoptimizer",
    "requests": "requests",
    "tensorflow": "tensorflow",
}
"""Package -> the module that tells whether it works, what others stand on first."""

_PACKAGE_OF = {module.partition(".")[0]: name for name, module in MODULES.items()} | {
    "google": "protobuf",
    "ruamel": "ruamel-yaml",
    "pkg_resources": "setuptools",
}
_SETUPTOOLS = "setuptools<81"
"""setuptools 82 has no pkg_resources any more; 81 warns."""

_NUMPY_SAID = re.compile(
    r"NumPy 1\.x|numpy\.core\.|_ARRAY_API|numpy\.dtype size changed|module 'numpy' has no|"
    r"np\.\w+_? was removed|numpy\.ufunc size"
)
_PROTOBUF_SAID = re.compile(
    r"Descriptors cannot|google\.protobuf|_message|'builder'|runtime_version|GetPrototype"
)
_LIBRARY_SAID = re.compile(r"(lib[\w.+-]+\.so[.\d]*): cannot open shared object file")
_GLIBC_SAID = re.compile(r"version [`'](GLIBC(?:XX)?_[\d.]+)' not found")
_DEBIAN = {
    "libGL.so.1": "libgl1",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgomp.so.1": "libgomp1",
    "libSM.so.6": "libsm6",
    "libXext.so.6": "libxext6",
    "libXrender.so.1": "libxrender1",
    "libstdc++.so.6": "libstdc++6",
}
"""Library -> Debian's package of it."""


def check(name: str | None, reporter: Reporter) -> ToolkitEnvironment:
    """Import the toolkit of an environment, and name the package that keeps it from that.

    Args:
        name: of the environment; None: the default of generation 2.

    Raises:
        ToolkitError: there is none of that name.
        JobCancelledError: the user cancelled.
    """
    environment = find_any(name)
    if environment.state in ("missing", "unfinished"):
        return environment
    return examine(environment, reporter)


def examine(
    environment: ToolkitEnvironment, reporter: Reporter, *, keep: bool = True
) -> ToolkitEnvironment:
    """Try an environment.

    Args:
        keep: whether the registry remembers what came out.

    Returns:
        It with state ``ready`` or ``broken`` and what was found.

    Raises:
        JobCancelledError: the user cancelled.
    """
    site = site_time(Path(environment.folder))
    try:
        seen, findings = look_into(environment.python, reporter)
    except ToolkitError as error:
        seen, findings = None, (Finding.of_error("toolkit-python", environment.name, error),)
    broken = any(one.severity == "error" for one in findings)
    examined = replace(environment, state="broken" if broken else "ready", findings=findings)
    if seen is not None:
        examined = replace(
            examined,
            python_version=seen.version,
            generation=seen.generation or environment.generation,
            version=seen.toolkit or environment.version,
        )
    if keep:
        with contextlib.suppress(EngineError):  # a full disk: what was found is told anyway
            remember(Entry.of(examined, checked=True, ok=not broken, site=site, findings=findings))
    return examined


def look_into(python: str, reporter: Reporter) -> tuple[Probe, tuple[Finding, ...]]:
    """What an interpreter has, and what is wrong with its toolkit.

    Raises:
        ToolkitError: it is no Python 3.6 or later.
        JobCancelledError: the user cancelled.
    """
    seen = probe(python, reporter)
    if seen.generation:
        modules = _modules_to_import(_Case(seen, python))
        reporter.emit(Progress("vendor.check", 0, 1, f"{len(modules)} packages"))
        seen = probe(python, reporter, modules)
    return seen, judge(seen, python)


# ----------------------------------------------------------------------------------------- judging


@dataclass(frozen=True)
class _Case:
    """What every rule looks at: what a probe found, and its interpreter for the remedies."""

    probe: Probe
    python: str

    @cached_property
    def requirements(self) -> list[Requirement]:
        """Those of the toolkit that count there."""
        package = self.probe.packages[PACKAGES[self.probe.generation]]
        return needed(package.requires, self.probe.version, self.probe.machine)

    @cached_property
    def missing(self) -> list[Requirement]:
        """Those of which no package is there."""
        names = self.probe.packages
        # another build of it (-headless, -cpu, -gpu) has the same modules
        return [
            one
            for one in self.requirements
            if one.name not in names and not any(n.startswith(f"{one.name}-") for n in names)
        ]

    @cached_property
    def misfits(self) -> dict[str, tuple[Requirement, Package]]:
        """Packages of another version than the toolkit asks for; not those known to work."""
        return {
            one.name: (one, package)
            for one in self.requirements
            if (package := self.probe.packages.get(one.name)) is not None
            and not takes(one, package.version)
            and package.version.partition("+")[0] != self._pinned(one.name)
        }

    def _pinned(self, name: str) -> str:
        """The version that is known to work; empty where none is."""
        python = ".".join(self.probe.version.split(".")[:2])
        here = (self.probe.toolkit, python)
        suited = (one for one in all_pins() if (one.toolkit, one.python) == here)
        return next((one.all.get(name, "") for one in suited), "")

    def version(self, name: str) -> str:
        """Of a package as it is installed; empty where it is not."""
        package = self.probe.packages.get(name)
        return package.version if package else ""

    def exactly(self, name: str) -> str:
        """The requirement of a package as it is installed."""
        version = self.version(name).partition("+")[0]
        return f"{name}=={version}" if version else name

    def pip(self, *requirements: str) -> str:
        """The command that installs them there."""
        return shlex.join([self.python, "-m", "pip", "install", *requirements])

    def pip_suited(self, wanted: Requirement) -> str:
        """The command that installs a version of a package that fits."""
        version = self._pinned(wanted.name)
        return self.pip(f"{wanted.name}=={version}" if version else _text(wanted))


def _text(requirement: Requirement) -> str:
    return f"{requirement.name}{requirement.specifier}"


def _modules_to_import(case: _Case) -> list[str]:
    """What has to be imported to tell which package is bad; the toolkit last."""
    names = {one.name for one in case.requirements}
    # not among the toolkit's requirements, and yet it asks for pkg_resources
    if case.probe.generation == 2 or "setuptools" in case.probe.packages:
        names.add("setuptools")
    return [module for name, module in MODULES.items() if name in names] + [TOOLKIT_MODULE]


def judge(probe: Probe, python: str) -> tuple[Finding, ...]:
    """What is wrong, the cause of all first; empty where the toolkit can be used.

    Args:
        probe: with the imports of the modules that the toolkit stands on.
        python: the interpreter, for the commands of the remedies.
    """
    case = _Case(probe, python)
    if not probe.generation:
        return (
            _finding(
                PACKAGES[2],
                f"There is neither rknn-toolkit2 nor rknn-toolkit in {probe.prefix}.",
                "It is another environment, or the toolkit was installed elsewhere.",
                "Install the vendor's wheel there, or name another interpreter.",
            ),
        )
    if failed := next((one for one in probe.attempts if not one.ok), None):
        return (_system_library(case, failed) or _blame(case, failed),)
    if case.missing:
        return (_absent(case, case.missing[0]),)
    return tuple(_notice(case, *one) for one in case.misfits.values())


def _blame(case: _Case, failed: Attempt) -> Finding:
    """The one package behind an import that failed."""
    missing, misfits = case.missing, case.misfits
    top = failed.missing.partition(".")[0]
    if top:
        package = _PACKAGE_OF.get(top, canonicalize_name(top))
        if package == "setuptools" and case.version("setuptools"):
            return _finding(
                "setuptools",
                f"setuptools {case.version('setuptools')} has no pkg_resources, which the toolkit "
                "imports.",
                "It was taken out of setuptools 82.",
                f"Run: {case.pip(_SETUPTOOLS)}",
            )
        if package not in case.probe.packages and top != "rknn":
            requirement = next((one for one in missing if one.name == package), None)
            return _absent(case, requirement or Requirement(package))
    # what it printed counts too: numpy tells there who was built for which version of it
    said = f"{failed.error}\n{case.probe.said}"
    owner = _PACKAGE_OF.get(failed.module.partition(".")[0], "")
    for name, pattern in (("numpy", _NUMPY_SAID), ("protobuf", _PROTOBUF_SAID)):
        if name in misfits and (pattern.search(said) or owner == name):
            return _misfit(case, *misfits[name], failed)
    if owner in misfits:
        return _misfit(case, *misfits[owner], failed)
    if failed.module == TOOLKIT_MODULE and missing:
        return _absent(case, missing[0])
    if failed.module == TOOLKIT_MODULE and len(misfits) == 1:
        return _misfit(case, *next(iter(misfits.values())), failed)
    return _unloadable(case, failed, owner)


def _system_library(case: _Case, failed: Attempt) -> Finding | None:
    """A library of the system that is not there, or too old."""
    owner = _PACKAGE_OF.get(failed.module.partition(".")[0], PACKAGES[2])
    if match := _GLIBC_SAID.search(failed.error):
        version = f"{owner} {case.version(owner)}".strip()
        return _finding(
            owner,
            f"{version} needs {match[1]}, and this system has {case.probe.libc or 'an older one'}.",
            "The package is made for a newer system.",
            f"Use a newer system, or an older {owner} in that environment.",
        )
    if match := _LIBRARY_SAID.search(failed.error):
        library = match[1]
        if library not in _DEBIAN:  # one of a package, such as those of CUDA
            return _finding(
                owner,
                f"{owner} {case.version(owner)} cannot be loaded: {library} is missing.",
                "Its packages are not all installed, or were removed.",
                f"Run: {case.pip('--force-reinstall', case.exactly(owner))}",
            )
        remedy = f"Install it: apt-get install {_DEBIAN[library]}"
        if owner == "opencv-python":
            headless = case.exactly(owner).replace("opencv-python", "opencv-python-headless")
            remedy += f". Or take the build that needs no screen: {case.pip(headless)}"
        return _finding(
            owner,
            f"{owner} {case.version(owner)} cannot be loaded: this system has no {library}.",
            "It is a library of the system, which pip does not install.",
            remedy,
        )
    return None


def _absent(case: _Case, requirement: Requirement) -> Finding:
    return _finding(
        requirement.name,
        f"{requirement.name} is missing in {case.probe.prefix}.",
        "The toolkit needs it; it was not installed, or was removed.",
        f"Run: {case.pip_suited(requirement)}",
    )


def _misfit(case: _Case, requirement: Requirement, package: Package, failed: Attempt) -> Finding:
    return _finding(
        requirement.name,
        f"{package.name} {package.version} does not fit: the toolkit needs {_text(requirement)}, "
        f"and {failed.module} cannot be imported.",
        "Another package was installed later and brought this version.",
        f"Run: {case.pip_suited(requirement)}",
    )


def _unloadable(case: _Case, failed: Attempt, owner: str) -> Finding:
    name = owner or PACKAGES[case.probe.generation]
    version = case.version(name) or case.probe.toolkit
    why = f"it {failed.ended}" if failed.ended else failed.error
    return _finding(
        name,
        f"{name} {version} cannot be imported: {sanitize(why, 400)}",
        "The package is damaged or made for another system."
        if not failed.ended
        else "It uses instructions that this processor does not have, or is damaged.",
        f"Run: {case.pip('--force-reinstall', '--no-deps', case.exactly(name))}",
    )


def _notice(case: _Case, requirement: Requirement, package: Package) -> Finding:
    """A version that the toolkit does not ask for, and with which it can be imported."""
    return Finding(
        "toolkit-version",
        "warning",
        requirement.name,
        f"{package.name} {package.version} is not the version that the toolkit asks for "
        f"({_text(requirement)}).",
        "The toolkit can be imported with it; what it computes was not tried.",
        f"To be sure run: {case.pip_suited(requirement)}",
    )


def _finding(package: str, what: str, cause: str, remedy: str) -> Finding:
    return Finding("toolkit-package", "error", package, what, cause, remedy)
