"""A board to try with, on loopback: the device side of adb over a folder like a board's."""
