"""The actions of Devices, and what its empty list says."""

from __future__ import annotations

from rknntui.keys.actions import Action
from rknntui.widgets.record_view import table_actions

__all__ = ["ACTIONS", "NO_BOARD"]

ACTIONS = (
    Action("devices.use", "Use", "Use the board under the cursor in Run.", ("enter",)),
    Action("devices.refresh", "Refresh", "Look at the board again.", ("r",), True),
    Action("devices.add", "Add SSH board…", "Add a board by its SSH address.", ("a",), True),
    Action("devices.server", "Start adb", "Start the adb server of this machine.", ("t",), True),
    Action("devices.forget", "Remove", "Remove an SSH board from the list.", ("delete",)),
    *table_actions("devices"),
)

NO_BOARD = """No board was found.

USB: connect the board and enable USB debugging (adb) on it.
Network: `adb connect ADDRESS:5555` in a shell, or {devices.add} for a board over SSH.
No board: `rknntui devices emulate rk3588` in a shell emulates one."""
