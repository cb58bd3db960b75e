"""The workspace Jobs."""
