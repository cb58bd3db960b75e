"""What goes between the worker and its front ends: a pair of frozen types for every method.

Standard library only. A module for each subject, imported where it is used: making a class takes a
millisecond, and a command needs a few of them.
"""
