"""Where this program keeps what nobody asked for by name: state, cache and settings.

platformdirs is imported on use: the interface process asks after its first paint only.
"""

from __future__ import annotations

import os
import time
import traceback
from pathlib import Path

__all__ = ["cache_folder", "config_folder", "folders", "log_crash", "state_folder"]

_NAME = "rknntui"


def state_folder() -> Path:
    """History, jobs, logs and the interface's state (``$XDG_STATE_HOME/rknntui`` on Linux)."""
    import platformdirs

    return Path(platformdirs.user_state_dir(_NAME, appauthor=False))


def cache_folder() -> Path:
    """Results that can be computed again (``$XDG_CACHE_HOME/rknntui``)."""
    import platformdirs

    return Path(platformdirs.user_cache_dir(_NAME, appauthor=False))


def config_folder() -> Path:
    """Settings, key maps and themes of the user (``$XDG_CONFIG_HOME/rknntui``)."""
    import platformdirs

    return Path(platformdirs.user_config_dir(_NAME, appauthor=False))


def folders() -> dict[str, Path]:
    """All three by name."""
    return {"state": state_folder(), "cache": cache_folder(), "config": config_folder()}


def log_crash(error: BaseException) -> Path | None:
    """Write the traceback of a mistake of this program to a new log file.

    Returns:
        Its path, or None where it cannot be written: telling a crash must never crash.
    """
    text = "".join(traceback.format_exception(error))
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        place = state_folder() / "logs"
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"crash-{stamp}-{os.getpid()}.log"
        path.write_text(text, encoding="utf-8")
    except OSError:
        return None
    return path
