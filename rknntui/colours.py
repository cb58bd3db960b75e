"""Themes as files, ours in ``themes/`` and the user's own beside their settings; which is shown."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.css.constants import VALID_STYLE_FLAGS
from textual.theme import Theme

if TYPE_CHECKING:
    from collections.abc import Callable

    from rknntui.compat import QuietCrashApp

DEFAULT = "dark"
FEW_COLOURS = "ansi"
"""Stands in for every theme where the terminal has 16 colours."""
MUTED = 0.62
"""How far text that matters less is from the background towards the text."""
LIMIT = 64 << 10

_COLOURS = {one.name for one in fields(Theme)} - {"name", "dark", "ansi", "variables"}
_COLOURS -= {"luminosity_spread", "text_alpha"}  # numbers


class ThemeError(Exception):
    """A theme file that cannot be used; the text says why."""


def theme_files() -> dict[str, Path]:
    """Name -> file; a user's theme replaces ours of the same name."""
    from engine import config_folder

    files: dict[str, Path] = {}
    for folder in (Path(__file__).parent / "themes", config_folder() / "themes"):
        with suppress(OSError):
            files |= {p.stem: p for p in sorted(folder.glob("*.toml")) if p.is_file()}
    return files


def read_theme(name: str) -> Theme:
    """The theme of that name.

    Raises:
        ThemeError: there is none, or its file is wrong; the message names the file and the key.
    """
    from engine import open_regular, sanitize

    path = theme_files().get(name)
    if path is None:
        raise ThemeError(sanitize(f"There is no theme {name}."))
    try:
        with open_regular(path) as stream:
            data = tomllib.loads(stream.read(LIMIT).decode())
    except (OSError, ValueError, RecursionError) as error:
        raise ThemeError(sanitize(f"{path}: {error}")) from error
    return _theme(name, path, data)


def _theme(name: str, path: Path, data: dict[str, Any]) -> Theme:  # Any: they are its parameters
    from textual.color import Color, ColorParseError

    from engine import sanitize

    variables = data.pop("variables", {})
    dark, ansi = bool(data.pop("dark", True)), bool(data.pop("ansi", False))
    unknown = sorted(set(data) - set(_COLOURS))
    if unknown or not isinstance(variables, dict):
        raise ThemeError(sanitize(f"{path}: unknown key {', '.join(unknown) or 'variables'}."))
    if "primary" not in data:
        raise ThemeError(f"{path}: the key primary is missing.")
    for key, value in data.items():
        try:
            Color.parse(value)
        except (ColorParseError, TypeError, AttributeError) as error:
            raise ThemeError(sanitize(f"{path}: {key} is not a colour: {value!r}.")) from error
    texts = {key: str(value) for key, value in variables.items()}
    for key, text in texts.items():
        if not _fits(key, text):
            kind = "text style" if _STYLE.search(key) else "colour"
            raise ThemeError(sanitize(f"{path}: the variable {key} is no {kind}: {text!r}."))
    if ansi:  # Textual's own style sheets use them, but its ansi colour system does not make them
        back, fore = ("ansi_black", "ansi_white") if dark else ("ansi_white", "ansi_black")
        texts = {"ansi-background": back, "ansi-foreground": fore, **texts}
    elif {"foreground", "background"} <= set(data):
        # Textual's own is "auto 60%", which a painted line would draw in plain black or white
        muted = Color.parse(data["background"]).blend(Color.parse(data["foreground"]), MUTED)
        texts = {"text-muted": muted.hex, **texts}
    return Theme(name, **data, dark=dark, ansi=ansi, variables=texts)


_VARIABLE = re.compile(r"[a-z][a-z0-9-]*")
_STYLE = re.compile(r"style(-hover)?$")
_AUTO = re.compile(r"auto( \d{1,3}%)?|initial")


def _fits(name: str, text: str) -> bool:
    """Whether Textual's style sheets take a variable: one that they do not stops the start."""
    from textual.color import Color, ColorParseError

    if not _VARIABLE.fullmatch(name):
        return False
    if _STYLE.search(name):
        return bool(text.split()) and set(text.split()) <= VALID_STYLE_FLAGS
    if _AUTO.fullmatch(text):
        return True
    colour, _, share = text.partition(" ")
    try:
        Color.parse(colour)
    except ColorParseError:
        return False
    return not share or re.fullmatch(r"\d{1,3}%", share) is not None


# The colours that are shown, and those that the next start shows.


class Theming:
    """Shows themes.

    Args:
        app: has the colours.
        name: of the theme to begin with; not shown by a terminal of few colours.
        tell: takes why a theme is not the wanted one.
    """

    def __init__(self, app: QuietCrashApp, name: str, tell: Callable[[str], object]) -> None:
        self._app = app
        self._wanted = name
        self._tell = tell
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
            self._tell(f"{error} The theme {DEFAULT} is used.")
            if name != DEFAULT:
                self.use(DEFAULT)
            return False
        self._app.register_theme(theme)
        self._app.theme = theme.name
        return True
