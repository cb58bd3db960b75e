#!/usr/bin/env python3
"""Make the Python environment of the vendor's toolkit (rknn-toolkit2 2.3.2), or find it made.

Usage: python3 scripts/make_vendor_environment.py [--check] [--folder DIR] [--python PY]
       [--torch-index URL]

Prints the environment's interpreter on stdout; progress and errors go to stderr. Exit codes: 0 it
is there; 1 it could not be made, with the reason; 3 (--check) it is not there.

The folder is --folder, else RKNNTUI_VENDOR, else `rknntui/vendor` in the user's cache folder. It
takes 1.5 GB with the CPU build of torch and several GB with the CUDA build, which is what PyPI has;
with `--torch-index https://download.pytorch.org/whl/cpu` pip takes the CPU build. The versions are
those of .ci/vendor.txt. A stamp is written when everything is installed and the toolkit can be
imported: what was interrupted is made again, what is complete is left alone. Needs only the
standard library.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

PINS = Path(__file__).resolve().parents[1] / ".ci" / "vendor.txt"
VERSION = (3, 11)
STAMP = ".rknntui-vendor"
UNFINISHED = ".rknntui-unfinished"
SECOND_STEP = "# without dependencies"

# What a test of the installation says, and what the toolkit may print goes elsewhere.
PROBE = "import rknn.api, onnxruntime, torch; print(onnxruntime.__version__)"


class SetupError(Exception):
    """What went wrong and what to do, in one or two sentences."""


def say(text: str) -> None:
    """One line of narration."""
    print(f"rknntui: {text}", file=sys.stderr, flush=True)


def default_folder() -> Path:
    """RKNNTUI_VENDOR, or a folder in the user's cache."""
    given = os.environ.get("RKNNTUI_VENDOR")
    if given:
        return Path(given).absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "rknntui" / "vendor"


def pins() -> tuple[list[str], list[str]]:
    """The requirements of the two steps."""
    first, _, second = PINS.read_text(encoding="utf-8").partition(SECOND_STEP)
    steps = [
        [line for line in part.splitlines() if "==" in line and not line.startswith("#")]
        for part in (first, second)
    ]
    return steps[0], steps[1]


def key() -> str:
    """What a finished environment was made from."""
    text = "\n".join([".".join(map(str, VERSION)), *pins()[0], *pins()[1]])
    return hashlib.sha256(text.encode()).hexdigest()


def is_ready(folder: Path) -> bool:
    """Whether a folder holds the finished environment of these versions."""
    stamp = folder / STAMP
    return (
        stamp.is_file()
        and stamp.read_text(encoding="utf-8").strip() == key()
        and not (folder / UNFINISHED).exists()
        and (folder / "bin" / "python").exists()
    )


# ------------------------------------------------------------------------------------ which Python


def fits(python: str) -> bool:
    """Whether a Python is 3.11 and can make environments."""
    test = f"import ensurepip, sys; sys.exit(sys.version_info[:2] != {VERSION})"
    with contextlib.suppress(OSError):
        return (
            subprocess.run([python, "-c", test], capture_output=True, check=False).returncode == 0
        )
    return False


def candidates() -> Iterator[str]:
    """Interpreters that may fit, in the order in which they are tried."""
    yield sys.executable
    yield "python3.11"
    root = Path(os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv")))
    yield from (str(path) for path in sorted(root.glob("versions/3.11.*/bin/python")))
    for uv in ("uv", str(Path.home() / ".local" / "bin" / "uv")):
        with contextlib.suppress(OSError):
            found = subprocess.run(
                [uv, "python", "find", "3.11"], capture_output=True, text=True, check=False
            )
            if found.returncode == 0:
                yield found.stdout.strip()


def find_python(given: str | None) -> str:
    """A Python that fits.

    Raises:
        SetupError: there is none.
    """
    for python in [given] if given else candidates():
        if fits(python):
            return python
    which = given or "A Python 3.11"
    raise SetupError(
        f"{which} is not to be had or cannot make environments, and the versions of the vendor's "
        "toolkit are for that one. Install python3.11 with its venv module (or run: uv python "
        "install 3.11) and name it with --python."
    )


# ----------------------------------------------------------------------------------------- making


def run(command: Sequence[str], log: Path, what: str) -> None:
    """Run a command with its output in the log.

    Raises:
        SetupError: it failed; the end of the log is shown first.
    """
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "ORT_DISABLE_TELEMETRY": "1"}
    with log.open("ab") as stream:
        done = subprocess.run(
            command, stdout=stream, stderr=subprocess.STDOUT, env=environment, check=False
        )
    if done.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(lines[-15:]), file=sys.stderr)
        raise SetupError(f"{what} failed; the end of {log} is above.")


def clear(folder: Path) -> None:
    """Empty the folder, if it is empty already or was made by this program.

    Raises:
        SetupError: it holds something else.
    """
    ours = (folder / STAMP).exists() or (folder / UNFINISHED).exists()
    if folder.exists() and any(folder.iterdir()) and not ours:
        raise SetupError(
            f"{folder} holds something else. Name an empty folder with --folder or RKNNTUI_VENDOR."
        )
    # the mark goes last and comes first: a folder that is half deleted stays ours
    if folder.exists():
        (folder / UNFINISHED).touch()
        for entry in folder.iterdir():
            if entry.name == UNFINISHED:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / UNFINISHED).touch()


def make(folder: Path, python: str, torch_index: str | None) -> None:
    """Make the environment from nothing; the stamp is the last thing written."""
    begun = time.monotonic()
    clear(folder)
    log, inner = folder / "install.log", str(folder / "bin" / "python")
    first, second = pins()
    say(f"making {folder} with {python}")
    run([python, "-m", "venv", str(folder)], log, "Making the environment")
    say(f"installing {len(first)} packages, 1.5 GB with the CPU build of torch")
    index = ["--extra-index-url", torch_index] if torch_index else []
    pip = [inner, "-m", "pip", "install", "--no-input"]
    run([*pip, *index, *first], log, "Installing what the toolkit needs")
    say(f"installing {' and '.join(second)}")
    run([*pip, "--no-deps", *second], log, "Installing the toolkit")
    run([inner, "-c", PROBE], log, "Importing the toolkit")
    half = folder / f"{STAMP}.new"
    half.write_text(key() + "\n", encoding="utf-8")
    (folder / UNFINISHED).unlink()
    half.replace(folder / STAMP)
    say(f"ready after {time.monotonic() - begun:.0f} s")


def ensure(folder: Path, python: str | None, torch_index: str | None) -> None:
    """Make the environment unless it is there; one process at a time."""
    if is_ready(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another program that makes {folder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_ready(folder):
            make(folder, find_python(python), torch_index)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="make nothing")
    parser.add_argument("--folder", type=Path, help="where; default RKNNTUI_VENDOR or the cache")
    parser.add_argument("--python", help="a Python 3.11")
    parser.add_argument("--torch-index", help="index with the CPU build of torch")
    args = parser.parse_args()
    folder = args.folder.absolute() if args.folder else default_folder()
    try:
        if args.check and not is_ready(folder):
            say(f"there is no finished environment of the vendor's toolkit in {folder}")
            return 3
        ensure(folder, args.python, args.torch_index)
    except (SetupError, OSError) as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("interrupted; the next start makes it again")
        return 1
    print(folder / "bin" / "python")
    return 0


if __name__ == "__main__":
    sys.exit(main())
