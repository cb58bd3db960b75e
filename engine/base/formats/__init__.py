"""Formats of files that several readers share, read in place with every offset and length checked.

Standard library only.
"""
