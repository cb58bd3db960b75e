"""The colours that are shown, and those that the next start shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rknntui.colours import DEFAULT, FEW_COLOURS, ThemeError, read_theme

if TYPE_CHECKING:
    from rknntui.compat import QuietCrashApp


class Theming:
    """Shows themes.

    Args:
        app: has the colours.
        wanted: the name of the theme to begin with; not shown by a terminal of few colours.
    """

    def __init__(self, app: QuietCrashApp, name: str) -> None:
        self._app = app
        self._wanted = name
        self._problem = ""
        self.use(FEW_COLOURS if app.colours == "standard" else name)

    @property
    def remembered(self) -> str:
        """The theme for the next start: what was chosen, maybe in a terminal of more colours."""
        few = self._app.colours == "standard" and self._app.theme == FEW_COLOURS
        return self._wanted if few else self._app.theme

    def use(self, name: str) -> bool:
        """Show the colours of a theme.

        A bad one leaves the default with a notice. True when it was good.
        """
        try:
            theme = read_theme(name)
        except ThemeError as error:
            self._problem = f"{error} The theme {DEFAULT} is used."
            if self._app.is_running:
                self.tell()
            if name != DEFAULT:
                self.use(DEFAULT)
            return False
        self._app.register_theme(theme)
        self._app.theme = theme.name
        return True

    def tell(self) -> None:
        """Say why a theme is not the wanted one, where that is so."""
        if self._problem:
            self._app.notify(self._problem, title="Theme", severity="warning", markup=False)
