"""RKNN TUI.

The workbench and the command line over ``engine``. Imports only what ``engine.__all__`` names.
"""
