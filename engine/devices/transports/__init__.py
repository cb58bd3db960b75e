"""The ways to a board, a module each; all are :class:`engine.devices.transport.Transport`."""
