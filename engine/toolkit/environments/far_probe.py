"""What an environment has and whether it can be imported: runs inside it, standard library only.

One file in the language of Python 3.6, as generation 1's toolkit runs on no newer one. Its first
argument is a file for all that imported modules print, the second the ``__init__.py`` of
:mod:`engine.base.confine`; the further ones are modules to import, which write in the folder of
that file only. It writes JSON lines: first ``{"facts": {...}}``, then for each ``{"begin":
MODULE}`` and ``{"module": MODULE, "error": TEXT or null, "missing": MODULE or null}``. A line that
does not come tells that the import ended the process.
"""

import email.parser
import importlib
import json
import os
import platform
import sys
import traceback
from typing import Any, Dict, List, TextIO

LIMIT = 1 << 20


def distributions() -> "Dict[str, Dict[str, Any]]":
    """Name -> version and requirements of every package on the path."""
    packages = {}  # type: Dict[str, Dict[str, Any]]
    for folder in sys.path:
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in entries:
            if not entry.endswith((".dist-info", ".egg-info")):
                continue
            path = os.path.join(folder, entry)
            name = "METADATA" if entry.endswith(".dist-info") else "PKG-INFO"
            text = read(os.path.join(path, name) if os.path.isdir(path) else path)
            head = email.parser.HeaderParser().parsestr(text)
            requires = list(head.get_all("Requires-Dist") or [])
            if not requires:
                requires = old_requirements(read(os.path.join(path, "requires.txt")))
            if head["Name"] and head["Name"].lower() not in packages:
                version = head["Version"] or ""
                packages[head["Name"].lower()] = {
                    "name": str(head["Name"]),
                    "version": str(version),
                    "requires": [str(one) for one in requires],
                }
    return packages


def old_requirements(text: str) -> "List[str]":
    """Those of ``requires.txt``, up to its first section of an extra."""
    lines = []
    for line in text.splitlines():
        if line.startswith("["):
            break
        if line.strip():
            lines.append(line.strip())
    return lines


def read(path: str) -> str:
    """A small file; empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(LIMIT)
    except OSError:
        return ""


def facts() -> "Dict[str, Any]":
    """What this Python is."""
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "executable": sys.executable,
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "machine": platform.machine(),
        "bits": 64 if sys.maxsize > 2**32 else 32,
        "libc": list(platform.libc_ver()),
        "distributions": distributions(),
    }


def tell(answers: TextIO, message: "Dict[str, Any]") -> None:
    """One line."""
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def attempt(module: str) -> "Dict[str, Any]":
    """Import a module."""
    try:
        importlib.import_module(module)
    except BaseException as error:  # noqa: BLE001 - whatever it raises is the answer
        traceback.print_exc()
        sys.stderr.flush()
        text = "{}: {}".format(type(error).__name__, error)
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        return {"module": module, "error": text[:4000], "missing": missing}
    return {"module": module, "error": None, "missing": None}


def confine(package: str, folder: str) -> None:
    """Let this process write in a folder only, as a toolkit that is asked."""
    from importlib.util import module_from_spec, spec_from_file_location

    places = [os.path.dirname(package)]
    spec = spec_from_file_location("confine", package, submodule_search_locations=places)
    module = module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules["confine"] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    module.confine_toolkit([folder], [], [], False)


def main() -> None:
    """Tell what there is, then import one after the other."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    tell(answers, {"facts": facts()})
    if sys.argv[3:]:
        confine(sys.argv[2], os.path.dirname(os.path.abspath(sys.argv[1])))
    for module in sys.argv[3:]:
        tell(answers, {"begin": module})
        tell(answers, attempt(module))
    # threads and exit handlers of what was imported do not count
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
