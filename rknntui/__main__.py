"""``rknntui``: the workbench, or one of the verbs of the command line."""

from __future__ import annotations

import os
import sys
from typing import Any

# ``python -m`` puts the folder where the user stands first: nothing in it may be imported instead
# of ours.
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - before imports
sys.path[:] = [
    entry
    for entry in sys.path
    if os.path.isabs(entry) and (entry == _HOME or entry != os.getcwd())  # noqa: PTH109, PTH117
]


def main(argv: list[str] | None = None) -> int:
    """Run the program; returns the exit code.

    A verb or a flag goes to the command line and never loads the interface; anything else is a path
    for the interface, which never loads the command line library.
    """
    arguments = sys.argv[1:] if argv is None else argv
    if _is_command(arguments):
        from rknntui.cli import main as run

        return run(arguments)
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        sys.stderr.write(
            "The workbench needs a terminal. Without one, use a verb: rknntui --help\n"
        )
        return 2
    return open_workbench(arguments[0] if arguments else None)


def _is_command(arguments: list[str]) -> bool:
    from rknntui.cli.verbs import VERBS

    if os.environ.get("_RKNNTUI_COMPLETE"):  # a shell asks for completions
        return True
    if not arguments:
        return False
    first = arguments[0]
    if first in VERBS or first.startswith("-") or len(arguments) > 1:
        return True
    return not (os.path.exists(first) or "." in first or os.sep in first)  # noqa: PTH110


def open_workbench(path: str | None = None, recipe: dict[str, Any] | None = None) -> int:
    """Open the workbench; returns the exit code.

    Args:
        path: a model, recipe or container; without it, what was open the last time.
        recipe: option name -> value, to open instead.
    """
    from rknntui.app import Workbench

    app = Workbench(path, recipe=recipe)
    app.run()
    if app.crash is not None:
        from rknntui.report import crash_line

        what = f"{type(app.crash).__name__}: {app.crash}"
        sys.stderr.write(
            f"The workbench ended by a mistake of its own: {what}. {crash_line(app.crash)}\n"
        )
        return 70
    return app.return_code or 0


if __name__ == "__main__":
    sys.exit(main())
