"""Long actions in a worker process: protocol, client, history, worker and the pipeline of a build.

``protocol``, ``client``, ``history`` and ``record`` are standard library only; the interface
imports them.
"""
