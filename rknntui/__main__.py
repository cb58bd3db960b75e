"""``rknntui``: the workbench, or one of the verbs of the command line."""

from __future__ import annotations

import os
import sys

# ``python -m`` puts the folder where the user stands first: nothing in it may be imported instead
# of ours.
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - before imports
sys.path[:] = [
    entry
    for entry in sys.path
    if os.path.isabs(entry) and (entry == _HOME or entry != os.getcwd())  # noqa: PTH109, PTH117
]

import signal  # noqa: E402 - a signal.py where the user stands is not it
from collections.abc import Callable  # noqa: E402


def main(argv: list[str] | None = None) -> int:
    """Run the program; returns the exit code.

    A verb or a flag goes to the command line and never loads the interface; anything else is a path
    for the interface, which never loads the command line library.
    """
    arguments = sys.argv[1:] if argv is None else argv
    restore = _quiet_ctrl_c()
    if _is_command(arguments):
        from rknntui.cli.root import run

        restore()
        return run(arguments)
    restore()
    options = None
    if len(arguments) > 1:
        from engine import EngineError
        from rknntui.arguments import given_options

        try:
            options = given_options(arguments[1:])
        except EngineError as error:
            sys.stderr.write(f"error: {error.what}\n  fix: {error.remedy}\n")
            return error.exit_code
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        sys.stderr.write(
            "The workbench needs a terminal. Without one, use a verb: rknntui --help\n"
        )
        return 2
    from rknntui.launch import open_workbench

    return open_workbench(arguments[0] if arguments else None, given=options)


def _quiet_ctrl_c() -> Callable[[], None]:
    """Let Ctrl-C end the process without a traceback while modules are loading; how to undo it."""
    try:
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return lambda: None  # ignored (nohup, a shell's background), or a program's own
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    except ValueError:  # not the main thread
        return lambda: None

    def restore() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    return restore


def _is_command(arguments: list[str]) -> bool:
    from rknntui.cli.verbs import VERBS

    if os.environ.get("_RKNNTUI_COMPLETE"):  # a shell asks for completions
        return True
    if not arguments:
        return False
    first = arguments[0]
    if first in VERBS or first.startswith("-"):
        return True
    if len(arguments) > 1 and not arguments[1].startswith("--"):
        return True
    return not (os.path.exists(first) or "." in first or os.sep in first)  # noqa: PTH110


if __name__ == "__main__":
    sys.exit(main())
