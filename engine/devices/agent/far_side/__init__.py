"""What runs on the board: standard library and ctypes only, in the language of Python 3.5."""
