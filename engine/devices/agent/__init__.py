"""The agent: a program that runs on a board and drives the vendor's runtime library there.

``far_side`` is the program, in the language of Python 3.5; ``bundle`` packs it into one file.
"""
