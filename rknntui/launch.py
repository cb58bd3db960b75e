"""Opening the workbench, and what is said where it ends by a mistake of its own."""

from __future__ import annotations

import sys


def open_workbench(
    path: str | None = None,
    recipe: dict[str, object] | None = None,
    given: dict[str, object] | None = None,
) -> int:
    """Open the workbench; returns the exit code.

    Args:
        path: a model, recipe or container; without it, what was open the last time.
        recipe: option name -> value, to open instead.
        given: options of the source model at ``path``.
    """
    from rknntui.app import Workbench

    app = Workbench(path, recipe=recipe, options=given)
    app.run()
    if sys.stdout.isatty():
        sys.stdout.write(app.announcer.restore)
        sys.stdout.flush()  # before what is told on the other stream
    for line in app.told_files:
        sys.stderr.write(f"{line}\n")
    if app.crash is not None:
        from engine import sanitize
        from rknntui.screens.dialogs.dialogs import crash_line

        what = f"{type(app.crash).__name__}: {sanitize(str(app.crash))}"
        sys.stderr.write(
            f"The workbench stopped because of an internal error: {what}. {crash_line(app.crash)}\n"
        )
        return 70
    return app.return_code or 0
