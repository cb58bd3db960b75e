"""The vendor's compiler: a build becomes a compiled model, and what it printed becomes data."""
