"""Boards behind an adb server: USB, or a network address that the user connected.

``server`` asks the adb server, ``states`` says what its answers mean, ``link`` is one connection,
``shell`` runs programs, ``files`` moves files, ``conversation`` keeps a program to be asked, and
``transport`` is the whole as :class:`~engine.devices.transport.Transport`.
"""
