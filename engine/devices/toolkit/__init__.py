"""Boards that the vendor's generation 1 toolkit reaches, and what only it can ask a board.

A board on NTB speaks with the toolkit alone: :mod:`~engine.devices.toolkit.board` has the toolkit
load and run a model there, through the bridge of :mod:`engine.toolkit.toolkit`, and
:mod:`~engine.devices.toolkit.jobs` answers ``run``, ``perf`` and ``memory`` by it.
"""
