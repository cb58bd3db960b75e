"""What is wrong with an environment, as one package and one remedy, from what a probe found."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.compile.environments.pins import all_pins
from engine.compile.environments.places import PACKAGES
from engine.compile.environments.probe import Attempt, Package, Probe
from engine.compile.environments.requirements import Requirement, normal_name, parse

__all__ = ["TOOLKIT_MODULE", "generation_of", "judge", "modules_to_import"]

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


def generation_of(probe: Probe) -> tuple[int, str]:
    """Generation and version of the toolkit there; (0, "") where there is none."""
    for generation, name in PACKAGES.items():
        if found := probe.packages.get(name):
            return generation, found.version
    return 0, ""


def modules_to_import(probe: Probe) -> list[str]:
    """What has to be imported to tell which package is bad; the toolkit last."""
    generation, _ = generation_of(probe)
    if not generation:
        return []
    needed = {one.name for one in _requirements(probe)}
    # not among the toolkit's requirements, and yet it asks for pkg_resources
    needed |= {"setuptools"} & probe.packages.keys() if generation == 1 else {"setuptools"}
    return [module for name, module in MODULES.items() if name in needed] + [TOOLKIT_MODULE]


@dataclass(frozen=True)
class _Case:
    """What every rule looks at."""

    probe: Probe
    python: str

    def pip(self, *requirements: str) -> str:
        """The command that installs them there."""
        return shlex.join([self.python, "-m", "pip", "install", *requirements])

    def version(self, name: str) -> str:
        found = self.probe.packages.get(name)
        return found.version if found else ""


def judge(probe: Probe, python: str) -> tuple[Finding, ...]:
    """What is wrong, the cause of all first; empty where the toolkit can be used.

    Args:
        probe: with the imports of :func:`modules_to_import`.
        python: the interpreter, for the commands of the remedies.
    """
    case = _Case(probe, python)
    if not generation_of(probe)[0]:
        return (
            _finding(
                PACKAGES[2],
                f"There is neither rknn-toolkit2 nor rknn-toolkit in {probe.prefix}.",
                "It is another environment, or the toolkit was installed elsewhere.",
                "Install the vendor's wheel there, or name another interpreter.",
            ),
        )
    misfits = _misfits(probe)
    failed = [one for one in probe.attempts if not one.ok]
    missing = _missing_packages(probe)
    if not failed and not missing:
        return tuple(_notice(case, wanted, found) for wanted, found in misfits)
    if failed:
        return (_blame(case, failed[0], misfits, missing),)
    return (_absent(case, missing[0]),)


def _blame(
    case: _Case,
    failed: Attempt,
    misfits: Sequence[tuple[Requirement, Package]],
    missing: Sequence[Requirement],
) -> Finding:
    """The one package behind an import that failed."""
    if found := _system_library(case, failed):
        return found
    top = failed.missing.partition(".")[0]
    if top:
        package = _PACKAGE_OF.get(top, normal_name(top))
        if package == "setuptools" and case.version("setuptools"):
            return _finding(
                "setuptools",
                f"setuptools {case.version('setuptools')} has no pkg_resources, which the toolkit "
                "imports.",
                "It was taken out of setuptools 82.",
                f"Run: {case.pip(_SETUPTOOLS)}",
            )
        if package not in case.probe.packages and top != "rknn":
            wanted = next((one for one in missing if one.name == package), Requirement(package))
            return _absent(case, wanted)
    by_name = {wanted.name: (wanted, found) for wanted, found in misfits}
    # what it printed counts too: numpy tells there who was built for which version of it
    said = f"{failed.error}\n{case.probe.said}"
    owner = _PACKAGE_OF.get(failed.module.partition(".")[0], "")
    for name, pattern in (("numpy", _NUMPY_SAID), ("protobuf", _PROTOBUF_SAID)):
        if name in by_name and (pattern.search(said) or owner == name):
            return _misfit(case, *by_name[name], failed)
    if owner in by_name:
        return _misfit(case, *by_name[owner], failed)
    if failed.module == TOOLKIT_MODULE and missing:
        return _absent(case, missing[0])
    if failed.module == TOOLKIT_MODULE and len(by_name) == 1:
        return _misfit(case, *next(iter(by_name.values())), failed)
    return _unloadable(case, failed, owner)


def _system_library(case: _Case, failed: Attempt) -> Finding | None:
    """A library of the system that is not there, or too old."""
    owner = _PACKAGE_OF.get(failed.module.partition(".")[0], PACKAGES[2])
    if found := _GLIBC_SAID.search(failed.error):
        version = f"{owner} {case.version(owner)}".strip()
        return _finding(
            owner,
            f"{version} needs {found[1]}, and this system has {case.probe.libc or 'an older one'}.",
            "The package is made for a newer system.",
            f"Use a newer system, or an older {owner} in that environment.",
        )
    if found := _LIBRARY_SAID.search(failed.error):
        library = found[1]
        if library not in _DEBIAN:  # one of a package, such as those of CUDA
            return _finding(
                owner,
                f"{owner} {case.version(owner)} cannot be loaded: {library} is missing.",
                "Its packages are not all installed, or were removed.",
                f"Run: {case.pip('--force-reinstall', _exactly(case, owner))}",
            )
        remedy = f"Install it: apt-get install {_DEBIAN[library]}"
        if owner == "opencv-python":
            headless = _exactly(case, owner).replace("opencv-python", "opencv-python-headless")
            remedy += f". Or take the build that needs no screen: {case.pip(headless)}"
        return _finding(
            owner,
            f"{owner} {case.version(owner)} cannot be loaded: this system has no {library}.",
            "It is a library of the system, which pip does not install.",
            remedy,
        )
    return None


def _absent(case: _Case, wanted: Requirement) -> Finding:
    version = _pinned(case, wanted.name)
    return _finding(
        wanted.name,
        f"{wanted.name} is missing in {case.probe.prefix}.",
        "The toolkit needs it; it was not installed, or was removed.",
        f"Run: {case.pip(f'{wanted.name}=={version}' if version else str(wanted))}",
    )


def _misfit(case: _Case, wanted: Requirement, found: Package, failed: Attempt) -> Finding:
    version = _pinned(case, wanted.name)
    return _finding(
        wanted.name,
        f"{found.name} {found.version} does not fit: the toolkit needs {wanted}, and "
        f"{failed.module} cannot be imported.",
        "Another package was installed later and brought this version.",
        f"Run: {case.pip(f'{wanted.name}=={version}' if version else str(wanted))}",
    )


def _unloadable(case: _Case, failed: Attempt, owner: str) -> Finding:
    generation, toolkit = generation_of(case.probe)
    name = owner or PACKAGES[generation]
    version = case.version(name) or toolkit
    why = f"it {failed.ended}" if failed.ended else failed.error
    return _finding(
        name,
        f"{name} {version} cannot be imported: {sanitize(why, 400)}",
        "The package is damaged or made for another system."
        if not failed.ended
        else "It uses instructions that this processor does not have, or is damaged.",
        f"Run: {case.pip('--force-reinstall', '--no-deps', _exactly(case, name))}",
    )


def _notice(case: _Case, wanted: Requirement, found: Package) -> Finding:
    """A version that the toolkit does not ask for, and with which it can be imported."""
    version = _pinned(case, wanted.name)
    return Finding(
        "toolkit-version",
        "warning",
        wanted.name,
        f"{found.name} {found.version} is not the version that the toolkit asks for ({wanted}).",
        "The toolkit can be imported with it; what it computes was not tried.",
        f"To be sure run: {case.pip(f'{wanted.name}=={version}' if version else str(wanted))}",
    )


def _finding(package: str, what: str, cause: str, remedy: str) -> Finding:
    return Finding("toolkit-package", "error", package, what, cause, remedy)


def _exactly(case: _Case, name: str) -> str:
    version = case.version(name).partition("+")[0]
    return f"{name}=={version}" if version else name


def _pinned(case: _Case, name: str) -> str:
    """The version that is known to work; empty where none is."""
    python = ".".join(case.probe.version.split(".")[:2])
    _, toolkit = generation_of(case.probe)
    for pins in all_pins():
        if (pins.toolkit, pins.python) == (toolkit, python):
            return {normal_name(one): version for one, version in pins.all.items()}.get(name, "")
    return ""


def _requirements(probe: Probe) -> list[Requirement]:
    """Those of the toolkit that count there."""
    generation, _ = generation_of(probe)
    facts = {
        "python_version": ".".join(probe.version.split(".")[:2]),
        "python_full_version": probe.version,
        "platform_system": "Linux",
        "platform_machine": probe.machine,
        "sys_platform": "linux",
    }
    parsed = map(parse, probe.packages[PACKAGES[generation]].requires)
    return [one for one in parsed if one is not None and one.applies(facts)]


def _missing_packages(probe: Probe) -> list[Requirement]:
    return [
        one
        for one in _requirements(probe)
        if one.name not in probe.packages
        # another build of it (-headless, -cpu, -gpu) has the same modules
        and not any(name.startswith(f"{one.name}-") for name in probe.packages)
    ]


def _misfits(probe: Probe) -> list[tuple[Requirement, Package]]:
    """Packages of another version than the toolkit asks for; not those that are known to work."""
    found = []
    case = _Case(probe, "")
    for wanted in _requirements(probe):
        package = probe.packages.get(wanted.name)
        if package is None or wanted.takes(package.version):
            continue
        if package.version.partition("+")[0] != _pinned(case, wanted.name):
            found.append((wanted, package))
    return found
