"""The graph: its form (``ir``), its execution (``execute``), its rewrites (``passes``)."""
