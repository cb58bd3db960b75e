"""The agent: a program in C that runs on a board and drives the vendor's runtime library there.

``native`` are its sources, ``prebuilt`` what comes with the program; ``built`` finds the one for a
board, ``build`` compiles one.
"""
