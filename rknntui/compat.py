"""The only place that touches what Textual 8.2.8 does not promise.

Its version is pinned exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import App

if TYPE_CHECKING:
    from textual.binding import Binding
    from textual.screen import Screen

__all__ = ["QuietCrashApp", "bindings_in_reach"]


class QuietCrashApp(App[None]):
    """Keeps the exception that ended it instead of printing a traceback on the terminal."""

    crash: BaseException | None = None

    def _fatal_error(self) -> None:
        self.crash = self._exception
        self._close_messages_no_wait()


def bindings_in_reach(screen: Screen) -> list[tuple[str, list[Binding]]]:
    """The bindings from the focused widget outwards: (css name of the widget, its bindings)."""
    return [
        (node.css_identifier, [binding for _, binding in bindings])
        for node, bindings in screen._modal_binding_chain
    ]
