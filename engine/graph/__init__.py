"""The engine's graph: its form (``ir``), its execution (``execute``) and its rewrites (``passes``)."""
