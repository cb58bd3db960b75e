"""The workspace Run."""
