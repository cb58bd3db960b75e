"""The actions of Devices, and what its empty list says."""

from __future__ import annotations

from rknntui.keys.actions import Action
from rknntui.widgets.record_view import table_actions

ACTIONS = (
    Action(
        "devices.run", "Start", "Ask or examine the board, or start and stop a watch.", ("r",), True
    ),
    Action("devices.next-view", "View", "Switch between Facts, Doctor and Monitor.", ("v",), True),
    Action("devices.use", "Use", "Use the board under the cursor in Run.", ("enter",)),
    Action(
        "devices.mark", "Mark", "Mark the board: all marked ones are watched.", ("space",), True
    ),
    Action("devices.pause", "Pause", "Hold the sparklines or the recording.", ("p",), True),
    Action("devices.record", "Record…", "Watch, and record it to a file.", ("w",), True),
    Action("devices.replay", "Replay…", "Show a recording again.", ("R",), True),
    Action("devices.add", "Add SSH board…", "Add a board by its SSH address.", ("a",), True),
    Action("devices.server", "Start adb", "Start the adb server of this machine.", ("t",), True),
    Action("devices.faster", "Faster", "Look more often: 1, 2, 5 or 10 times a second.", ("plus",)),
    Action("devices.slower", "Slower", "Look less often.", ("minus",)),
    Action("devices.forget", "Remove", "Remove an SSH board from the list.", ("delete",)),
    *table_actions("devices"),
)
OF_MONITOR = ("mark", "pause", "record", "replay", "faster", "slower")
"""Actions of the view Monitor alone."""

NO_BOARD = """No board was found.

USB: connect the board and enable USB debugging (adb) on it.
Network: `adb connect ADDRESS:5555` in a shell, or {devices.add} for a board over SSH.
No board: `rknntui devices emulate rk3588` in a shell emulates one."""
